"""The statements that read, and the rows they return. Each takes a cursor and leaves nothing open.

Every statement names a run by (namespace, run), so that a look-up can never reach another namespace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from onrecord.core.lane_names import ROOT_LANE
from onrecord.store.contract import EventRow, HeaderRow, InboxRow, NodeRow, RunRow, SnapshotRow
from onrecord.store.sqlite import row_types
from onrecord.store.sqlite.write_connection import EVENT_COLUMNS, parse_seq

PAGE_ROWS = 256
PAGE_BYTES = 4 << 20
SMALL_BYTES = 4096
LARGEST = (1 << 63) - 1

_RUN = "(SELECT run_no FROM runs WHERE namespace = ?1 AND run = ?2)"
_BARE_COLUMNS = EVENT_COLUMNS.replace("content", "NULL")
_EVENTS = f"SELECT {EVENT_COLUMNS} FROM events WHERE run_no = {_RUN}"
_BARE_EVENTS = f"SELECT {_BARE_COLUMNS} FROM events WHERE run_no = {_RUN}"

LAST_EVENT = f"{_EVENTS} ORDER BY seq DESC LIMIT 1"
EVENT = f"{_EVENTS} AND seq = ?3"
EVENT_BY_ID = f"{_EVENTS} AND id = ?3 AND substr(id, 1, 1) <> '_'"
SCAN = f"{_EVENTS} AND seq >= ?3 AND seq < ?4 ORDER BY seq LIMIT {PAGE_ROWS}"
SCAN_BARE = f"{_BARE_EVENTS} AND seq >= ?3 AND seq < ?4 ORDER BY seq LIMIT {PAGE_ROWS}"
LANE_EVENT = f"{_BARE_EVENTS} AND lane = ?3 AND lane <> 'main' AND lane_seq = ?4"
ROOT_FROM = f"{_BARE_EVENTS} AND lane = 'main' AND lane_seq IS NOT NULL AND seq >= ?3 ORDER BY seq LIMIT 1"
ROOT_END = f"{_BARE_EVENTS} AND lane = 'main' AND lane_seq IS NOT NULL AND seq < ?3 ORDER BY seq DESC LIMIT 1"
# Jumps from lane to lane through the index instead of reading all of it: a run has few lanes and many events.
LANE_NAMES = f"""WITH RECURSIVE lane_names(lane) AS (
  SELECT (SELECT lane FROM events WHERE run_no = {_RUN} AND lane <> 'main' AND lane_seq IS NOT NULL
          ORDER BY lane LIMIT 1)
  UNION ALL
  SELECT (SELECT lane FROM events WHERE run_no = {_RUN} AND lane <> 'main' AND lane_seq IS NOT NULL
          AND lane > lane_names.lane ORDER BY lane LIMIT 1)
  FROM lane_names WHERE lane IS NOT NULL)
