"""Which classes a reader may build, and what they are called.

A label in a recording is data: it is looked up among the classes registered here and, only for recordings
made by the reader's own store, among classes already loaded. Nothing is ever imported because data names it.
"""

from __future__ import annotations

import builtins
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from reenact.errors import InvalidInput


class Registered(NamedTuple):
    cls: type
    name: str
    to_data: Callable[[Any], Any]
    from_data: Callable[[Any], Any]


class Registry:
    """The caller's own types: each with a name, a function to plain data and one back."""

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


def label_of(cls: type) -> str:
    """`module:qualified.name`, always writable text."""
    label = f"{cls.__module__}:{cls.__qualname__}"
    return label if label.isascii() else label.encode("utf-8", "backslashreplace").decode()


# The standard library's own containers and exceptions run no code of anyone when they are built.
_CONTAINERS: tuple[type, ...] = (OrderedDict, defaultdict, Counter, deque)
_BUILT_INS: list[type] = [each for each in vars(builtins).values() if isinstance(each, type)]
_STANDARD: dict[str, type] = {
    label_of(cls): cls for cls in (*_CONTAINERS, *_BUILT_INS) if issubclass(cls, (*_CONTAINERS, BaseException))
}


def standard_class(label: str) -> type | None:
    return _STANDARD.get(label)


def loaded_class(label: str) -> type | None:
    """The class of that label if its module is loaded; looked up in dictionaries, so no lazy import runs."""
    module_name, _, path = label.partition(":")
    found: Any = sys.modules.get(module_name)
    if not isinstance(found, ModuleType) or not path:
        return None
    for name in path.split("."):
        found = vars(found).get(name) if isinstance(found, ModuleType | type) else None
    # The label must be the class's own: an alias in some module is not what was recorded.
    return found if isinstance(found, type) and label_of(found) == label else None


default_registry = Registry()
default_registry.register_type(
    SimpleNamespace,
    "types:SimpleNamespace",
    lambda value: dict(vars(value)),
    lambda data: SimpleNamespace(**data),
)


def register_type(cls: type, name: str, to_data: Callable[[Any], Any], from_data: Callable[[Any], Any]) -> None:
    """Teach the default registry a type. `to_data` gives plain data (or anything the codec carries)."""
    default_registry.register_type(cls, name, to_data, from_data)
