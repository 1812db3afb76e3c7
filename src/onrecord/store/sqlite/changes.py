"""Find the runs that have changed. Commits are serial, so events are numbered in the order they appear.

SQLite reuses the numbers of removed last events. So a cursor also holds the hash of its event: if that event is gone or
replaced, the changes since the cursor are unknown.
"""

from __future__ import annotations

from typing import Any

import apsw

from onrecord.core.lazy_regex import Pattern
from onrecord.errors import InvalidInput
from onrecord.store.sqlite import row_types

EVENTS_AT_ONCE = 5_000

LAST_EVENT = "SELECT event_no, hex(hash) FROM events ORDER BY event_no DESC LIMIT 1"
LAST_RUN = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'runs'), 0)"
HASH = "SELECT hex(hash) FROM events WHERE event_no = ?"
NEW_EVENTS = f"SELECT event_no, run_no FROM events WHERE event_no > ? ORDER BY event_no LIMIT {EVENTS_AT_ONCE}"
RUN = "SELECT run FROM runs WHERE run_no = ? AND namespace = ?"
# The unary plus keeps the planner from using the index on namespace.
NEW_RUNS = "SELECT run FROM runs WHERE run_no > ? AND run_no <= ? AND +namespace = ?"

_CURSOR = Pattern(r"([0-9]{1,18})\.([0-9A-F]*)\.([0-9]{1,18})\Z")


def find_changed_runs(cursor: apsw.Cursor, namespace: str, text: str | None) -> tuple[str, list[str] | None]:
    with cursor.connection:  # one transaction: everything is read at one moment
        known = _parse_cursor(text)
        last_run = int(cursor.execute(LAST_RUN).get)
        if known is None or (known[0] and cursor.execute(HASH, (known[0],)).get != known[1]):
            event, digest = cursor.execute(LAST_EVENT).fetchone() or (0, "")
            return f"{event}.{digest}.{last_run}", None
        event, digest, run = known
        rows: Any = cursor.execute(NEW_EVENTS, (event,)).fetchall()
        found = [cursor.execute(RUN, (number, namespace)).get for number in dict.fromkeys(row[1] for row in rows)]
        found += [row[0] for row in cursor.execute(NEW_RUNS, (run, last_run, namespace))]
        if rows:
            event = rows[-1][0]
            digest = cursor.execute(HASH, (event,)).get
    names = [name for name in dict.fromkeys(found) if name is not None]
    for name in names:
        row_types.check((name,), row_types.NAME, "the name {}")
    return f"{event}.{digest}.{last_run}", names


def _parse_cursor(text: str | None) -> tuple[int, str, int] | None:
    if text is None:
        return None
    match = _CURSOR.match(text)
    if match is None:
        raise InvalidInput("not a cursor of this store", code="bad_cursor")
    return int(match[1]), match[2], int(match[3])
