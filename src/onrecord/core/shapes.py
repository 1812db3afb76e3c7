"""Checks of decoded values: what a member of an event holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onrecord.core.hashing import parse_hash
from onrecord.errors import InvalidValue

Check = Callable[[Any], bool]


class Shape:
    """The members of an object. Further members are allowed."""

    def __init__(self, required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> None:
        self._required = required
        self._checks = {**required, **(optional or {})}

    def __call__(self, value: Any) -> bool:
        if type(value) is not dict or not value.keys() >= self._required.keys():
            return False
        return all(check(value[name]) for name, check in self._checks.items() if name in value)


def is_text(value: Any) -> bool:
    return type(value) is str


def is_data(value: Any) -> bool:
    """Return True for text and bytes. A path that is not UTF-8 is recorded as bytes."""
    return type(value) in (str, bytes)


def is_integer(value: Any) -> bool:
    return type(value) is int


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def is_true(value: Any) -> bool:
    return value is True


def is_object(value: Any) -> bool:
    return type(value) is dict


def is_hash(value: Any) -> bool:
    try:
        parse_hash(value)
    except InvalidValue:
        return False
    return True


def one_of(*words: str) -> Check:
    return lambda value: type(value) is str and value in words


def list_of(check: Check) -> Check:
    return lambda value: type(value) is list and all(map(check, value))


def object_of(check: Check) -> Check:
    """Return a check of an object with any names whose values pass."""
    return lambda value: (
        type(value) is dict and all(type(name) is str for name in value) and all(map(check, value.values()))
    )
