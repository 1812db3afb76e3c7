"""The verbs that read: each borrows a connection for one statement, or for one page of a scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

import apsw

from onrecord.errors import InvalidInput
from onrecord.store.contract import EventRow, InboxArrival, InboxRow, NodeRow, RunRow, SnapshotRow
from onrecord.store.sqlite import changes, inbox, queries

T = TypeVar("T")


class SqliteReads:
    def _read(self, work: Callable[[apsw.Cursor], T]) -> T:
        raise NotImplementedError

    # Runs

    def run_row(self, namespace: str, run: str) -> RunRow | None:
        rows = self._read(lambda cursor: queries.fetch_runs(cursor, queries.RUN_ROW, namespace, run))
        return rows[0] if rows else None

    def list_runs(self, namespace: str, *, before: tuple[int, str] | None = None, limit: int = 100) -> list[RunRow]:
        limit = check_limit(limit)
        sql = queries.LIST_ALL_RUNS if before is None else queries.LIST_RUNS
        return self._read(lambda cursor: queries.fetch_runs(cursor, sql, namespace, *(before or ()), limit))

    def find_runs(self, namespace: str, prefix: str, limit: int = 10) -> list[str]:
        values = (namespace, prefix, prefix + "\U0010ffff", check_limit(limit))
        return self._read(lambda cursor: queries.fetch_names(cursor, queries.FIND_RUNS, *values))

    def namespaces(self) -> list[str]:
        return self._read(lambda cursor: queries.fetch_names(cursor, queries.NAMESPACES))

    def runs_since(self, namespace: str, cursor: str | None) -> tuple[str, list[str] | None]:
        return self._read(lambda reader: changes.find_changed_runs(reader, namespace, cursor))

    # Events

    def last_event(self, namespace: str, run: str) -> EventRow | None:
        return self._read(lambda cursor: queries.fetch_event(cursor, queries.LAST_EVENT, namespace, run))

    def event(self, namespace: str, run: str, seq: int) -> EventRow | None:
        return self._read(lambda cursor: queries.fetch_event(cursor, queries.EVENT, namespace, run, clamp(seq)))

    def events_by_id(self, namespace: str, run: str, ids: Sequence[str]) -> list[EventRow]:
        found = self._read(lambda cursor: [queries.fetch_event_by_id(cursor, namespace, run, one) for one in ids])
        return [event for event in found if event is not None]

    def scan(
        self, namespace: str, run: str, start: int = 1, stop: int | None = None, *, contents: bool = True
    ) -> Iterator[EventRow]:
        end = queries.LARGEST if stop is None else clamp(stop)
        return chain.from_iterable(self._read_pages(namespace, run, clamp(start), end, contents))

    def _read_pages(self, namespace: str, run: str, start: int, end: int, contents: bool) -> Iterator[list[EventRow]]:
        more = True
        while more:
            rows, more = self._read(
                partial(queries.fetch_page, namespace=namespace, run=run, start=start, stop=end, contents=contents)
            )
            yield rows
            start = rows[-1].seq + 1 if rows else end

    def lane_event(self, namespace: str, run: str, lane: str, lane_seq: int) -> EventRow | None:
        return self._read(lambda cursor: queries.fetch_lane_event(cursor, namespace, run, lane, clamp(lane_seq)))

    def lanes(self, namespace: str, run: str, below: int | None = None) -> list[EventRow]:
        stop = queries.LARGEST if below is None else clamp(below)
        return self._read(lambda cursor: queries.fetch_lane_ends(cursor, namespace, run, stop))

    # Nodes, inbox, snapshots

    def nodes(self, namespace: str, addresses: Sequence[bytes]) -> dict[bytes, bytes]:
        return self._read(lambda cursor: queries.fetch_nodes(cursor, namespace, addresses))

    def all_nodes(self, namespace: str) -> Iterator[NodeRow]:
        after: int | None = 0
        while after is not None:
            rows, after = self._read(partial(queries.fetch_node_page, namespace=namespace, after=after))
            yield from rows

    def inbox(self, namespace: str, run: str, after: int = 0) -> list[InboxRow]:
        return self._read(lambda cursor: queries.fetch_inbox(cursor, namespace, run, clamp(after)))

    def inbox_find(self, namespace: str, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], InboxRow]:
        return self._read(lambda cursor: inbox.find_rows(cursor, namespace, pairs))

    def inbox_since(self, cursor: str | None) -> tuple[str, list[InboxArrival]]:
        return self._read(lambda reader: inbox.find_arrivals(reader, cursor))

    def snapshots(self, namespace: str, run: str) -> list[SnapshotRow]:
        return self._read(lambda cursor: queries.fetch_snapshots(cursor, namespace, run))


def clamp(number: int) -> int:
    return max(-queries.LARGEST, min(number, queries.LARGEST))


def check_limit(limit: int) -> int:
    if limit < 0:
        raise InvalidInput(f"a limit must not be negative: {limit}")
    return min(limit, 1 << 31)
