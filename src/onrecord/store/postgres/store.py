"""PostgresStore: the contract with psycopg and plain SQL.

The verbs that decide something are functions in the database (`sql/002_verbs.sql`), so each costs one round trip and
holds its lock no longer. Everything else is a query keyed by namespace. No connection is kept between two calls, not
even by an iterator: pages are fetched one by one, so that a caller that appends while reading needs only a pool of one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from psycopg import errors
from psycopg.types.numeric import Int8

from onrecord.errors import InvalidInput, NotFound, RunExists, SchemaMismatch
from onrecord.store import contract
from onrecord.store.contract import (
    Claim,
    EventRow,
    Head,
    HeaderRow,
    InboxArrival,
    InboxRow,
    NodeRow,
    PendingAppend,
    RunRow,
    SnapshotRow,
)
from onrecord.store.postgres import lookups, migrations
from onrecord.store.postgres.appends import Appender
from onrecord.store.postgres.arrays import bigint, blobs, texts
from onrecord.store.postgres.connection import ConnectionPool, Lost, Timeouts
from onrecord.store.postgres.erasure import Eraser
from onrecord.store.postgres.imports import Importer
from onrecord.store.postgres.lookups import EVENT_COLUMNS, LIGHT_COLUMNS, OF_RUN
from onrecord.store.postgres.queries import (
    ALL_ARTIFACTS,
    ALL_NODES,
    ARTIFACT_PART,
    DELETE_SNAPSHOT,
    FIND_RUNS,
    HOLDER,
    INBOX,
    INBOX_END,
    INBOX_FIND,
    INBOX_SINCE,
    PAGE_ROWS,
    PUT_SNAPSHOT,
    RELEASE,
    RUN_ROWS,
    RUNS_SINCE,
    SCAN,
    SNAPSHOTS,
)
from onrecord.store.postgres.user_transactions import UserTransactions

T = TypeVar("T")

ARTIFACT_LIMIT = 1 << 30
PART_BYTES = 8_000_000
MAX_LIMIT = 100_000
ATTEMPTS = 3


class PostgresStore:
    """A store in PostgreSQL; see `onrecord.store.contract.Store`."""

    def __init__(
        self,
        url: str,
        durability: str = "full",
        pool_size: int = 4,
        *,
        timeouts: Timeouts | None = None,
        read_only: bool = False,
    ) -> None:
        if durability not in contract.DURABILITY_LEVELS:
            raise InvalidInput(f"durability is one of {', '.join(contract.DURABILITY_LEVELS)}, not {durability!r}")
        if pool_size < 1:
            raise InvalidInput(f"a pool needs at least one connection, not {pool_size}")
        self.durability = durability
        self._pool = ConnectionPool(url, durability=durability, size=pool_size, timeouts=timeouts or Timeouts())
        self.url = self._pool.shown
        self._appender = Appender(self._pool)
        self._eraser = Eraser(self._pool, self._appender)
        try:
            self._read_only = self._retry(lambda: migrations.migrate(self._pool, read_only=read_only))
        except BaseException:
            self._pool.close()
            raise

    def sync(self) -> None:
        def commit() -> None:
            with self._pool.connection(writing=True) as connection, connection.transaction():
                # A transaction with a number is written to the log and waited for, with all of the log before it.
                connection.execute("set local synchronous_commit = on")
                connection.execute("select pg_current_xact_id()")

        self._check_writable()
        self._retry(commit)

    @property
    def private_url(self) -> str:
        return self._pool.url

    def close(self) -> None:
        self._pool.close()

    # Calls

    def _retry(self, action: Callable[[], T]) -> T:
        """Run a read, or a write that may be repeated, and retry after a lost connection."""
        for attempt in range(ATTEMPTS):
            try:
                return action()
            except Lost as lost:
                failure: Exception = lost
            except (errors.SerializationFailure, errors.DeadlockDetected, errors.UniqueViolation) as error:
                failure = error
            time.sleep(0.02 * attempt)
        raise self._pool.unavailable(f"the connection was lost {ATTEMPTS} times", failure)

    def _fetch(self, query: str, parameters: Sequence[Any], *, writing: bool = False) -> list[tuple[Any, ...]]:
        if writing:
            self._check_writable()

        def action() -> list[tuple[Any, ...]]:
            with self._pool.connection(writing=writing) as connection:
                cursor = connection.execute(query, parameters, binary=True)
                return cursor.fetchall() if cursor.description else []

        return self._retry(action)

    def _check_writable(self) -> None:
        if self._read_only:
            raise SchemaMismatch(
                f"{self._read_only} ({self.url}); it can be read", hint="Upgrade Onrecord to write to this store."
            )

    @staticmethod
    def _check_limit(limit: int) -> int:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise InvalidInput(f"a limit is a number from 0 to {MAX_LIMIT}, not {limit!r}")
        return min(limit, MAX_LIMIT)

    # Runs

    def create_run(self, namespace: str, header: HeaderRow, nodes: Sequence[NodeRow] = ()) -> None:
        nodes = sorted(nodes)
        parameters = (
            *(
                namespace,
                header.run,
                header.kind,
                Int8(header.created),
                header.header,
                header.hash,
                header.salt,
                header.match,
            ),
            *(
                header.content,
                header.imported,
                blobs([node.address for node in nodes]),
                blobs([node.blob for node in nodes]),
            ),
        )
        rows = self._fetch(f"select onrecord.create_run({', '.join(['%b'] * 12)})", parameters, writing=True)
        if not rows[0][0]:
            raise RunExists(f"there is another run {header.run!r} in namespace {namespace!r} already")

    def import_run(
        self,
        namespace: str,
        header: HeaderRow,
        nodes: Sequence[NodeRow],
        batches: Iterable[tuple[Sequence[EventRow], Sequence[NodeRow]]],
    ) -> None:
        self._check_writable()
        Importer(self._pool, self._appender).import_run(namespace, header, nodes, batches)

    def run_row(self, namespace: str, run: str) -> RunRow | None:
        rows = self._fetch(f"{RUN_ROWS} where r.namespace = %s and r.run = %s", (namespace, run))
        return make_run_row(rows[0]) if rows else None

    def list_runs(self, namespace: str, *, before: tuple[int, str] | None = None, limit: int = 100) -> list[RunRow]:
        below = "" if before is None else " and (r.created, r.run) < (%s, %s)"
        query = (
            f"{RUN_ROWS} where r.namespace = %s and r.kind <> 'operations'{below} order by r.created desc,"
            " r.run desc limit %s"
        )
        start = () if before is None else (bigint(before[0]), before[1])
        return [make_run_row(row) for row in self._fetch(query, (namespace, *start, self._check_limit(limit)))]

    def find_runs(self, namespace: str, prefix: str, limit: int = 10) -> list[str]:
        return [row[0] for row in self._fetch(FIND_RUNS, (namespace, prefix, prefix, self._check_limit(limit)))]

    def namespaces(self) -> list[str]:
        return [row[0] for row in self._fetch("select distinct namespace from onrecord.runs order by namespace", ())]

    def runs_since(self, namespace: str, cursor: str | None) -> tuple[str, list[str] | None]:
        if cursor is None:
            return self._fetch(INBOX_END, ())[0][0], None
        rows = self._fetch(RUNS_SINCE, (*(cursor,) * 5, namespace))
        return rows[0][0], None if rows[0][1] else [row[2] for row in rows if row[2] is not None]

    # Events

    def append(
        self,
        namespace: str,
        run: str,
        events: Sequence[EventRow],
        *,
        expected: Head,
        epoch: int,
        nodes: Sequence[NodeRow] = (),
        sync: bool = True,
    ) -> None:
        self._check_writable()
        self._appender.append(PendingAppend(namespace, run, events, expected, epoch, nodes), sync=sync)

    def append_many(self, appends: Sequence[PendingAppend]) -> list[Exception | None]:
        self._check_writable()
        return self._appender.append_many(appends) if appends else []

    def transact(self, work: Callable[[Any], PendingAppend]) -> None:
        self._check_writable()
        UserTransactions(self._pool, self._appender).transact(work)

    def last_event(self, namespace: str, run: str) -> EventRow | None:
        return self._fetch_event(f"{OF_RUN} order by e.seq desc limit 1", (namespace, run))

    def event(self, namespace: str, run: str, seq: int) -> EventRow | None:
        return self._fetch_event(f"{OF_RUN} and e.seq = %s", (namespace, run, bigint(seq)))

    def lane_event(self, namespace: str, run: str, lane: str, lane_seq: int) -> EventRow | None:
        return lookups.find_lane_event(self._fetch, namespace, run, lane, lane_seq)

    def _fetch_event(self, where: str, parameters: Sequence[Any]) -> EventRow | None:
        rows = self._fetch(f"select {EVENT_COLUMNS} {where}", parameters)
        return EventRow(*rows[0]) if rows else None

    def events_by_id(self, namespace: str, run: str, ids: Sequence[str]) -> list[EventRow]:
        def action() -> list[EventRow]:
            with self._pool.connection() as connection:
                return lookups.find_by_id(connection, namespace, run, ids)

        return self._retry(action)

    def scan(
        self, namespace: str, run: str, start: int = 1, stop: int | None = None, *, contents: bool = True
    ) -> Iterator[EventRow]:
        columns = EVENT_COLUMNS if contents else LIGHT_COLUMNS
        query = SCAN.format(columns=columns.replace("null::bytea", "null::bytea as content"))
        position = max(start, 1)
        while stop is None or position < stop:
            end = position + PAGE_ROWS if stop is None else min(stop, position + PAGE_ROWS)
            rows = self._fetch(query, (namespace, run, bigint(position), bigint(end), bigint(position)))
            if not rows:
                return
            for row in rows:
                yield EventRow(*row[:-1])
            position = rows[-1][0] + 1

    def lanes(self, namespace: str, run: str, below: int | None = None) -> list[EventRow]:
        return lookups.find_lane_ends(self._fetch, namespace, run, below)

    # Shared values

    def nodes(self, namespace: str, addresses: Sequence[bytes]) -> dict[bytes, bytes]:
        query = "select address, blob from onrecord.nodes where namespace = %s and address = any (%b)"
        return dict(self._fetch(query, (namespace, blobs(addresses)))) if addresses else {}

    def all_nodes(self, namespace: str) -> Iterator[NodeRow]:
        last = b""
        while rows := self._fetch(ALL_NODES, (namespace, last)):
            yield from (NodeRow(*row) for row in rows)
            last = rows[-1][0]

    def put_artifact(self, namespace: str, address: bytes, data: bytes) -> None:
        self._check_writable()
        if len(data) > ARTIFACT_LIMIT:
            raise InvalidInput(
                f"an artifact of {len(data)} bytes is too large for the Postgres store; the limit is {ARTIFACT_LIMIT}"
            )
        exists = "select 1 from onrecord.artifacts where namespace = %s and address = %b and part = 0"
        put = (
            "insert into onrecord.artifacts (namespace, address, part, data) values (%s, %b, %s, %b) on"
            " conflict do nothing"
        )

        def action() -> None:
            with self._pool.connection(writing=True) as connection:
                if connection.execute(exists, (namespace, address)).fetchone():
                    return
                with connection.transaction():
                    for part, offset in enumerate(range(0, max(len(data), 1), PART_BYTES)):
                        connection.execute(put, (namespace, address, part, data[offset : offset + PART_BYTES]))

        self._retry(action)

    def artifact(self, namespace: str, address: bytes) -> bytes | None:

        def action() -> bytes | None:
            parts: list[bytes] = []
            with self._pool.connection() as connection:
                while row := connection.execute(
                    ARTIFACT_PART, (namespace, address, len(parts)), binary=True
                ).fetchone():
                    parts.append(row[0])
            return b"".join(parts) if parts else None

        return self._retry(action)

    def remove_artifacts(self, namespace: str, addresses: Iterable[bytes]) -> None:
        """Do nothing: the guards allow no removal without a record, and nothing reaches these artifacts."""

    def all_artifacts(self, namespace: str) -> Iterator[bytes]:
        last = b""
        while rows := self._fetch(ALL_ARTIFACTS, (namespace, last)):
            yield from (row[0] for row in rows)
            last = rows[-1][0]

    # Leases

    def claim(self, namespace: str, run: str, holder: str, ttl_seconds: float, superseding: str | None = None) -> Claim:
        if not 0 < ttl_seconds < 1e9:
            raise InvalidInput(f"a lease lasts more than 0 seconds, not {ttl_seconds!r}")
        query = "select found_run, epoch, holder, granted from onrecord.claim(%s, %s, %s, %s, %s)"
        values = (namespace, run, holder, float(ttl_seconds), superseding)
        found, epoch, owner, granted = self._fetch(query, values, writing=True)[0]
        if not found:
            raise NotFound(f"no run {run} in namespace {namespace}")
        return Claim(epoch, owner, granted)

    def release(self, namespace: str, run: str, epoch: int) -> None:
        if not self._fetch(RELEASE, (namespace, run, bigint(epoch), namespace, run), writing=True):
            raise NotFound(f"no run {run} in namespace {namespace}")

    def holder(self, namespace: str, run: str) -> str | None:
        found = self._fetch(HOLDER, (namespace, run))
        return str(found[0][0]) if found else None

    # Inbox

    def inbox_put(self, namespace: str, run: str, key: str, payload: bytes, time: int) -> InboxRow:
        row = self._fetch(
            "select * from onrecord.inbox_put(%s, %s, %s, %b, %s)",
            (namespace, run, key, payload, Int8(time)),
            writing=True,
        )[0]
        if row[0] is None:
            raise NotFound(f"no run {run} in namespace {namespace}")
        return InboxRow(*row)

    def inbox(self, namespace: str, run: str, after: int = 0) -> list[InboxRow]:
        return [InboxRow(*row) for row in self._fetch(INBOX, (namespace, run, bigint(after)))]

    def inbox_find(self, namespace: str, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], InboxRow]:
        wanted = texts([run for run, _ in pairs]), texts([key for _, key in pairs])
        return {(row[0], row[2]): InboxRow(*row[1:]) for row in self._fetch(INBOX_FIND, (*wanted, namespace))}

    def inbox_since(self, cursor: str | None) -> tuple[str, list[InboxArrival]]:
        if cursor is None:
            return self._fetch(INBOX_END, ())[0][0], []
        rows = self._fetch(INBOX_SINCE, (cursor, cursor))
        return rows[0][0], [InboxArrival(*row[1:]) for row in rows if row[1] is not None]

    # Snapshots

    def put_snapshot(self, namespace: str, run: str, snapshot: SnapshotRow) -> None:
        values = (
            Int8(snapshot.seq),
            snapshot.head,
            snapshot.reducer,
            Int8(snapshot.state_version),
            snapshot.seal,
            snapshot.blob,
        )
        if not self._fetch(PUT_SNAPSHOT, (*values, namespace, run), writing=True):
            raise NotFound(f"no run {run} in namespace {namespace}")

    def snapshots(self, namespace: str, run: str) -> list[SnapshotRow]:
        return [SnapshotRow(*row) for row in self._fetch(SNAPSHOTS, (namespace, run))]

    def delete_snapshot(self, namespace: str, run: str, seq: int) -> None:
        self._fetch(DELETE_SNAPSHOT, (namespace, run, bigint(seq)), writing=True)

    # Retention and erasure

    def delete_run(
        self, namespace: str, run: str, record: PendingAppend, nodes: Iterable[bytes], artifacts: Iterable[bytes]
    ) -> None:
        self._check_writable()
        self._eraser.delete_run(namespace, run, record, nodes, artifacts)

    def erase_contents(
        self,
        namespace: str,
        contents: Sequence[tuple[str, int]],
        prefixes: Sequence[tuple[str, int, bytes]],
        record: PendingAppend,
        nodes: Iterable[bytes],
        artifacts: Iterable[bytes],
        inboxes: Sequence[str] = (),
    ) -> None:
        self._check_writable()
        self._eraser.erase_contents(namespace, contents, prefixes, record, nodes, artifacts, inboxes)

    def purge(self) -> None:
        """Rewrite the tables so that no data file holds erased bytes, if an erasure could not finish that."""
        self._check_writable()
        self._eraser.purge()


def make_run_row(row: tuple[Any, ...]) -> RunRow:
    last = EventRow(*row[10:]) if row[10] is not None else None
    return RunRow(HeaderRow(*row[:9]), last, row[9])
