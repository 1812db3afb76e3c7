"""Append, and determine the outcome of an append whose connection broke.

Life of an append:

1. One call in autocommit: lock the run, check, insert, commit. One round trip, and its answer means durable. For one
   event the call is `onrecord.append_one(...)`, which writes it or answers that a check failed; then, and for a batch,
   the call is `onrecord.append(...)`.
2. The answer is a refusal: it is raised, nothing was written.
3. A deadlock or a serialization failure: certainly rolled back; the same ids are tried again, a few times.
4. No answer (cut, silent, server gone): nothing is known. The server process of the call may still be committing, or
   may not even have read it yet. So, on a new connection: terminate that process (named by pid *and* start) and wait
   until it is gone; then take the run's row lock and look the ids up.
5. All ids exist with the same links: the append was committed; success. None exists: it never will be; the same ids
   are tried again.
6. Not decided in time: OutcomeUnknown. An append is never repeated on a guess.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from psycopg import errors
from psycopg.types.numeric import Int8

from onrecord.errors import (
    InvalidInput,
    MovedHead,
    NotFound,
    OutcomeUnknown,
    StaleEpoch,
    StoreUnavailable,
    WrongSequence,
)
from onrecord.store.contract import DuplicateIds, EventRow, NodeRow, PendingAppend
from onrecord.store.postgres.arrays import ByteaArray, bigint, bigints, blobs, clamp_bigint, pack_bigint, texts
from onrecord.store.postgres.connection import Backend, Connection, ConnectionPool, Lost
from onrecord.store.postgres.lookups import find_by_id
from onrecord.store.postgres.prepared_calls import PreparedCall

_BOOL, _BYTEA, _INT8, _TEXT, _BYTEAS = 16, 17, 20, 25, 1001
APPEND_ONE = PreparedCall(
    "append_one",
    f"select onrecord.append_one({', '.join(f'${number}' for number in range(1, 20))})",
    (
        *(_TEXT, _TEXT, _INT8, _BYTEA, _INT8, _BOOL),
        *(_INT8, _TEXT, _TEXT, _TEXT, _INT8, *[_BYTEA] * 6),
        *(_BYTEAS, _BYTEAS),
    ),
)
APPEND = f"select * from onrecord.append({', '.join(['%b'] * 19)})"
CHECK = f"select * from onrecord.check_append({', '.join(['%b'] * 7)})"
PUT_NODES = "select onrecord.put_nodes(%b, %b, %b)"
PUT_EVENTS = f"select onrecord.put_events({', '.join(['%b'] * 12)})"

ATTEMPTS = 5
MAX_BATCH_BYTES = 900_000_000  # Postgres closes the connection on a message of 1 GiB
_TRUE, _FALSE = b"\1", b"\0"
_OK, _NO_RUN, _DUPLICATE, _EPOCH, _HEAD, _GAP = range(6)


def make_event_arrays(events: Sequence[EventRow]) -> tuple[Any, ...]:
    if not events:
        return (bigints(()), *[texts(())] * 3, bigints(()), *[blobs(())] * 6)
    seq, ids, kind, lane, lane_seq, link, digest, salt, match, prefix, content = zip(*events, strict=True)
    return (
        *(bigints(seq), texts(ids), texts(kind), texts(lane), bigints(lane_seq), blobs(link)),
        *(blobs(digest), blobs(salt), blobs(match), blobs(prefix), blobs(content)),
    )


def make_node_arrays(nodes: Sequence[NodeRow]) -> tuple[ByteaArray, ByteaArray]:
    nodes = sorted(nodes)
    return blobs([node.address for node in nodes]), blobs([node.blob for node in nodes])


def make_batch_parameters(pending: PendingAppend, sync: bool) -> tuple[Any, ...]:
    """Return the parameters of APPEND."""
    expected = (bigint(pending.expected.seq), pending.expected.hash, bigint(pending.epoch))
    return (
        *(pending.namespace, pending.run, *expected, sync),
        *make_event_arrays(pending.events),
        *make_node_arrays(pending.nodes),
    )


def make_event_parameters(pending: PendingAppend, sync: bool) -> list[bytes | None]:
    """Return the parameters of APPEND_ONE."""
    namespace, run, ((seq, event_id, kind, lane, lane_seq, *contents),), expected, epoch, nodes = pending
    addresses = values = None
    if nodes:
        addresses, values = (array.encoded() for array in make_node_arrays(nodes))
    return [
        namespace.encode(),
        run.encode(),
        pack_bigint(clamp_bigint(expected.seq)),
        expected.hash,
        pack_bigint(clamp_bigint(epoch)),
        _TRUE if sync else _FALSE,
        pack_bigint(seq),
        event_id.encode(),
        kind.encode(),
        lane.encode(),
        None if lane_seq is None else pack_bigint(lane_seq),
        *contents,
        addresses,
        values,
    ]


def check_size(pending: PendingAppend) -> PendingAppend:
    size = sum(len(event.content or b"") + len(event.link) for event in pending.events) + sum(
        len(node.blob) for node in pending.nodes
    )
    if size > MAX_BATCH_BYTES:
        raise InvalidInput(
            f"an append of {size} bytes to run {pending.run} is too large for Postgres; the limit is {MAX_BATCH_BYTES}"
        )
    return pending


def make_check_parameters(pending: PendingAppend) -> tuple[Any, ...]:
    return (
        *(pending.namespace, pending.run, bigint(pending.expected.seq), pending.expected.hash, bigint(pending.epoch)),
        *(bigints([event.seq for event in pending.events]), texts([event.id for event in pending.events])),
    )


class Appender:
    def __init__(self, pool: ConnectionPool) -> None:
        self.pool = pool

    def append(self, pending: PendingAppend, *, sync: bool = True) -> None:
        check_size(pending)
        self.decide([pending], partial(self._append, pending, sync))

    def _append(self, pending: PendingAppend, sync: bool) -> None:
        try:
            with self.pool.connection(writing=True) as connection:
                if (
                    len(pending.events) == 1
                    and APPEND_ONE.call(connection, make_event_parameters(pending, sync)) == _TRUE
                ):
                    return
                answer = connection.execute(APPEND, make_batch_parameters(pending, sync), binary=True).fetchone()
        except errors.UniqueViolation as error:
            raise make_duplicate_error(pending, error) from None
        assert answer is not None
        self.raise_refusal(pending, *answer)

    def decide(self, appends: Sequence[PendingAppend], attempt: Callable[[], None]) -> None:
        """Run `attempt`, which writes all the appends in one transaction, until it is known to have succeeded once."""
        deadline = None
        for number in range(ATTEMPTS):
            try:
                return attempt()
            except (errors.SerializationFailure, errors.DeadlockDetected):
                time.sleep(random.uniform(0.005, 0.05) * (number + 1))  # noqa: S311 - spreads retries, not a secret
            except Lost as lost:
                deadline = deadline or time.monotonic() + self.pool.timeouts.resolve
                if self.resolve(appends, lost, deadline):
                    return None
        raise self.pool.unavailable(f"given up after {ATTEMPTS} attempts; nothing was written")

    def resolve(self, appends: Sequence[PendingAppend], lost: Lost, deadline: float) -> bool:
        """Return True if all appends were committed, False if none was and none will be."""
        while True:
            try:
                remaining = max(0.0, deadline - time.monotonic())
                with self.pool.connection(writing=True, seconds=remaining) as connection:
                    self.terminate_backend(connection, lost.backend, deadline)
                    found = [self.find_under_lock(connection, pending) for pending in appends]
                break
            except (Lost, StoreUnavailable, errors.SerializationFailure, errors.DeadlockDetected):
                if time.monotonic() >= deadline:
                    runs = ", ".join(sorted({pending.run for pending in appends})[:3])
                    raise OutcomeUnknown(
                        f"the connection was lost while appending to {runs}, and the outcome"
                        " could not be determined within"
                        f" {self.pool.timeouts.resolve:g} seconds ({self.pool.shown}): {lost}"
                    ) from None
                time.sleep(0.05)
        for pending, rows in zip(appends, found, strict=True):
            links = {row.id: row.link for row in rows}
            if rows and links != {event.id: event.link for event in pending.events}:
                # Only some of the ids, or other links: these events existed before this append.
                raise DuplicateIds(rows)
        return all(found) and bool(found)

    def terminate_backend(self, connection: Connection, backend: Backend, deadline: float) -> None:
        """Terminate the server process that may still execute our call, and wait until it and its locks are gone."""
        while connection.execute(
            "select pg_terminate_backend(a.pid) from pg_stat_activity a where a.pid = %s and a.backend_start = %s",
            backend,
        ).fetchone():
            if time.monotonic() >= deadline:
                raise self.pool.unavailable("the server process of the lost connection does not end")
            time.sleep(0.01)

    def find_under_lock(self, connection: Connection, pending: PendingAppend) -> list[EventRow]:
        # Under the run's lock, and committed: this commit waits for the disk (and for a synchronous standby), so what
        # it saw is as durable as an acknowledged append.
        with connection.transaction():
            connection.execute(
                "select from onrecord.runs r where r.namespace = %s and r.run = %s for no key update",
                (pending.namespace, pending.run),
            )
            return find_by_id(connection, pending.namespace, pending.run, [event.id for event in pending.events])

    def raise_refusal(
        self, pending: PendingAppend, status: int, epoch: int | None, head_seq: int | None, *_: Any
    ) -> None:
        if status == _OK:
            return
        run, expected = pending.run, pending.expected
        if status == _NO_RUN:
            raise NotFound(f"no run {run} in namespace {pending.namespace}")
        if status == _DUPLICATE:
            with self.pool.connection() as connection:
                rows = find_by_id(connection, pending.namespace, run, [event.id for event in pending.events])
            raise DuplicateIds(rows)
        if status == _EPOCH:
            raise StaleEpoch(f"run {run} is at epoch {epoch}, this writer has epoch {pending.epoch}")
        if status == _HEAD and head_seq is not None and head_seq < expected.seq:
            raise MovedHead(
                f"run {run} ends at seq {head_seq} and this writer had seq {expected.seq} acknowledged:"
                " acknowledged events are missing",
                hint="The database went back in time (a failover to a lagging standby, a restored backup)."
                " Do not continue this run before the missing events are found or given up.",
            )
        if status == _HEAD:
            raise MovedHead(f"run {run} ends at seq {head_seq}, not with the seq {expected.seq} that this writer saw")
        raise WrongSequence(f"the seqs of an append to run {run} must ascend from above {head_seq}")

    # Group commit

    def append_many(self, appends: Sequence[PendingAppend]) -> list[Exception | None]:
        results: list[Exception | None] = [None] * len(appends)
        # All writers take locks in one order.
        order = sorted(range(len(appends)), key=lambda index: (appends[index].namespace, appends[index].run))
        deadline = None
        for _ in range(ATTEMPTS):
            accepted: list[int] = []
            try:
                with self.pool.connection(writing=True) as connection:
                    answers = self._check_all(connection, [appends[index] for index in order])
                    refused = {index: answer for index, answer in zip(order, answers, strict=True) if answer[0] != _OK}
                    accepted = [index for index in order if index not in refused]
                    self._write_all(
                        connection,
                        [
                            (appends[index], answer[1])
                            for index, answer in zip(order, answers, strict=True)
                            if answer[0] == _OK
                        ],
                    )
            except (errors.UniqueViolation, InvalidInput, errors.SerializationFailure, errors.DeadlockDetected):
                break  # one append fails the transaction of all: append one by one below
            except Lost as lost:
                deadline = deadline or time.monotonic() + self.pool.timeouts.resolve
                try:
                    if not accepted or not self.resolve([appends[index] for index in accepted], lost, deadline):
                        continue
                except DuplicateIds:
                    break
            for index, answer in refused.items():
                refusal = partial(self.raise_refusal, appends[index], answer[0], *answer[2:])
                results[index] = self._catch(refusal)
            return results
        for index, pending in enumerate(appends):
            results[index] = self._catch(partial(self.append, pending))
        return results

    @staticmethod
    def _catch(action: Callable[[], None]) -> Exception | None:
        try:
            action()
        except OutcomeUnknown:
            raise
        except Exception as error:
            return error
        return None

    @staticmethod
    def _check_all(connection: Connection, appends: Sequence[PendingAppend]) -> list[tuple[Any, ...]]:
        parameters = [make_check_parameters(check_size(pending)) for pending in appends]
        with connection.pipeline():
            connection.execute("begin")
            cursors = [connection.execute(CHECK, values, binary=True) for values in parameters]
        return [cursor.fetchall()[0] for cursor in cursors]

    @staticmethod
    def _write_all(connection: Connection, accepted: Sequence[tuple[PendingAppend, int]]) -> None:
        nodes = sorted(
            (pending.namespace, node.address, node.blob) for pending, _ in accepted for node in pending.nodes
        )
        with connection.pipeline():
            if nodes:
                columns = list(zip(*nodes, strict=True))
                connection.execute(PUT_NODES, (texts(columns[0]), blobs(columns[1]), blobs(columns[2])))
            for pending, run_no in accepted:
                connection.execute(PUT_EVENTS, (Int8(run_no), *make_event_arrays(pending.events)))
            connection.execute("commit")


def make_duplicate_error(pending: PendingAppend, error: errors.UniqueViolation) -> WrongSequence:
    # After the checks under the run's lock, only the batch itself (or a lane number) can collide.
    return WrongSequence(
        f"an id or a lane number occurs twice in run {pending.run} ({error.diag.constraint_name}); nothing was written"
    )
