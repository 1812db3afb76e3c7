"""Replacements of functions of the standard library, such as `time.time`, by functions that record.

A module that did `from time import time` holds the function itself. Where code was imported before, the names of loaded
modules are replaced as well. A function that someone else has replaced, such as a test's clock, is left alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, ModuleType
from typing import Any, NamedTuple


class Replacement(NamedTuple):
    owner: Any
    """Module or class."""
    name: str
    real: Any
    wrapper: Any


class Binding(NamedTuple):
    """Name that held an original."""

    owner: Any
    name: str
    original: Any

    def restore(self) -> None:
        setattr(self.owner, self.name, self.original)


def replace_all(
    replacements: Iterable[Replacement], includes: Callable[[ModuleType], bool] | None = None
) -> list[Binding]:
    """Replace the functions, also in every loaded module that `includes` accepts. Return what was changed."""
    changed, wrappers = [], {}
    for one in replacements:
        held = vars(one.owner).get(one.name)
        if isinstance(one.owner, ModuleType):  # by these names it is pickled
            one.wrapper.__module__, one.wrapper.__name__ = one.owner.__name__, one.name
            one.wrapper.__qualname__ = one.name
        if held == one.real or _are_equal_builtins(held, one.real):
            setattr(one.owner, one.name, one.wrapper)
            wrappers[id(held)] = one.wrapper
            changed.append(Binding(one.owner, one.name, held))
    return changed if includes is None or not wrappers else [*changed, *_replace_in_modules(wrappers, includes)]


def _are_equal_builtins(one: Any, other: Any) -> bool:
    """Return True for one function of two copies of a module in C."""
    return type(one) is type(other) is BuiltinFunctionType and one.__name__ == other.__name__


def _replace_in_modules(wrappers: dict[int, Any], includes: Callable[[ModuleType], bool]) -> list[Binding]:
    changed = []
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and includes(module):
            found = [(name, value) for name, value in list(vars(module).items()) if id(value) in wrappers]
            for name, value in found:
                vars(module)[name] = wrappers[id(value)]
                changed.append(Binding(module, name, value))
    return changed
