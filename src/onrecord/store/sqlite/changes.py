"""Which runs have something new. Commits are one after the other, so events are numbered in the order they appear.

Numbers of events are used again when the last ones are removed. So a place also says which event stood there: where
another one does now, or none, it cannot be told any more what is new.
"""

from __future__ import annotations

from typing import Any

import apsw

from reenact.core.lazy_patterns import Pattern
from reenact.errors import InvalidInput
from reenact.store.sqlite import row_types

EVENTS_AT_ONCE = 5_000

LAST_EVENT = "SELECT event_no, hex(hash) FROM events ORDER BY event_no DESC LIMIT 1"
LAST_RUN = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'runs'), 0)"
HASH = "SELECT hex(hash) FROM events WHERE event_no = ?"
NEW_EVENTS = f"SELECT event_no, run_no FROM events WHERE event_no > ? ORDER BY event_no LIMIT {EVENTS_AT_ONCE}"
RUN = "SELECT run FROM runs WHERE run_no = ? AND namespace = ?"
# The plus keeps the planner from looking through the namespace.
NEW_RUNS = "SELECT run FROM runs WHERE run_no > ? AND run_no <= ? AND +namespace = ?"

_PLACE = Pattern(r"([0-9]{1,18})\.([0-9A-F]*)\.([0-9]{1,18})\Z")


def since(cursor: apsw.Cursor, namespace: str, place: str | None) -> tuple[str, list[str] | None]:
    with cursor.connection:  # all of it is seen at one moment
        known = _known(place)
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


def _known(place: str | None) -> tuple[int, str, int] | None:
    if place is None:
        return None
    match = _PLACE.match(place)
    if match is None:
        raise InvalidInput("not a cursor of this store", code="bad_cursor")
    return int(match[1]), match[2], int(match[3])
