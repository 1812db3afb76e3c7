"""Removing what was recorded, which is only ever done together with its record.

The record is appended first, then a tombstone or an erasure that names it, and only then do the triggers let
rows go (`sql/003_guards.sql`); all in one transaction. What became of a broken one is found out as for an
append: the record is there or it is not.

Postgres keeps replaced rows until they are vacuumed, and their bytes in the page even then. After an erasure
the tables are therefore rewritten (`purge`), which locks each of them for as long as that takes. What no
client can reach: the write-ahead log until its segments have been recycled, replicas' logs, and backups.
Their retention bounds how long erased bytes live on there.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from psycopg import errors
from psycopg.types.numeric import Int8

from reenact.errors import InvalidInput, NotFound, StoreUnavailable
from reenact.store.contract import PendingAppend
from reenact.store.postgres.appends import (
    CHECK,
    PUT_EVENTS,
    PUT_NODES,
    Appender,
    check_parameters,
    checked,
    event_arrays,
    twice,
)
from reenact.store.postgres.arrays import bigints, blobs, texts
from reenact.store.postgres.connection import Connection, Lost, Pool

PURGE_SECONDS = 600.0
LOCK_RUNS = (
    "select r.run, r.run_no from reenact.runs r join unnest(%b, %b) as u (namespace, run) using"
    " (namespace, run)"
    " order by r.namespace, r.run for update of r"
)
TOMBSTONE = (
    "insert into reenact.tombstones (run_no, namespace, run, record_run_no, record_seq) values (%s, %s, %s, %s, %s)"
)
ERASURES = (
    "insert into reenact.erasures (run_no, seq, namespace, record_run_no, record_seq)"
    " select run_no, seq, %s, %s, %s from unnest(%b, %b) as u (run_no, seq)"
)
ERASE_EVENTS = (
    "update reenact.events e set content = null, salt = null, match = null from unnest(%b, %b) as u"
    " (run_no, seq)"
    " where e.run_no = u.run_no and e.seq = u.seq"
)
ERASE_FACTS = "update reenact.runs set content = null, salt = null, match = null where run_no = any (%b)"
NEW_PREFIXES = (
    "update reenact.events e set prefix = u.prefix from unnest(%b, %b, %b) as u (run_no, seq, prefix)"
    " where e.run_no = u.run_no and e.seq = u.seq"
)


# What is shared is looked for by the caller while this holds: nobody can begin to use it in between.
NOBODY_APPENDS = "lock table reenact.events, reenact.runs in share row exclusive mode"


class Eraser:
    def __init__(self, pool: Pool, appender: Appender) -> None:
        self.pool = pool
        self.appender = appender

    def delete_run(
        self,
        namespace: str,
        run: str,
        record: PendingAppend,
        nodes: Iterable[bytes],
        artifacts: Iterable[bytes],
    ) -> None:
        if (namespace, run) == (record.namespace, record.run):
            raise InvalidInput(f"run {run} cannot hold the record of its own removal")

        def remove(connection: Connection, numbers: dict[str, int], record_run_no: int) -> None:
            number = numbers[run]
            connection.execute(TOMBSTONE, (number, namespace, run, record_run_no, record.events[0].seq))
            for table in ("events", "inbox", "snapshots", "runs"):
                connection.execute(f"delete from reenact.{table} where run_no = %s", (number,))
            connection.execute(NOBODY_APPENDS)
            self._remove_shared(connection, namespace, list(nodes), list(artifacts))

        self._with_record(namespace, [run], record, remove)

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
            slips: list[tuple[int | None, int | None]] = [(numbers[run], seq) for run, seq in contents]
            slips += [(numbers[run], None) for run in sorted({run for run, _ in digests})]
            slips = slips or [(None, None)]  # nodes and artifacts alone
            columns = list(zip(*slips, strict=True))
            connection.execute(
                ERASURES,
                (namespace, record_run_no, record.events[0].seq, bigints(columns[0]), bigints(columns[1])),
            )
            done = connection.execute(
                ERASE_EVENTS,
                (bigints([numbers[run] for run, _ in events]), bigints([seq for _, seq in events])),
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
                "delete from reenact.snapshots where run_no = any (%b)",
                (bigints([numbers[run] for run in runs]),),
            )
            connection.execute(
                "delete from reenact.inbox where run_no = any (%b)",
                (bigints([numbers[run] for run in inboxes]),),
            )
            connection.execute(NOBODY_APPENDS)
            shared[:] = [list(nodes), list(artifacts)]
            self._remove_shared(connection, namespace, *shared)

        self._with_record(namespace, sorted({*runs, *inboxes}), record, erase)
        touched = {
            "events": events,
            "runs": facts,
            "snapshots": runs,
            "inbox": inboxes,
            "nodes": shared[0],
            "artifacts": shared[1],
        }
        self.purge([table for table, rows in touched.items() if rows])

    def _with_record(
        self,
        namespace: str,
        runs: list[str],
        record: PendingAppend,
        change: Callable[[Connection, dict[str, int], int], None],
    ) -> None:
        checked(record)
        if not record.events:
            raise InvalidInput("a removal needs its record")
        names = [(namespace, run) for run in runs] + [(record.namespace, record.run)]

        def attempt() -> None:
            answer: tuple[Any, ...] | None
            try:
                with self.pool.connection(writing=True) as connection, connection.transaction():
                    # All runs first and in one order, then nodes: the order of every other writer.
                    rows = connection.execute(
                        LOCK_RUNS, (texts(name[0] for name in names), texts(name[1] for name in names))
                    ).fetchall()
                    numbers = (
                        dict(rows) if record.namespace == namespace else self._numbers(connection, namespace, runs)
                    )
                    missing = sorted(set(runs) - set(numbers))
                    if missing:
                        raise NotFound(f"no run {missing[0]} in namespace {namespace}")
                    answer = connection.execute(CHECK, check_parameters(record), binary=True).fetchone()
                    assert answer is not None
                    if answer[0] == 0:
                        nodes = sorted(record.nodes)
                        connection.execute(
                            PUT_NODES,
                            (
                                *(
                                    texts([record.namespace] * len(nodes)),
                                    blobs([node.address for node in nodes]),
                                ),
                                blobs([node.blob for node in nodes]),
                            ),
                        )
                        connection.execute(PUT_EVENTS, (Int8(answer[1]), *event_arrays(record.events)))
                        change(connection, numbers, answer[1])
            except errors.UniqueViolation as error:
                raise twice(record, error) from None
            self.appender.raise_refusal(record, answer[0], *answer[2:])

        self.appender.decide([record], attempt)

    @staticmethod
    def _numbers(connection: Connection, namespace: str, runs: Sequence[str]) -> dict[str, int]:
        return dict(
            connection.execute(
                "select run, run_no from reenact.runs where namespace = %s and run = any (%b)",
                (namespace, texts(runs)),
            ).fetchall()
        )

    @staticmethod
    def _remove_shared(
        connection: Connection, namespace: str, nodes: Iterable[bytes], artifacts: Iterable[bytes]
    ) -> None:
        for table, addresses in (("nodes", sorted(set(nodes))), ("artifacts", sorted(set(artifacts)))):
            if addresses:
                where = f"from reenact.{table} where namespace = %s and address = any (%b)"
                connection.execute(f"select {where} order by address for update", (namespace, blobs(addresses)))
                connection.execute(f"delete {where}", (namespace, blobs(addresses)))

    def purge(self, tables: Sequence[str] = ("events", "runs", "snapshots", "inbox", "nodes", "artifacts")) -> None:
        """Rewrites tables so that no data file holds erased bytes. May be called again when it could not
        finish."""
        deadline = time.monotonic() + self.pool.timeouts.statement
        try:
            with self.pool.connection(writing=True) as connection:
                self._wait_for_old_readers(connection, deadline)
                connection.patience, patience = PURGE_SECONDS + 10, connection.patience
                try:
                    connection.execute(f"set statement_timeout = '{PURGE_SECONDS:g}s'")
                    for table in tables:
                        connection.execute(f"vacuum full reenact.{table}", prepare=False)
                    with contextlib.suppress(errors.InsufficientPrivilege):
                        # Without it the old files' ends and the need for old log segments stay until the next
                        # regular one.
                        connection.execute("checkpoint", prepare=False)
                finally:
                    connection.patience = patience
                    connection.close()  # with its settings
        except (Lost, StoreUnavailable) as error:
            raise StoreUnavailable(
                f"the erasure is committed, but the erased bytes are still in the database's files: {error}",
                hint="Call purge() on the store until it succeeds.",
            ) from None

    def _wait_for_old_readers(self, connection: Connection, deadline: float) -> None:
        # Rows that a transaction still open could see are carried over by the rewriting.
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
