"""Read many inboxes at once. Commits are serial, so rows are numbered in the order they appear."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import apsw

from onrecord.errors import InvalidInput
from onrecord.store.contract import InboxArrival, InboxRow
from onrecord.store.sqlite import row_types

ARRIVALS_AT_ONCE = 4096

# CROSS JOIN fixes the order: from the few wanted pairs to their rows, never from all rows to the few.
FIND = """SELECT r.run, i.number, i.key, i.payload, i.time FROM json_each(?2) wanted
CROSS JOIN runs r ON r.namespace = ?1 AND r.run = wanted.value ->> 0
CROSS JOIN inbox i ON i.run_no = r.run_no AND i.key = wanted.value ->> 1"""
END = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'inbox'), 0)"
SINCE = f"""SELECT i.inbox_no, r.namespace, r.run, i.key FROM inbox i CROSS JOIN runs r ON r.run_no = i.run_no
WHERE i.inbox_no > ? ORDER BY i.inbox_no LIMIT {ARRIVALS_AT_ONCE}"""


def find_rows(cursor: apsw.Cursor, namespace: str, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], InboxRow]:
    found = {}
    for run, *row in cursor.execute(FIND, (namespace, json.dumps(list(pairs)))):
        row_types.check(row, row_types.INBOX, f"message {{}} of run {run!r}")
        made = InboxRow._make(row)
        found[str(run), made.key] = made
    return found


def find_arrivals(cursor: apsw.Cursor, text: str | None) -> tuple[str, list[InboxArrival]]:
    if text is None:
        return str(cursor.execute(END).get), []
    if not text.isdecimal():
        raise InvalidInput("not a cursor of this store", code="bad_cursor")
    rows: Any = cursor.execute(SINCE, (int(text),)).fetchall()
    for row in rows:
        row_types.check(row, row_types.ARRIVAL, "message {} of the store")
    return str(rows[-1][0]) if rows else text, [InboxArrival(*row[1:]) for row in rows]
