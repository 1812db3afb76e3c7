"""Putting seams into libraries, without importing any: as soon as one is there, or when it is imported later."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial, wraps
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple

from reenact.effect.boundary import outside, replays
from reenact.effect.lanes import Lane
from reenact.effect.places import PLACE, nowhere

_lock = threading.RLock()
_wanted: dict[str, Seam] = {}
_undo: dict[str, list[Callable[[], None]]] = {}
Imported = Callable[[ModuleType], None]


class Seam(NamedTuple):
    module: str
    """The library's, in which something is replaced."""
    ours: str
    """Ours, imported only once the library is: its `put_into(module, replace)` says what."""


Replace = Callable[[Any, str, Callable[..., Any]], None]
"""(owner, name, wrapper): the wrapper is called with the original and then as the original was. A class takes the place
of the original as it is."""


def install(seams: Iterable[Seam]) -> None:
    for seam in seams:
        with _lock:
            _wanted[seam.module] = seam
        on_import(seam.module, partial(_imported, seam.module))


def uninstall(seams: Iterable[Seam]) -> None:
    with _lock:
        for seam in seams:
            _wanted.pop(seam.module, None)
            for undo in reversed(_undo.pop(seam.module, [])):
                undo()


def on_import(name: str, call: Imported) -> None:
    """Has it called with the module: now, if it is there, or as soon as it has been imported."""
    _lookout.awaited[name] = call
    if _lookout not in sys.meta_path:
        sys.meta_path.insert(0, _lookout)
    module = sys.modules.get(name)
    if module is not None:
        call(module)


class _Lookout:
    """Stands before all finders, and sees to it that the loader of an awaited module tells when it has loaded it.

    Python asks finders with the lock of all imports held: whoever imports something here, as hooks of `wrapt` do to
    find a module's parent, waits for ever for a thread that is about to import.
    """

    def __init__(self) -> None:
        self.awaited: dict[str, Imported] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        call = self.awaited.get(name)
        if call is None:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                _tell_when_loaded(name, spec.loader, call)
                return spec  # type: ignore[no-any-return]
        return None


_lookout = _Lookout()


def _tell_when_loaded(name: str, loader: Any, call: Imported) -> None:
    """By the loader's own method, as long as it loads this one: whoever looks at the loader sees what it is."""
    load = getattr(loader, "exec_module", None)
    if load is None:
        return

    def load_and_tell(module: ModuleType) -> None:
        if module.__name__ != name:  # one loader may be that of several
            load(module)
            return
        loader.__dict__.pop("exec_module", None)
        load(module)
        call(module)

    with suppress(AttributeError, TypeError):  # one that lets nobody do so is none of any library that is awaited
        loader.exec_module = load_and_tell


def _imported(name: str, module: ModuleType) -> None:
    seam = _wanted.get(name)
    if seam is not None:
        _put(seam, module)


def _put(seam: Seam, module: ModuleType) -> None:
    with nowhere():  # its locks are not the program's
        ours = importlib.import_module(seam.ours)  # not with our lock held: another thread may have to wait for both
    with _lock:
        if seam.module not in _undo:
            _put_ours(seam, ours, module)


def _put_ours(seam: Seam, ours: Any, module: ModuleType) -> None:
    undo = _undo[seam.module] = []

    def replace(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        original = owner.__dict__[name]

        @wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        setattr(owner, name, wrapper if isinstance(wrapper, type) else wrapped)
        undo.append(partial(setattr, owner, name, original))

    ours.put_into(module, replace)


def lane_here() -> Lane | None:
    """The lane that asks. None: nothing is to be recorded, since this is outside of any run or inside an effect."""
    place = PLACE.get()
    if type(place) is Lane:
        return place
    if place is None and replays and threading.get_ident() in replays:
        outside("an HTTP request")  # stops the replay: nothing goes out unseen
    return None
