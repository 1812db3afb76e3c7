"""Tables of the user's own in the store's database, written in one transaction with events.

Rules:

1. The user's code works on a connection of the pool, inside our transaction, with the search path and the planner's
   settings that the database gives everybody. What it raises comes out as it is, and everything is rolled back.
2. The run is looked at, and locked, only after the work, together with the append: whoever took the run over meanwhile
   has won, and the work is undone.
3. Statements go through a cursor that refuses our schema and any word that ends the transaction. It is a guard against
   accidents: statements are prepared, so there is one in each text, and its first word tells what it does.
4. While one works, the pool may have one connection more: the work itself may put an artifact into the store.
5. A connection that breaks before the commit was sent has written nothing. After that it is looked up, as for every
   append; the work is never repeated here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors
from psycopg.types.numeric import Int8

from reenact.errors import Refused
from reenact.store.contract import PendingAppend
from reenact.store.postgres.appends import (
    CHECK,
    PUT_EVENTS,
    PUT_NODES,
    Appender,
    check_parameters,
    checked,
    event_arrays,
    node_arrays,
    twice,
)
from reenact.store.postgres.arrays import texts
from reenact.store.postgres.connection import Connection, Lost, Pool

Work = Callable[[Any], PendingAppend]

# What the session was given before it became ours; all of it is ours again when the transaction ends.
_NAMES = "('search_path', 'enable_seqscan', 'enable_bitmapscan', 'jit', 'client_min_messages')"
AS_OTHERS = f"select set_config(name, reset_val, true) from pg_settings where name in {_NAMES}"
AS_OURS = (
    "select set_config('search_path', 'pg_catalog, pg_temp', true), set_config('enable_seqscan', 'off', true),"
    " set_config('enable_bitmapscan', 'off', true), set_config('synchronous_commit', %s, true)"
)
NUMBER = "select pg_current_xact_id()::text"

_COMMENTS = re.compile(r"/\*.*?\*/|--[^\n]*", re.S)
_LITERALS = re.compile(r"'(?:[^']|'')*'")
_ENDS = re.compile(
    r"\s*(?:commit|end|abort|begin|start\s+transaction|prepare\s+transaction|rollback(?!.*\bto\b))\b", re.I
)
_SETTINGS = re.compile(r"\s*(?:set|reset|discard|listen|unlisten|vacuum|cluster)\b(?!\s+(?:local|constraints)\b)", re.I)
_OURS = re.compile(r'(?<![\w$"])(?:reenact|"reenact")\s*\.', re.I)


class GuestCursor(psycopg.Cursor[Any]):
    """What the user's code works with."""

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        self._ask(query)
        options["prepare"] = True  # one statement in each text
        return super().execute(query, *arguments, **options)

    def executemany(self, query: Any, *arguments: Any, **options: Any) -> None:
        self._ask(query)
        super().executemany(query, *arguments, **options)

    def copy(self, statement: Any, *arguments: Any, **options: Any) -> Any:
        self._ask(statement)
        return super().copy(statement, *arguments, **options)

    def _ask(self, query: Any) -> None:
        if not isinstance(query, (str, bytes)):
            query = query.as_string(self.connection)
        text = query.decode(errors="replace") if isinstance(query, bytes) else query
        text = _LITERALS.sub("''", _COMMENTS.sub(" ", text))
        if _ENDS.match(text):
            raise _refusal("begin or end a transaction")
        if _SETTINGS.match(text):
            raise _refusal("change a setting of the connection")
        if _OURS.search(text):
            raise _refusal("touch the schema `reenact`, which is the store's own")
        if self.connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            raise _ended()


class Guests:
    def __init__(self, pool: Pool, appender: Appender) -> None:
        self._pool = pool
        self._appender = appender

    def transact(self, work: Work) -> None:
        """See `reenact.store.contract.TransactionalStore`."""
        attempt = _Attempt(self._pool, work)
        try:
            attempt.carry_out()
        except errors.UniqueViolation as error:
            assert attempt.pending is not None
            raise twice(attempt.pending, error) from None
        except (errors.SerializationFailure, errors.DeadlockDetected) as error:
            raise self._pool.unavailable("the transaction collided with another; nothing was written", error) from None
        except Lost as lost:
            if attempt.pending is None or not attempt.committing or not self._arrived(attempt.pending, lost):
                raise self._pool.unavailable("the connection was lost; nothing was written", lost) from None
        if attempt.failure is not None:
            raise attempt.failure
        if attempt.refused is not None and attempt.pending is not None:
            self._appender.raise_refusal(attempt.pending, *attempt.refused)

    def _arrived(self, pending: PendingAppend, lost: Lost) -> bool:
        return self._appender.resolve([pending], lost, time.monotonic() + self._pool.timeouts.resolve)


class _Attempt:
    """One transaction."""

    def __init__(self, pool: Pool, work: Work) -> None:
        self._pool = pool
        self._work = work
        self.pending: PendingAppend | None = None
        self.committing = False
        self.failure: BaseException | None = None
        """What the work raised."""
        self.refused: tuple[Any, ...] | None = None
        """What the database answered instead of appending."""

    def carry_out(self) -> None:
        with _one_more(self._pool), self._pool.connection(writing=True) as connection:
            level = connection.execute("select current_setting('synchronous_commit')").fetchone()
            assert level is not None
            with connection.transaction():
                number = connection.execute(NUMBER).fetchone()
                connection.execute(AS_OTHERS)
                if not self._done(connection):
                    raise psycopg.Rollback
                if not _is_open(connection) or connection.execute(NUMBER).fetchone() != number:
                    raise _ended()
                connection.execute(AS_OURS, level)
                if not self._append(connection):
                    raise psycopg.Rollback
                self.committing = True

    def _done(self, connection: Connection) -> bool:
        """Lets the work be done; False when it failed and the connection is whole."""
        try:
            with _as_guest(connection):
                pending = self._work(connection)
            self.pending = checked(pending)
        except BaseException as error:
            if connection.closed or connection.broken:
                raise psycopg.OperationalError("the connection broke during the work") from None
            self.failure = error
            return False
        return True

    def _append(self, connection: Connection) -> bool:
        assert self.pending is not None
        pending = self.pending
        answer = connection.execute(CHECK, check_parameters(pending), binary=True).fetchone()
        assert answer is not None
        if answer[0] != 0:
            self.refused = (answer[0], *answer[2:])
            return False
        if pending.nodes:
            addresses, values = node_arrays(pending.nodes)
            connection.execute(PUT_NODES, (texts([pending.namespace] * len(pending.nodes)), addresses, values))
        connection.execute(PUT_EVENTS, (Int8(answer[1]), *event_arrays(pending.events)))
        return True


def _is_open(connection: Connection) -> bool:
    """In a transaction, and in one that can still be committed."""
    return connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.INTRANS


@contextmanager
def _one_more(pool: Pool) -> Iterator[None]:
    pool.grow()
    try:
        yield
    finally:
        pool.shrink()


@contextmanager
def _as_guest(connection: Connection) -> Iterator[None]:
    factory = connection.cursor_factory
    connection.cursor_factory = GuestCursor
    try:
        yield
    finally:
        connection.cursor_factory = factory


def _refusal(what: str) -> Refused:
    return Refused(
        f"a step in the store's transaction may not {what}",
        hint="Use tables of your own in it, and leave the transaction to the store.",
        code="not_in_transaction",
    )


def _ended() -> Refused:
    return Refused(
        "the work of a transaction ended it, or went on after a statement of it had failed; nothing was written",
        hint="Leave commit and rollback to the store; `with connection.transaction()` makes a savepoint.",
        code="transaction_ended",
    )
