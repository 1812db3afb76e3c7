"""Regular expressions that are compiled at first use: there are dozens, and most programs need few."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import AnyStr, Generic

_METHODS = ("finditer", "fullmatch", "match", "search", "sub")


class Pattern(Generic[AnyStr]):
    """A stand-in for the object that `re.compile` returns."""

    __slots__ = ("flags", "pattern", *_METHODS)

    finditer: Callable[..., Iterator[re.Match[AnyStr]]]
    fullmatch: Callable[..., re.Match[AnyStr] | None]
    match: Callable[..., re.Match[AnyStr] | None]
    search: Callable[..., re.Match[AnyStr] | None]
    sub: Callable[..., AnyStr]

    def __init__(self, pattern: AnyStr, flags: int = 0) -> None:
        self.pattern: AnyStr = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> object:
        """Compile on the first access: afterwards the methods are found in their slots."""
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self.flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)
