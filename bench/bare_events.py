"""Read the events of a SQLite store without the store, with their links in the form that is hashed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw

from onrecord.store.contract import EventRow
from onrecord.store.sqlite.appends import EVENT_COLUMNS
from onrecord.store.sqlite.short_links import restore_row

_EVENTS = ", ".join(f"events.{column.strip()}" for column in EVENT_COLUMNS.split(","))
_ALL_EVENTS = f"SELECT runs.run, {_EVENTS} FROM events JOIN runs USING(run_no) ORDER BY events.run_no, events.seq"


def bare_connection(path: Path) -> apsw.Connection:
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)


def bare_events(connection: apsw.Connection) -> Iterator[EventRow]:
    for run, *columns in connection.execute(_ALL_EVENTS):
        yield restore_row(run, tuple(columns))
