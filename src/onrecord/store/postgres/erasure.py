"""Remove recorded data, always together with its record.

The record is appended first, then a tombstone or an erasure that names it, and only then do the triggers allow the
removal (`sql/003_guards.sql`); all in one transaction. The outcome of a broken transaction is determined as for an
append: the record exists or it does not.

Postgres keeps replaced rows until they are vacuumed, and their bytes in the page even then. So the tables are rewritten
after an erasure (`purge`), which locks each table meanwhile. No client can reach the write-ahead log until its segments
are recycled, the logs of replicas, and backups. Their retention limits how long erased bytes exist there.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from psycopg import errors
from psycopg.types.numeric import Int8

from onrecord.errors import InvalidInput, NotFound, StoreUnavailable
from onrecord.store.contract import PendingAppend
from onrecord.store.postgres.appends import (
    CHECK,
    PUT_EVENTS,
    PUT_NODES,
    Appender,
    check_size,
    make_check_parameters,
    make_duplicate_error,
    make_event_arrays,
)
from onrecord.store.postgres.arrays import bigints, blobs, texts
from onrecord.store.postgres.connection import Connection, ConnectionPool, Lost

PURGE_SECONDS = 600.0
LOCK_RUNS = (
    "select r.run, r.run_no from onrecord.runs r join unnest(%b, %b) as u (namespace, run) using"
    " (namespace, run)"
    " order by r.namespace, r.run for update of r"
)
TOMBSTONE = (
    "insert into onrecord.tombstones (run_no, namespace, run, record_run_no, record_seq) values (%s, %s, %s, %s, %s)"
)
ERASURES = (
    "insert into onrecord.erasures (run_no, seq, namespace, record_run_no, record_seq)"
    " select run_no, seq, %s, %s, %s from unnest(%b, %b) as u (run_no, seq)"
)
ERASE_EVENTS = (
    "update onrecord.events e set content = null, salt = null, match = null from unnest(%b, %b) as u"
    " (run_no, seq)"
    " where e.run_no = u.run_no and e.seq = u.seq"
)
ERASE_FACTS = "update onrecord.runs set content = null, salt = null, match = null where run_no = any (%b)"
NEW_PREFIXES = (
    "update onrecord.events e set prefix = u.prefix from unnest(%b, %b, %b) as u (run_no, seq, prefix)"
    " where e.run_no = u.run_no and e.seq = u.seq"
)


# The caller looks for unused values while this lock is held, so that no process can begin to use one in between.
LOCK_APPENDS = "lock table onrecord.events, onrecord.runs in share row exclusive mode"


class Eraser:
    def __init__(self, pool: ConnectionPool, appender: Appender) -> None:
        self.pool = pool
        self.appender = appender

    def delete_run(
        self, namespace: str, run: str, record: PendingAppend, nodes: Iterable[bytes], artifacts: Iterable[bytes]
    ) -> None:
        if (namespace, run) == (record.namespace, record.run):
            raise InvalidInput(f"run {run} cannot hold the record of its own removal")

        def remove(connection: Connection, numbers: dict[str, int], record_run_no: int) -> None:
            number = numbers[run]
            connection.execute(TOMBSTONE, (number, namespace, run, record_run_no, record.events[0].seq))
            for table in ("events", "inbox", "snapshots", "runs"):
                connection.execute(f"delete from onrecord.{table} where run_no = %s", (number,))
            connection.execute(LOCK_APPENDS)
            self._remove_shared(connection, namespace, list(nodes), list(artifacts))

        self._change_with_record(namespace, [run], record, remove)

    def erase_contents(
        self,
        namespace: str,
        contents: Sequence[tuple[str, int]],
        prefixes: Sequence[tuple[str, int, bytes]],
        record: PendingAppend,
        nodes: Iterable[bytes],
        artifacts: Iterable[bytes],
        inboxes: Sequence[str],
    ) -> None:
        contents = sorted(set(contents))
        facts = [run for run, seq in contents if seq == 0]
        events = [(run, seq) for run, seq in contents if seq != 0]
        digests = {(run, seq): digest for run, seq, digest in prefixes}
        runs = sorted({run for run, _ in contents} | {run for run, _ in digests})
        shared: list[list[bytes]] = [[], []]

        def erase(connection: Connection, numbers: dict[str, int], record_run_no: int) -> None:
            permissions: list[tuple[int | None, int | None]] = [(numbers[run], seq) for run, seq in contents]
            permissions += [(numbers[run], None) for run in sorted({run for run, _ in digests})]
            permissions = permissions or [(None, None)]  # nodes and artifacts alone
            columns = list(zip(*permissions, strict=True))
            connection.execute(
                ERASURES, (namespace, record_run_no, record.events[0].seq, bigints(columns[0]), bigints(columns[1]))
            )
            done = connection.execute(
                ERASE_EVENTS, (bigints([numbers[run] for run, _ in events]), bigints([seq for _, seq in events]))
            ).rowcount
            if done != len(events):
                raise NotFound(
                    f"{len(events) - done} of the {len(events)} events to erase do not exist; nothing was erased"
                )
            connection.execute(ERASE_FACTS, (bigints([numbers[run] for run in facts]),))
            run_nos, seqs = [numbers[run] for run, _ in digests], [seq for _, seq in digests]
            values = (bigints(run_nos), bigints(seqs), blobs(digests.values()))
            if connection.execute(NEW_PREFIXES, values).rowcount != len(digests):
                raise NotFound("some events whose prefix digest changes do not exist; nothing was erased")
            connection.execute(
                "delete from onrecord.snapshots where run_no = any (%b)", (bigints([numbers[run] for run in runs]),)
            )
            connection.execute(
                "delete from onrecord.inbox where run_no = any (%b)", (bigints([numbers[run] for run in inboxes]),)
            )
            connection.execute(LOCK_APPENDS)
            shared[:] = [list(nodes), list(artifacts)]
            self._remove_shared(connection, namespace, *shared)

        self._change_with_record(namespace, sorted({*runs, *inboxes}), record, erase)
        touched = {
            "events": events,
            "runs": facts,
            "snapshots": runs,
            "inbox": inboxes,
            "nodes": shared[0],
            "artifacts": shared[1],
        }
        self.purge([table for table, rows in touched.items() if rows])

    def _change_with_record(
        self,
        namespace: str,
        runs: list[str],
        record: PendingAppend,
        change: Callable[[Connection, dict[str, int], int], None],
    ) -> None:
        check_size(record)
        if not record.events:
            raise InvalidInput("a removal needs its record")
        names = [(namespace, run) for run in runs] + [(record.namespace, record.run)]

        def attempt() -> None:
            answer: tuple[Any, ...] | None
            try:
                with self.pool.connection(writing=True) as connection, connection.transaction():
                    # First all runs in one order, then nodes: the order of every other writer.
                    rows = connection.execute(
                        LOCK_RUNS, (texts(name[0] for name in names), texts(name[1] for name in names))
                    ).fetchall()
                    numbers = (
                        dict(rows)
                        if record.namespace == namespace
                        else self._read_run_numbers(connection, namespace, runs)
                    )
                    missing = sorted(set(runs) - set(numbers))
                    if missing:
                        raise NotFound(f"no run {missing[0]} in namespace {namespace}")
                    answer = connection.execute(CHECK, make_check_parameters(record), binary=True).fetchone()
                    assert answer is not None
                    if answer[0] == 0:
                        nodes = sorted(record.nodes)
                        connection.execute(
                            PUT_NODES,
                            (
                                *(texts([record.namespace] * len(nodes)), blobs([node.address for node in nodes])),
                                blobs([node.blob for node in nodes]),
                            ),
                        )
                        connection.execute(PUT_EVENTS, (Int8(answer[1]), *make_event_arrays(record.events)))
                        change(connection, numbers, answer[1])
            except errors.UniqueViolation as error:
                raise make_duplicate_error(record, error) from None
            self.appender.raise_refusal(record, answer[0], *answer[2:])

        self.appender.decide([record], attempt)

    @staticmethod
    def _read_run_numbers(connection: Connection, namespace: str, runs: Sequence[str]) -> dict[str, int]:
        return dict(
            connection.execute(
                "select run, run_no from onrecord.runs where namespace = %s and run = any (%b)",
                (namespace, texts(runs)),
            ).fetchall()
        )

    @staticmethod
    def _remove_shared(
        connection: Connection, namespace: str, nodes: Iterable[bytes], artifacts: Iterable[bytes]
    ) -> None:
        for table, addresses in (("nodes", sorted(set(nodes))), ("artifacts", sorted(set(artifacts)))):
            if addresses:
                where = f"from onrecord.{table} where namespace = %s and address = any (%b)"
                connection.execute(f"select {where} order by address for update", (namespace, blobs(addresses)))
                connection.execute(f"delete {where}", (namespace, blobs(addresses)))

    def purge(self, tables: Sequence[str] = ("events", "runs", "snapshots", "inbox", "nodes", "artifacts")) -> None:
        """Rewrite tables so that no data file holds erased bytes. Call it again if it could not finish."""
        deadline = time.monotonic() + self.pool.timeouts.statement
        try:
            with self.pool.connection(writing=True) as connection:
                self._wait_for_old_readers(connection, deadline)
                connection.patience, patience = PURGE_SECONDS + 10, connection.patience
                try:
                    connection.execute(f"set statement_timeout = '{PURGE_SECONDS:g}s'")
                    for table in tables:
                        connection.execute(f"vacuum full onrecord.{table}", prepare=False)
                    with contextlib.suppress(errors.InsufficientPrivilege):
                        # Without a checkpoint, the ends of the old files and the need for old log segments stay until
                        # the next regular one.
                        connection.execute("checkpoint", prepare=False)
                finally:
                    connection.patience = patience
                    connection.close()  # drops its changed settings
        except (Lost, StoreUnavailable) as error:
            raise StoreUnavailable(
                f"the erasure is committed, but the erased bytes are still in the database's files: {error}",
                hint="Call purge() on the store until it succeeds.",
            ) from None

    def _wait_for_old_readers(self, connection: Connection, deadline: float) -> None:
        # A rewrite keeps rows that an open transaction can still see.
        row = connection.execute("select pg_current_xact_id()::text").fetchone()
        assert row is not None
        query = (
            "select count(*) from pg_stat_activity where datname = current_database() and pid <>"
            " pg_backend_pid()"
            " and (age(backend_xmin) >= age(%s::xid) or age(backend_xid) >= age(%s::xid))"
        )
        current = str(int(row[0]) % 2**32)
        while (count := connection.execute(query, (current, current)).fetchone()) and count[0]:
            if time.monotonic() >= deadline:
                raise self.pool.unavailable(f"{count[0]} older transactions are still open")
            time.sleep(0.05)
