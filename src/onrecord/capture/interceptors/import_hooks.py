"""Install interceptors into libraries without importing the libraries: now if loaded, otherwise after their import."""

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

from onrecord.runtime.engine.context import inside

_lock = threading.RLock()
_wanted: dict[str, Interceptor] = {}
_undo: dict[str, list[Callable[[], None]]] = {}
_replaced: dict[str, list[tuple[Any, str]]] = {}
"""Owners and names of what was replaced, by module."""
_OURS = "_is_onrecord_wrapper"
ImportCallback = Callable[[ModuleType], None]


class Interceptor(NamedTuple):
    module: str
    """Module of the library that is patched."""
    patcher: str
    """Our module, imported after the library's. Its `patch(module, replace)` makes the replacements."""


Replace = Callable[[Any, str, Callable[..., Any]], None]
"""Function (owner, name, wrapper). The wrapper receives the original function, then the caller's arguments. A wrapper
that is a class replaces the original directly."""


def install(interceptors: Iterable[Interceptor]) -> None:
    for interceptor in interceptors:
        with _lock:
            _wanted[interceptor.module] = interceptor
        on_import(interceptor.module, partial(_install_after_import, interceptor.module))


def uninstall(interceptors: Iterable[Interceptor]) -> None:
    with _lock:
        for interceptor in interceptors:
            _wanted.pop(interceptor.module, None)
            _replaced.pop(interceptor.module, None)
            for undo in reversed(_undo.pop(interceptor.module, [])):
                undo()


def restore_interceptors() -> None:
    """Replace again what someone else has put back, such as a mock that was there at the first replacement."""
    for name, places in list(_replaced.items()):
        if not all(getattr(owner.__dict__.get(attribute), _OURS, False) for owner, attribute in places):
            with _lock:
                interceptor = _wanted.get(name)
                if interceptor is not None and name in sys.modules:
                    _patch(interceptor, sys.modules[interceptor.patcher], sys.modules[name])


def find_holders(name: str, original: Any) -> list[ModuleType]:
    """Return the loaded modules that hold a function under this name."""
    return [one for one in list(sys.modules.values()) if getattr(one, "__dict__", {}).get(name) is original]


def on_import(name: str, call: ImportCallback) -> None:
    """Call `call` with the named module: now if it is loaded, otherwise right after its import."""
    _watcher.awaited[name] = call
    if _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)
    module = sys.modules.get(name)
    if module is not None:
        call(module)


class _ImportWatcher:
    """Meta path finder, first in the list, that makes the loader of an awaited module report when it has loaded it.

    It must not import anything: Python calls finders with the global import lock held, so an import here (as in the
    hooks of `wrapt`) can deadlock with another thread that imports.
    """

    def __init__(self) -> None:
        self.awaited: dict[str, ImportCallback] = {}

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
                _report_load(name, spec.loader, call)
                return spec  # type: ignore[no-any-return]
        return None


_watcher = _ImportWatcher()


def _report_load(name: str, loader: Any, call: ImportCallback) -> None:
    """Shadow the loader's `exec_module` until the module is loaded, so that the loader keeps its class and identity."""
    load = getattr(loader, "exec_module", None)
    if load is None:
        return

    def load_and_report(module: ModuleType) -> None:
        if module.__name__ != name:  # a loader may load several modules
            load(module)
            return
        loader.__dict__.pop("exec_module", None)
        load(module)
        call(module)

    with suppress(AttributeError, TypeError):  # no awaited library has a loader that refuses this
        loader.exec_module = load_and_report


def _install_after_import(name: str, module: ModuleType) -> None:
    interceptor = _wanted.get(name)
    if interceptor is None:
        return
    with inside():  # locks made during this import are not the program's
        patcher = importlib.import_module(interceptor.patcher)  # without our lock: import locks and ours could deadlock
    with _lock:
        if interceptor.module not in _undo:
            _patch(interceptor, patcher, module)


def _patch(interceptor: Interceptor, patcher: Any, module: ModuleType) -> None:
    undo = _undo.setdefault(interceptor.module, [])
    places = _replaced[interceptor.module] = []

    def replace(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        original = owner.__dict__[name]
        places.append((owner, name))
        if getattr(original, _OURS, False):
            return

        @wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        made: Any = wrapper if isinstance(wrapper, type) else wrapped
        setattr(made, _OURS, True)
        setattr(owner, name, made)
        undo.append(partial(setattr, owner, name, original))

    patcher.patch(module, replace)
