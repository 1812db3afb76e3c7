"""The classes that a reader may build, and their labels.

A label in a recording is data: it is looked up among the registered classes and, only for recordings of the reader's
own store, among loaded classes. Nothing is ever imported because data names it.
"""

from __future__ import annotations

import builtins
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from functools import lru_cache
from os.path import basename, splitext
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from onrecord.errors import InvalidInput


class Registered(NamedTuple):
    cls: type
    name: str
    to_data: Callable[[Any], Any]
    from_data: Callable[[Any], Any]


class Registry:
    """The caller's own types, each with a name and functions to plain data and back."""

    def __init__(self, base: Registry | None = None) -> None:
        self._by_class: dict[type, Registered] = dict(base._by_class) if base else {}
        self._by_name: dict[str, Registered] = dict(base._by_name) if base else {}

    def register_type(
        self, cls: type, name: str, to_data: Callable[[Any], Any], from_data: Callable[[Any], Any]
    ) -> None:
        if not isinstance(cls, type) or not name or not isinstance(name, str):
            raise InvalidInput("register_type needs a class and a name that is not empty")
        known = self._by_name.get(name)
        if known is not None and label_of(known.cls) != label_of(cls):
            raise InvalidInput(f"the type name {name!r} is taken by {label_of(known.cls)}")
        entry = Registered(cls, name, to_data, from_data)
        self._by_class[cls] = entry
        self._by_name[name] = entry

    def for_class(self, cls: type) -> Registered | None:
        return self._by_class.get(cls)

    def for_name(self, name: str) -> Registered | None:
        return self._by_name.get(name)


_MAIN = ("__main__", "__mp_main__")
_scripts: dict[str, str] = {}
"""The module name of a loaded script → the name that its classes have in labels."""
_UNREACHABLE = "<unreachable>."


def name_script(loaded: str, name: str) -> None:
    """Label the classes of a loaded module as those of a script of that name, and find them by these labels."""
    _scripts[loaded] = name
    _recorded_label.cache_clear()


def name_of_main() -> str:
    """Return the name that `__main__` is imported by, so that labels do not depend on how its file was started."""
    main = sys.modules.get("__main__")
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None and spec.name not in _MAIN:
        return str(spec.name)
    return splitext(basename(file))[0] if isinstance(file, str) else "__main__"


def label_of(cls: type) -> str:
    """Return `module:qualified.name`, always valid UTF-8 text.

    A script that another module imports too exists twice: the class of the started one has the module `__main__`.
    """
    module, path = cls.__module__, cls.__qualname__
    script = name_of_main() if module in _MAIN else _scripts.get(module)
    if script is not None:
        module = script if _class_in(script, path) in (None, cls) else "__main__"
    label = f"{module}:{path}"
    return label if label.isascii() else label.encode("utf-8", "backslashreplace").decode()


def recorded_label(cls: type) -> str:
    """Return the label of a class. If a look-up by it does not give the class, mark the label so that it never will:
    the agent got a stand-in when the value was recorded, and gets one again.
    """
    return _recorded_label(cls, len(sys.modules))


@lru_cache(maxsize=1024)
def _recorded_label(cls: type, _modules: int) -> str:
    """`_modules` is the number of loaded modules: another one may hold a class of that name."""
    label = label_of(cls)
    if loaded_class(label) is cls or is_unreachable(label):
        return label
    return label.replace(":", f":{_UNREACHABLE}", 1)


def is_unreachable(label: str) -> bool:
    """Return True if no reader can find the class: it was made in a function, or its label is marked."""
    return "<" in label


def unmarked(label: str) -> str:
    return label.replace(_UNREACHABLE, "", 1)


# Building the standard library's own containers and exceptions runs no user code.
_CONTAINERS: tuple[type, ...] = (OrderedDict, defaultdict, Counter, deque)
_BUILT_INS: list[type] = [each for each in vars(builtins).values() if isinstance(each, type)]
_STANDARD: dict[str, type] = {
    label_of(cls): cls for cls in (*_CONTAINERS, *_BUILT_INS) if issubclass(cls, (*_CONTAINERS, BaseException))
}


def standard_class(label: str) -> type | None:
    return _STANDARD.get(label)


def loaded_class(label: str) -> type | None:
    """Return the class with that label if its module is loaded. Dictionary look-ups run no lazy import."""
    module, _, path = label.partition(":")
    names = [] if module in _MAIN else [module]
    names += [loaded for loaded, script in reversed(_scripts.items()) if module in (script, *_MAIN)]
    names += ["__main__"] if module in (name_of_main(), *_MAIN) else []
    return next((cls for name in names if (cls := _class_in(name, path)) is not None), None)


def _class_in(module: str, path: str) -> type | None:
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = vars(found).get(name) if isinstance(found, ModuleType | type) else None
    # The class must be the module's own: an alias in another module is not the recorded class.
    is_own = isinstance(found, type) and (found.__module__ == module or {found.__module__, module} <= set(_MAIN))
    return found if is_own and found.__qualname__ == path else None


default_registry = Registry()
default_registry.register_type(
    SimpleNamespace, "types:SimpleNamespace", lambda value: dict(vars(value)), lambda data: SimpleNamespace(**data)
)


def register_type(cls: type, name: str, to_data: Callable[[Any], Any], from_data: Callable[[Any], Any]) -> None:
    """Register a type in the default registry. `to_data` returns plain data or anything that the codec can encode."""
    default_registry.register_type(cls, name, to_data, from_data)