SELECT lane FROM lane_names WHERE lane IS NOT NULL"""
LANE_END = f"""{_BARE_EVENTS} AND lane = ?3 AND lane <> 'main' AND lane_seq IS NOT NULL AND +seq < ?4
ORDER BY lane_seq DESC LIMIT 1"""

_E = ", ".join(f"e.{c.strip()}" for c in _BARE_COLUMNS.split(",")).replace("e.NULL", "NULL")
_RUN_ROW = f"""SELECT r.run, r.kind, r.created, r.header, r.hash, r.salt, r.match, r.content, r.imported, r.epoch, {_E}
FROM runs r LEFT JOIN events e ON e.run_no = r.run_no AND e.seq = (SELECT max(seq) FROM events WHERE run_no = r.run_no)
WHERE r.namespace = ?1 AND """
RUN_ROW = f"{_RUN_ROW} r.run = ?2"
LIST_RUNS = f"""{_RUN_ROW} r.kind <> 'operations' AND (r.created, r.run) < (?2, ?3)
ORDER BY r.created DESC, r.run DESC LIMIT ?4"""
LIST_ALL_RUNS = f"{_RUN_ROW} r.kind <> 'operations' ORDER BY r.created DESC, r.run DESC LIMIT ?2"
FIND_RUNS = "SELECT run FROM runs WHERE namespace = ?1 AND run >= ?2 AND run < ?3 ORDER BY run LIMIT ?4"
NAMESPACES = "SELECT DISTINCT namespace FROM runs ORDER BY namespace"

NODE = "SELECT blob FROM nodes WHERE namespace = ? AND address = ?"
# The unary plus keeps the planner from sorting the whole namespace for each page.
NODES = f"""SELECT node_no, address, blob FROM nodes WHERE +namespace = ?1 AND node_no > ?2
ORDER BY node_no LIMIT {PAGE_ROWS}"""
INBOX = f"SELECT number, key, payload, time FROM inbox WHERE run_no = {_RUN} AND number > ?3 ORDER BY number"
SNAPSHOTS = f"""SELECT seq, head, reducer, state_version, seal, blob FROM snapshots
WHERE run_no = {_RUN} ORDER BY seq DESC"""


def fetch_event(cursor: apsw.Cursor, sql: str, *values: object) -> EventRow | None:
    row = cursor.execute(sql, values).fetchone()
    return None if row is None else row_types.make_event(row, values[1])


def fetch_event_by_id(cursor: apsw.Cursor, namespace: str, run: str, event_id: str) -> EventRow | None:
    seq = parse_seq(event_id)
    if seq is None:
        return fetch_event(cursor, EVENT_BY_ID, namespace, run, event_id)
    found = fetch_event(cursor, EVENT, namespace, run, seq)
    return found if found is not None and found.id == event_id else None


def fetch_page(
    cursor: apsw.Cursor, namespace: str, run: str, start: int, stop: int, contents: bool
) -> tuple[list[EventRow], bool]:
    """Return some events from `start`, and whether there may be more: limited by rows, bytes and damage."""
    rows: list[Any] = []
    size, keep = 0, rows.append
    try:
        for row in cursor.execute(SCAN if contents else SCAN_BARE, (namespace, run, start, stop)):
            keep(row)
            content = row[10]
            if content is not None and len(content) > SMALL_BYTES:
                # Small contents are limited by the number of rows.
                size += len(content)
                if size >= PAGE_BYTES:
                    break
    except TypeError:
        if len(row_types.make_events(rows, run)) == len(rows):
            raise  # all rows have valid types, so the error is not a content of a wrong type
    events = row_types.make_events(rows, run)
    return events, size >= PAGE_BYTES or len(rows) == PAGE_ROWS or len(events) < len(rows)


def fetch_lane_ends(cursor: apsw.Cursor, namespace: str, run: str, below: int) -> list[EventRow]:
    names = [name for (name,) in cursor.execute(LANE_NAMES, (namespace, run))]
    found = [fetch_event(cursor, LANE_END, namespace, run, name, below) for name in names]
    found.append(fetch_event(cursor, ROOT_END, namespace, run, below))
    return [event for event in found if event is not None]


def fetch_lane_event(cursor: apsw.Cursor, namespace: str, run: str, lane: str, lane_seq: int) -> EventRow | None:
    if lane != ROOT_LANE:
        return fetch_event(cursor, LANE_EVENT, namespace, run, lane, lane_seq)
    last = fetch_event(cursor, ROOT_END, namespace, run, LARGEST)
    low, high = lane_seq, last.seq if last is not None else 0
    while low <= high:
        middle = (low + high) // 2
        row = fetch_event(cursor, ROOT_FROM, namespace, run, middle)
        if row is None or row.lane_seq is None or row.lane_seq > lane_seq:
            high = middle - 1
        elif row.lane_seq < lane_seq:
            low = row.seq + 1
        else:
            return row
    return None


def fetch_runs(cursor: apsw.Cursor, sql: str, *values: object) -> list[RunRow]:
    rows = []
    for row in cursor.execute(sql, values):
        row_types.check(row[:10], row_types.RUN, "the header of run {}")
        header = HeaderRow(*row[:9])._replace(imported=bool(row[8]))
        last = row[10:]
        empty = tuple(map(type, last)) in row_types.NO_EVENT
        rows.append(RunRow(header, None if empty else row_types.make_event(last, row[0]), row[9]))
    return rows


def fetch_node_page(cursor: apsw.Cursor, namespace: str, after: int) -> tuple[list[NodeRow], int | None]:
    """Return some nodes in the order of insertion, and the number to continue after (None at the end)."""
    rows: list[NodeRow] = []
    size = 0
    for number, address, blob in cursor.execute(NODES, (namespace, after)):
        row_types.check((address, blob), row_types.NODE, "node {}")
        rows.append(NodeRow(address, blob))
        after = number
        size += len(blob)
        if size >= PAGE_BYTES:
            return rows, after
    return rows, after if len(rows) == PAGE_ROWS else None


def fetch_nodes(cursor: apsw.Cursor, namespace: str, addresses: Sequence[bytes]) -> dict[bytes, bytes]:
    found = {}
    for address in addresses:
        row = cursor.execute(NODE, (namespace, address)).fetchone()
        if row is not None:
            row_types.check((address, *row), row_types.NODE, "node {}")
            found[address] = row[0]
    return found


def fetch_inbox(cursor: apsw.Cursor, namespace: str, run: str, after: int) -> list[InboxRow]:
    rows: Any = cursor.execute(INBOX, (namespace, run, after)).fetchall()
    for row in rows:
        row_types.check(row, row_types.INBOX, f"message {{}} of run {run!r}")
    return [InboxRow(*row) for row in rows]


def fetch_snapshots(cursor: apsw.Cursor, namespace: str, run: str) -> list[SnapshotRow]:
    rows: Any = cursor.execute(SNAPSHOTS, (namespace, run)).fetchall()
    for row in rows:
        row_types.check(row, row_types.SNAPSHOT, f"the snapshot at {{}} of run {run!r}")
    return [SnapshotRow(*row) for row in rows]


def fetch_names(cursor: apsw.Cursor, sql: str, *values: object) -> list[str]:
    found = []
    for row in cursor.execute(sql, values):
        row_types.check(row, row_types.NAME, "the name {}")
        found.append(row[0])
    return found
