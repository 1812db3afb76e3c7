"""Check the types of columns where rows are made: a type that the schema forbids is damage.

The tables are STRICT, but a file can be changed with that lifted and put back. Unchecked, such a value would raise a
TypeError far from its cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product, takewhile
from types import NoneType
from typing import Any

from onrecord.errors import Damaged
from onrecord.store.contract import EventRow
from onrecord.store.sqlite import short_links

_WHOLE, _TEXT, _BYTES = (int,), (str,), (bytes,)
_BYTES_OR_NONE, _WHOLE_OR_NONE, _TEXT_OR_NONE = (bytes, NoneType), (int, NoneType), (str, NoneType)

_EVENT_COLUMNS = (_WHOLE, _TEXT, _TEXT, _TEXT, _WHOLE_OR_NONE, _BYTES, _BYTES, *(_BYTES_OR_NONE,) * 4)

_BYTES_ONLY, _BYTES_OR_NONE_ONLY, _WHOLE_OR_NONE_ONLY = map(frozenset, (_BYTES, _BYTES_OR_NONE, _WHOLE_OR_NONE))

Types = frozenset[tuple[type, ...]]


def _allow(*columns: tuple[type, ...]) -> Types:
    return frozenset(product(*columns))


EVENT = _allow(*_EVENT_COLUMNS)
NO_EVENT: Types = frozenset([(NoneType,) * len(_EVENT_COLUMNS)])
RUN = _allow(_TEXT, _TEXT, _WHOLE, _BYTES, _BYTES, *(_BYTES_OR_NONE,) * 3, _WHOLE, _WHOLE)
INBOX = _allow(_WHOLE, _TEXT, _BYTES, _WHOLE)
ARRIVAL = _allow(_WHOLE, _TEXT, _TEXT, _TEXT)
SNAPSHOT = _allow(_WHOLE, _BYTES, _TEXT, _WHOLE, _BYTES, _BYTES)
NODE = _allow(_BYTES, _BYTES)
LEASE = _allow(_WHOLE, _TEXT_OR_NONE, _WHOLE_OR_NONE, _TEXT_OR_NONE)
NAME = _allow(_TEXT)


def check(row: Sequence[object], allowed: Types, what: str) -> None:
    """Raise Damaged if a column has a wrong type. `what` names the row; `{}` in it is the row's first column."""
    if tuple(map(type, row)) not in allowed:
        raise _make_damaged(row, what)


def make_event(row: Sequence[object], run: object) -> EventRow:
    if tuple(map(type, row)) not in EVENT:
        raise _make_damaged(row, f"event {{}} of run {str(run)!r}")
    return short_links.restore_row(str(run), tuple(row))


def make_events(rows: Sequence[tuple[Any, ...]], run: str) -> list[EventRow]:
    """Return the events before the first row with a wrong type. Raise Damaged if that is the first row."""
    if rows and not _have_event_types(rows):
        good = list(takewhile(lambda row: tuple(map(type, row)) in EVENT, rows))
        if not good:
            raise _make_damaged(rows[0], f"event {{}} of run {run!r}")
        rows = good
    return [short_links.restore_row(run, row) for row in rows]


def _have_event_types(rows: Sequence[tuple[Any, ...]]) -> bool:
    """Return True if all rows have valid types. Whole columns are checked at once, which is fastest.

    Joining or adding up a column tests its type faster than `type` does; columns that can be long are not joined.
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


def _make_damaged(row: Sequence[object], what: str) -> Damaged:
    name = what.replace("{}", repr(row[0])[:80])
    types = ", ".join(type(value).__name__ for value in row)
    return Damaged(f"{name} has a column of the wrong type ({types})", code="bad_row")
