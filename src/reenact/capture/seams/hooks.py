"""Putting seams into libraries, without importing any: as soon as one is there, or when it is imported later."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple

from reenact.effect.boundary import outside, replays
from reenact.effect.lanes import Lane
from reenact.effect.places import PLACE, nowhere

_lock = threading.RLock()
_awaited: set[str] = set()
"""Modules whose import is waited for: that is told once in a process."""
_telling = threading.Lock()
_wanted: dict[str, Seam] = {}
_undo: dict[str, list[Callable[[], None]]] = {}


class Seam(NamedTuple):
    module: str
    """The library's, in which something is replaced."""
    ours: str
    """Ours, imported only once the library is: its `put_into(module, replace)` says what."""


Replace = Callable[[Any, str, Callable[..., Any]], None]
"""(owner, name, wrapper): the wrapper is called with the original and then as the original was."""


def install(seams: Iterable[Seam]) -> None:
    with _lock:
        for seam in seams:
            _wanted[seam.module] = seam
            _lookout.wait_for(seam.module)
            if seam.module in sys.modules:
                _put(seam, sys.modules[seam.module])


def uninstall(seams: Iterable[Seam]) -> None:
    with _lock:
        for seam in seams:
            _wanted.pop(seam.module, None)
            for undo in reversed(_undo.pop(seam.module, [])):
                undo()


class _Lookout:
    """Stands before all finders until one of the modules is looked for. Only then `wrapt` is loaded, which tells when
    they have been imported: a program that asks for none of them does not wait for it."""

    def __init__(self) -> None:
        self._is_over = False

    def wait_for(self, name: str) -> None:
        if name in _awaited:
            return
        _awaited.add(name)
        if self._is_over:
            _be_told(name)
        elif self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _awaited:
            return None
        with _telling:
            if not self._is_over:
                for awaited in _awaited:
                    _be_told(awaited)
                self._is_over = True
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None


_lookout = _Lookout()


def _be_told(name: str) -> None:
    with nowhere():  # its locks are not the program's
        import wrapt

    wrapt.register_post_import_hook(partial(_imported, name), name)


def _imported(name: str, module: ModuleType) -> None:
    with _lock:
        seam = _wanted.get(name)
        if seam is not None:
            _put(seam, module)


def _put(seam: Seam, module: ModuleType) -> None:
    if seam.module in _undo:
        return
    undo = _undo[seam.module] = []

    def replace(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        original = owner.__dict__[name]

        @wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        setattr(owner, name, wrapped)
        undo.append(partial(setattr, owner, name, original))

    importlib.import_module(seam.ours).put_into(module, replace)


def lane_here() -> Lane | None:
    """The lane that asks. None: nothing is to be recorded, since this is outside of any run or inside an effect."""
    place = PLACE.get()
    if type(place) is Lane:
        return place
    if place is None and replays and threading.get_ident() in replays:
        outside("an HTTP request")  # stops the replay: nothing goes out unseen
    return None
