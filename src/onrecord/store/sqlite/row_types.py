"""Columns of a type that the schema forbids are damage, and are found where rows are made.

The tables are STRICT, but a file can be changed with that lifted and put back. Later such a value would be a
TypeError far away from its cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product, takewhile
from types import NoneType
from typing import Any

from reenact.errors import Damaged
from reenact.store.contract import EventRow
from reenact.store.sqlite import short_links

_WHOLE, _TEXT, _BYTES = (int,), (str,), (bytes,)
_BYTES_OR_NONE, _WHOLE_OR_NONE, _TEXT_OR_NONE = (bytes, NoneType), (int, NoneType), (str, NoneType)

_EVENT_COLUMNS = (_WHOLE, _TEXT, _TEXT, _TEXT, _WHOLE_OR_NONE, _BYTES, _BYTES, *(_BYTES_OR_NONE,) * 4)

_BYTES_ONLY, _BYTES_OR_NONE_ONLY, _WHOLE_OR_NONE_ONLY = map(frozenset, (_BYTES, _BYTES_OR_NONE, _WHOLE_OR_NONE))

Types = frozenset[tuple[type, ...]]


def _all(*columns: tuple[type, ...]) -> Types:
    return frozenset(product(*columns))


EVENT = _all(*_EVENT_COLUMNS)
NO_EVENT: Types = frozenset([(NoneType,) * len(_EVENT_COLUMNS)])
RUN = _all(_TEXT, _TEXT, _WHOLE, _BYTES, _BYTES, *(_BYTES_OR_NONE,) * 3, _WHOLE, _WHOLE)
INBOX = _all(_WHOLE, _TEXT, _BYTES, _WHOLE)
ARRIVAL = _all(_WHOLE, _TEXT, _TEXT, _TEXT)
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
    return short_links.restored(str(run), tuple(row))


def events(rows: Sequence[tuple[Any, ...]], run: str) -> list[EventRow]:
    """The rows before the first that has a column of the wrong type; Damaged when that is the first of them."""
    if rows and not _have_types_of_events(rows):
        good = list(takewhile(lambda row: tuple(map(type, row)) in EVENT, rows))
        if not good:
            raise _damaged(rows[0], f"event {{}} of run {run!r}")
        rows = good
    return [short_links.restored(run, row) for row in rows]


def _have_types_of_events(rows: Sequence[tuple[Any, ...]]) -> bool:
    """Many rows at once and column by column, which is the fastest. Joining and adding up are quicker ways of asking
    for the type; columns that can be long are not joined.
    """
    seqs, ids, kinds, lanes, lane_seqs, links, hashes, salts, matches, prefixes, contents = zip(*rows, strict=True)
    try:
        "".join(ids), "".join(kinds), "".join(lanes), b"".join(hashes)
        return (
            type(sum(seqs)) is int
            and _BYTES_ONLY.issuperset(map(type, links))
            and all(map(_are_bytes_or_none, (salts, matches, prefixes)))
            and _BYTES_OR_NONE_ONLY.issuperset(map(type, contents))
            and _WHOLE_OR_NONE_ONLY.issuperset(map(type, lane_seqs))
        )
    except TypeError:
        return False


def _are_bytes_or_none(column: Sequence[Any]) -> bool:
    try:
        b"".join(column)
    except TypeError:
        return _BYTES_OR_NONE_ONLY.issuperset(map(type, column))
    return True


def _damaged(row: Sequence[object], what: str) -> Damaged:
    name = what.replace("{}", repr(row[0])[:80])
    types = ", ".join(type(value).__name__ for value in row)
    return Damaged(f"{name} has a column of the wrong type ({types})", code="bad_row")
