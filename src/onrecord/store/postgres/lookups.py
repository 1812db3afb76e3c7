"""Find events by id and by position in a lane, using the existing indexes (`sql/001_tables.sql`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onrecord.core.lane_names import ROOT_LANE
from onrecord.store.contract import EventRow
from onrecord.store.postgres.arrays import bigint, bigints, texts
from onrecord.store.postgres.connection import Connection

EVENT_COLUMNS = "e.seq, e.id, e.kind, e.lane, e.lane_seq, e.link, e.hash, e.salt, e.match, e.prefix, e.content"
LIGHT_COLUMNS = EVENT_COLUMNS.replace("e.content", "null::bytea")
# Not a join: the planner would not see that the primary key is in the order of seq, and would sort everything.
OF_RUN = (
    "from onrecord.events e"
    " where e.run_no = (select r.run_no from onrecord.runs r where r.namespace = %s and r.run = %s)"
)

_BY_ID = (
    f"select {EVENT_COLUMNS} {OF_RUN} and e.seq = any (%b) union all"
    f" select {EVENT_COLUMNS} {OF_RUN} and e.id = any (%b) and not starts_with(e.id, '_')"
)
_BY_LANE = f"select {LIGHT_COLUMNS} {OF_RUN} and e.lane = %s and e.lane <> 'main' and e.lane_seq = %s"
_OF_ROOT = f"select {LIGHT_COLUMNS} {OF_RUN} and e.lane = 'main' and e.lane_seq is not null"
_ROOT_FROM = f"{_OF_ROOT} and e.seq >= %s order by e.seq limit 1"
_ROOT_END = f"{_OF_ROOT} and e.seq < %s order by e.seq desc limit 1"
# Behavioural events of a lane are numbered in the order of seq, so the highest number is the last event.
_LANE_ENDS = (
    f"select distinct on (e.lane) {LIGHT_COLUMNS} {OF_RUN} and e.lane <> 'main' and e.lane_seq is not null"
    " and e.seq < %s order by e.lane, e.lane_seq desc"
)
_LARGEST = (1 << 63) - 1

Rows = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]


def parse_seq(event_id: str) -> int | None:
    """Return the seq at the end of an id that the journal made; None for an id that a caller chose."""
    if not event_id.startswith("_"):
        return None
    try:
        seq = int(event_id.rpartition("_")[2], 16)
    except ValueError:
        return 0
    return seq if 0 < seq <= _LARGEST else 0


def find_by_id(connection: Connection, namespace: str, run: str, ids: Sequence[str]) -> list[EventRow]:
    seqs = [(event_id, parse_seq(event_id)) for event_id in ids]
    made_seqs = bigints([seq for _, seq in seqs if seq is not None])
    chosen_ids = texts([event_id for event_id, seq in seqs if seq is None])
    rows = connection.execute(_BY_ID, (namespace, run, made_seqs, namespace, run, chosen_ids), binary=True).fetchall()
    found = {row[1]: EventRow(*row) for row in rows}
    return [found[event_id] for event_id in ids if event_id in found]


def find_lane_event(rows: Rows, namespace: str, run: str, lane: str, lane_seq: int) -> EventRow | None:
    if lane != ROOT_LANE:
        return _first(rows(_BY_LANE, (namespace, run, lane, bigint(lane_seq))))
    last = _find_root_end(rows, namespace, run, _LARGEST)
    low, high = max(lane_seq, 1), last.seq if last is not None else 0
    while low <= high:
        middle = (low + high) // 2
        row = _first(rows(_ROOT_FROM, (namespace, run, bigint(middle))))
        if row is None or row.lane_seq is None or row.lane_seq > lane_seq:
            high = middle - 1
        elif row.lane_seq < lane_seq:
            low = row.seq + 1
        else:
            return row
    return None


def find_lane_ends(rows: Rows, namespace: str, run: str, below: int | None) -> list[EventRow]:
    stop = _LARGEST if below is None else below
    found = [EventRow(*row) for row in rows(_LANE_ENDS, (namespace, run, bigint(stop)))]
    root = _find_root_end(rows, namespace, run, stop)
    return found if root is None else [root, *found]


def _find_root_end(rows: Rows, namespace: str, run: str, below: int) -> EventRow | None:
    return _first(rows(_ROOT_END, (namespace, run, bigint(below))))


def _first(rows: list[tuple[Any, ...]]) -> EventRow | None:
    return EventRow(*rows[0]) if rows else None
