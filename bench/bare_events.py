"""The events of a SQLite store with nothing around them: read, and their links written out as they are hashed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw

from reenact.store.contract import EventRow
from reenact.store.sqlite.appends import EVENT_COLUMNS
from reenact.store.sqlite.short_links import restored

_EVENTS = ", ".join(f"events.{column.strip()}" for column in EVENT_COLUMNS.split(","))
_ALL_EVENTS = f"SELECT runs.run, {_EVENTS} FROM events JOIN runs USING(run_no) ORDER BY events.run_no, events.seq"


def bare_connection(path: Path) -> apsw.Connection:
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)


def bare_events(connection: apsw.Connection) -> Iterator[EventRow]:
    for run, *columns in connection.execute(_ALL_EVENTS):
        yield restored(run, tuple(columns))
