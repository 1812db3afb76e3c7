"""The verbs that read: each borrows a connection for one statement, or for one page of a scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

import apsw

from reenact.errors import InvalidInput
from reenact.store.contract import EventRow, InboxArrival, InboxRow, NodeRow, RunRow, SnapshotRow
from reenact.store.sqlite import changes, inbox, queries

T = TypeVar("T")


class Reading:
    def _read(self, work: Callable[[apsw.Cursor], T]) -> T:
        raise NotImplementedError

    # Runs

    def run_row(self, namespace: str, run: str) -> RunRow | None:
        rows = self._read(lambda cursor: queries.run_rows(cursor, queries.RUN_ROW, namespace, run))
        return rows[0] if rows else None

    def list_runs(self, namespace: str, *, before: tuple[int, str] | None = None, limit: int = 100) -> list[RunRow]:
        limit = checked_limit(limit)
        sql = queries.LIST_ALL_RUNS if before is None else queries.LIST_RUNS
        return self._read(lambda cursor: queries.run_rows(cursor, sql, namespace, *(before or ()), limit))

    def find_runs(self, namespace: str, prefix: str, limit: int = 10) -> list[str]:
        values = (namespace, prefix, prefix + "\U0010ffff", checked_limit(limit))
        return self._read(lambda cursor: queries.names(cursor, queries.FIND_RUNS, *values))

    def namespaces(self) -> list[str]:
        return self._read(lambda cursor: queries.names(cursor, queries.NAMESPACES))

    def runs_since(self, namespace: str, cursor: str | None) -> tuple[str, list[str] | None]:
        return self._read(lambda reader: changes.since(reader, namespace, cursor))

    # Events

    def last_event(self, namespace: str, run: str) -> EventRow | None:
        return self._read(lambda cursor: queries.one_event(cursor, queries.LAST_EVENT, namespace, run))

    def event(self, namespace: str, run: str, seq: int) -> EventRow | None:
        return self._read(lambda cursor: queries.one_event(cursor, queries.EVENT, namespace, run, whole(seq)))

    def events_by_id(self, namespace: str, run: str, ids: Sequence[str]) -> list[EventRow]:
        found = self._read(lambda cursor: [queries.event_by_id(cursor, namespace, run, one) for one in ids])
        return [event for event in found if event is not None]

    def scan(
        self, namespace: str, run: str, start: int = 1, stop: int | None = None, *, contents: bool = True
    ) -> Iterator[EventRow]:
        end = queries.LARGEST if stop is None else whole(stop)
        return chain.from_iterable(self._pages(namespace, run, whole(start), end, contents))

    def _pages(self, namespace: str, run: str, start: int, end: int, contents: bool) -> Iterator[list[EventRow]]:
        more = True
        while more:
            rows, more = self._read(
                partial(queries.page, namespace=namespace, run=run, start=start, stop=end, contents=contents)
            )
            yield rows
            start = rows[-1].seq + 1 if rows else end

    def lane_event(self, namespace: str, run: str, lane: str, lane_seq: int) -> EventRow | None:
        return self._read(lambda cursor: queries.lane_event(cursor, namespace, run, lane, whole(lane_seq)))

    def lanes(self, namespace: str, run: str, below: int | None = None) -> list[EventRow]:
        return self._read(
            lambda cursor: queries.lanes(cursor, namespace, run, queries.LARGEST if below is None else whole(below))
        )

    # Nodes, inbox, snapshots

    def nodes(self, namespace: str, addresses: Sequence[bytes]) -> dict[bytes, bytes]:
        return self._read(lambda cursor: queries.nodes(cursor, namespace, addresses))

    def all_nodes(self, namespace: str) -> Iterator[NodeRow]:
        after: int | None = 0
        while after is not None:
            rows, after = self._read(partial(queries.node_page, namespace=namespace, after=after))
            yield from rows

    def inbox(self, namespace: str, run: str, after: int = 0) -> list[InboxRow]:
        return self._read(lambda cursor: queries.inbox(cursor, namespace, run, whole(after)))

    def inbox_find(self, namespace: str, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], InboxRow]:
        return self._read(lambda cursor: inbox.find(cursor, namespace, pairs))

    def inbox_since(self, cursor: str | None) -> tuple[str, list[InboxArrival]]:
        return self._read(lambda reader: inbox.since(reader, cursor))

    def snapshots(self, namespace: str, run: str) -> list[SnapshotRow]:
        return self._read(lambda cursor: queries.snapshots(cursor, namespace, run))


def whole(number: int) -> int:
    return max(-queries.LARGEST, min(number, queries.LARGEST))


def checked_limit(limit: int) -> int:
    if limit < 0:
        raise InvalidInput(f"a limit must not be negative: {limit}")
    return min(limit, 1 << 31)
