"""Columns of a type that the schema forbids are damage, and are found where rows are made.

The tables are STRICT, but a file can be changed with that lifted and put back. Later such a value would be a
TypeError far away from its cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from types import NoneType

from reenact.errors import Damaged
from reenact.store.contract import EventRow

_WHOLE, _TEXT, _BYTES = (int,), (str,), (bytes,)
_BYTES_OR_NONE, _WHOLE_OR_NONE, _TEXT_OR_NONE = (bytes, NoneType), (int, NoneType), (str, NoneType)

_EVENT_COLUMNS = (_WHOLE, _TEXT, _TEXT, _TEXT, _WHOLE_OR_NONE, _BYTES, _BYTES, *(_BYTES_OR_NONE,) * 4)

_EVENT_TYPES = tuple(map(frozenset, _EVENT_COLUMNS))

Types = frozenset[tuple[type, ...]]


def _all(*columns: tuple[type, ...]) -> Types:
    return frozenset(product(*columns))


EVENT = _all(*_EVENT_COLUMNS)
NO_EVENT: Types = frozenset([(NoneType,) * len(_EVENT_COLUMNS)])
RUN = _all(_TEXT, _TEXT, _WHOLE, _BYTES, _BYTES, *(_BYTES_OR_NONE,) * 3, _WHOLE, _WHOLE)
INBOX = _all(_WHOLE, _TEXT, _BYTES, _WHOLE)
SNAPSHOT = _all(_WHOLE, _BYTES, _TEXT, _WHOLE, _BYTES, _BYTES)
NODE = _all(_BYTES, _BYTES)
LEASE = _all(_WHOLE, _TEXT_OR_NONE, _WHOLE_OR_NONE, _TEXT_OR_NONE)
NAME = _all(_TEXT)


def check(row: Sequence[object], allowed: Types, what: str) -> None:
    """`what` may name the row's first column, its number, as {}."""
    if tuple(map(type, row)) not in allowed:
        raise _damaged(row, what)


def event(row: Sequence[object], run: object) -> EventRow:
    if tuple(map(type, row)) not in EVENT:
        raise _damaged(row, f"event {{}} of run {str(run)!r}")
    return EventRow._make(row)


def check_events(rows: Sequence[EventRow], run: str) -> None:
    """Many at once, column by column: that is the faster way."""
    for column, allowed in zip(zip(*rows, strict=True), _EVENT_TYPES, strict=False):
        if not allowed.issuperset(map(type, column)):
            for row in rows:
                event(row, run)


def _damaged(row: Sequence[object], what: str) -> Damaged:
    name = what.replace("{}", repr(row[0])[:80])
    types = ", ".join(type(value).__name__ for value in row)
    return Damaged(f"{name} has a column of the wrong type ({types})", code="bad_row")
