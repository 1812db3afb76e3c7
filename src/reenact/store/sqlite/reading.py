"""The verbs that read: each borrows a connection for one statement, or for one page of a scan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

import apsw

from reenact.errors import InvalidInput
from reenact.store.contract import EventRow, InboxRow, NodeRow, RunRow, SnapshotRow
from reenact.store.sqlite import queries


class Reading:
    def _reading(self) -> AbstractContextManager[apsw.Cursor]:
        raise NotImplementedError

    # Runs

    def run_row(self, namespace: str, run: str) -> RunRow | None:
        with self._reading() as cursor:
            rows = queries.run_rows(cursor, queries.RUN_ROW, namespace, run)
            return rows[0] if rows else None

    def list_runs(self, namespace: str, *, before: tuple[int, str] | None = None, limit: int = 100) -> list[RunRow]:
        limit = checked_limit(limit)
        with self._reading() as cursor:
            if before is None:
                return queries.run_rows(cursor, queries.LIST_ALL_RUNS, namespace, limit)
            return queries.run_rows(cursor, queries.LIST_RUNS, namespace, *before, limit)

    def find_runs(self, namespace: str, prefix: str, limit: int = 10) -> list[str]:
        values = (namespace, prefix, prefix + "\U0010ffff", checked_limit(limit))
        with self._reading() as cursor:
            return [run for (run,) in cursor.execute(queries.FIND_RUNS, values)]

    def namespaces(self) -> list[str]:
        with self._reading() as cursor:
            return [name for (name,) in cursor.execute(queries.NAMESPACES)]

    # Events

    def last_event(self, namespace: str, run: str) -> EventRow | None:
        with self._reading() as cursor:
            return queries.one_event(cursor, queries.LAST_EVENT, namespace, run)

    def event(self, namespace: str, run: str, seq: int) -> EventRow | None:
        with self._reading() as cursor:
            return queries.one_event(cursor, queries.EVENT, namespace, run, whole(seq))

    def events_by_id(self, namespace: str, run: str, ids: Sequence[str]) -> list[EventRow]:
        with self._reading() as cursor:
            found = [queries.event_by_id(cursor, namespace, run, one) for one in ids]
            return [event for event in found if event is not None]

    def scan(
        self, namespace: str, run: str, start: int = 1, stop: int | None = None, *, contents: bool = True
    ) -> Iterator[EventRow]:
        start, more = whole(start), True
        end = queries.LARGEST if stop is None else whole(stop)
        while more:
            with self._reading() as cursor:
                rows, more = queries.page(cursor, namespace, run, start, end, contents)
            yield from rows
            start = rows[-1].seq + 1 if rows else end

    def lane_event(self, namespace: str, run: str, lane: str, lane_seq: int) -> EventRow | None:
        with self._reading() as cursor:
            return queries.lane_event(cursor, namespace, run, lane, whole(lane_seq))

    def lanes(self, namespace: str, run: str, below: int | None = None) -> list[EventRow]:
        with self._reading() as cursor:
            return queries.lanes(cursor, namespace, run, queries.LARGEST if below is None else whole(below))

    # Nodes, inbox, snapshots

    def nodes(self, namespace: str, addresses: Sequence[bytes]) -> dict[bytes, bytes]:
        with self._reading() as cursor:
            return queries.nodes(cursor, namespace, addresses)

    def all_nodes(self, namespace: str) -> Iterator[NodeRow]:
        after: int | None = 0
        while after is not None:
            with self._reading() as cursor:
                rows, after = queries.node_page(cursor, namespace, after)
            yield from rows

    def inbox(self, namespace: str, run: str, after: int = 0) -> list[InboxRow]:
        with self._reading() as cursor:
            return queries.inbox(cursor, namespace, run, whole(after))

    def snapshots(self, namespace: str, run: str) -> list[SnapshotRow]:
        with self._reading() as cursor:
            return queries.snapshots(cursor, namespace, run)


def whole(number: int) -> int:
    return max(-queries.LARGEST, min(number, queries.LARGEST))


def checked_limit(limit: int) -> int:
    if limit < 0:
        raise InvalidInput(f"a limit must not be negative: {limit}")
    return min(limit, 1 << 31)
