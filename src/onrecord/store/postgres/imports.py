"""Add a whole run at once, without blocking other writers.

Batches are first staged in temporary tables, however long their source takes. Then, in the same transaction, the rows
are copied to the real tables, new nodes in the order that every writer keeps. So no writer waits for a slow file or
deadlocks with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from psycopg import errors
from psycopg.types.numeric import Int8

from onrecord.errors import OutcomeUnknown, Refused, RunExists, StoreUnavailable
from onrecord.store.contract import EventRow, HeaderRow, NodeRow
from onrecord.store.postgres.appends import Appender, make_event_arrays
from onrecord.store.postgres.arrays import blobs
from onrecord.store.postgres.connection import Connection, ConnectionPool, Lost

IMPORT_SECONDS = 600.0
SETTINGS = (
    f"select set_config('statement_timeout', '{IMPORT_SECONDS:g}s', true),"
    f" set_config('idle_in_transaction_session_timeout', '{IMPORT_SECONDS:g}s', true)"
)
TABLES = (
    "create temp table import_events (like onrecord.events) on commit drop",
    "create temp table import_nodes (like onrecord.nodes) on commit drop",
)
EXISTS = "select 1 from onrecord.runs where namespace = %s and run = %s"
STAGE_EVENTS = f"insert into pg_temp.import_events select 0, * from unnest({', '.join(['%b'] * 11)})"
STAGE_NODES = "insert into pg_temp.import_nodes select %s, * from unnest(%b, %b)"
ADD_RUN = (
    "insert into onrecord.runs (namespace, run, kind, created, header, hash, salt, match, content, imported)"
    f" values ({', '.join(['%b'] * 10)}) on conflict (namespace, run) do nothing returning run_no"
)
ADD_NODES = "insert into onrecord.nodes select * from pg_temp.import_nodes order by address on conflict do nothing"
ADD_EVENTS = (
    "insert into onrecord.events select %s, seq, id, kind, lane, lane_seq, link, hash, salt, match, prefix,"
    " content"
    " from pg_temp.import_events order by seq"
)
ARRIVED = "select 1 from onrecord.runs where namespace = %s and run = %s and header = %b"


class Importer:
    def __init__(self, pool: ConnectionPool, appender: Appender) -> None:
        self.pool = pool
        self.appender = appender

    def import_run(
        self,
        namespace: str,
        header: HeaderRow,
        nodes: Sequence[NodeRow],
        batches: Iterable[tuple[Sequence[EventRow], Sequence[NodeRow]]],
    ) -> None:
        committing = False
        try:
            with self.pool.connection(writing=True) as connection:
                connection.patience, patience = IMPORT_SECONDS + 10, connection.patience
                try:
                    connection.execute("begin")
                    self._stage(connection, namespace, header, nodes, batches)
                    self._copy_staged(connection, namespace, header)
                    committing = True
                    connection.execute("commit")
                finally:
                    connection.patience = patience
        except errors.UniqueViolation as error:
            raise Refused(f"seq, id or lane number occurs twice in the import of run {header.run}") from error
        except (errors.SerializationFailure, errors.DeadlockDetected):
            raise self.pool.unavailable("the import collided with other writers; nothing was written") from None
        except Lost as lost:
            # A connection lost before the commit was sent is a rolled-back transaction.
            if not committing or not self._was_committed(namespace, header, lost):
                raise self.pool.unavailable("the connection was lost; nothing was written", lost) from None

    def _stage(
        self,
        connection: Connection,
        namespace: str,
        header: HeaderRow,
        nodes: Sequence[NodeRow],
        batches: Iterable[tuple[Sequence[EventRow], Sequence[NodeRow]]],
    ) -> None:
        connection.execute(SETTINGS)
        if connection.execute(EXISTS, (namespace, header.run)).fetchone():
            raise RunExists(f"run {header.run} exists in namespace {namespace}")
        for statement in TABLES:
            connection.execute(statement, prepare=False)
        # Temporary tables are new in each transaction: a statement prepared for earlier ones does not fit.
        self._stage_nodes(connection, namespace, nodes)
        for events, more in batches:
            connection.execute(STAGE_EVENTS, make_event_arrays(events), prepare=False)
            self._stage_nodes(connection, namespace, more)

    @staticmethod
    def _stage_nodes(connection: Connection, namespace: str, nodes: Sequence[NodeRow]) -> None:
        values: tuple[Any, ...] = (namespace, blobs(n.address for n in nodes), blobs(n.blob for n in nodes))
        connection.execute(STAGE_NODES, values, prepare=False)

    @staticmethod
    def _copy_staged(connection: Connection, namespace: str, header: HeaderRow) -> None:
        facts = (header.hash, header.salt, header.match, header.content, header.imported)
        values = (namespace, header.run, header.kind, Int8(header.created), header.header, *facts)
        row = connection.execute(ADD_RUN, values).fetchone()
        if row is None:
            raise RunExists(f"run {header.run} exists in namespace {namespace}")
        connection.execute(ADD_NODES, prepare=False)
        connection.execute(ADD_EVENTS, (row[0],), prepare=False)

    def _was_committed(self, namespace: str, header: HeaderRow, lost: Lost) -> bool:
        deadline = time.monotonic() + self.pool.timeouts.resolve
        while True:
            try:
                remaining = max(0.0, deadline - time.monotonic())
                with self.pool.connection(writing=True, seconds=remaining) as connection:
                    self.appender.terminate_backend(connection, lost.backend, deadline)
                    found = connection.execute(ARRIVED, (namespace, header.run, header.header)).fetchone()
                    return found is not None
            except (Lost, StoreUnavailable):
                if time.monotonic() >= deadline:
                    raise OutcomeUnknown(
                        f"the connection was lost while importing {header.run}, and the outcome"
                        f" could not be determined ({self.pool.shown})"
                    ) from None
                time.sleep(0.05)
