"""Write the user's own tables and events in one transaction.

Rules:

1. The user's code works on a connection of the pool, inside the store's transaction, with the search path and planner
   settings that the database gives every session. Its exceptions are raised unchanged, and everything is rolled back.
   The connection is lent (`onrecord.store.loan`): only the operations listed here work, and none after the work ends.
2. The run is checked and locked only after the work, together with the append: a process that claimed the run meanwhile
   has won, and the work is rolled back.
3. Statements go through a cursor that refuses the store's schema and statements that end the transaction. It guards
   against accidents: statements are prepared, so each text holds one, and its first word tells what it does.
4. Meanwhile the pool may have one more connection: the work itself may store an artifact.
5. A connection that breaks before the commit was sent has written nothing. After that the outcome is looked up, as for
   every append; the work is never repeated here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import _GeneratorContextManager, contextmanager
from types import GeneratorType
from typing import Any

import psycopg
from psycopg import errors
from psycopg.adapt import AdaptersMap
from psycopg.types.numeric import Int8

from onrecord.errors import Refused
from onrecord.store.contract import PendingAppend
from onrecord.store.loan import Kinds, Lent, LentContext, LentIterator, Loan, make_refusal
from onrecord.store.postgres.appends import (
    CHECK,
    PUT_EVENTS,
    PUT_NODES,
    Appender,
    check_size,
    make_check_parameters,
    make_duplicate_error,
    make_event_arrays,
    make_node_arrays,
)
from onrecord.store.postgres.arrays import texts
from onrecord.store.postgres.connection import Connection, ConnectionPool, Lost

Work = Callable[[Any], PendingAppend]

# Settings of a new session; the transaction's end restores the store's own.
_NAMES = "('search_path', 'enable_seqscan', 'enable_bitmapscan', 'jit', 'client_min_messages')"
USE_SESSION_SETTINGS = f"select set_config(name, reset_val, true) from pg_settings where name in {_NAMES}"
USE_STORE_SETTINGS = (
    "select set_config('search_path', 'pg_catalog, pg_temp', true), set_config('enable_seqscan', 'off', true),"
    " set_config('enable_bitmapscan', 'off', true), set_config('synchronous_commit', %s, true)"
)
TRANSACTION_NUMBER = "select pg_current_xact_id()::text"

_COMMENTS = re.compile(r"/\*.*?\*/|--[^\n]*", re.S)
_LITERALS = re.compile(r"'(?:[^']|'')*'")
_ENDS_TRANSACTION = re.compile(
    r"\s*(?:commit|end|abort|begin|start\s+transaction|prepare\s+transaction|rollback(?!.*\bto\b))\b", re.I
)
_SETTINGS = re.compile(r"\s*(?:set|reset|discard|listen|unlisten|vacuum|cluster)\b(?!\s+(?:local|constraints)\b)", re.I)
_STORE_SCHEMA = re.compile(r'(?<![\w$"])(?:onrecord|"onrecord")\s*\.', re.I)


class UserCursor(psycopg.Cursor[Any]):
    """The cursor of the user's code."""

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        self._check_statement(query)
        options["prepare"] = True  # one statement in each text
        return super().execute(query, *arguments, **options)

    def executemany(self, query: Any, *arguments: Any, **options: Any) -> None:
        self._check_statement(query)
        super().executemany(query, *arguments, **options)

    def copy(self, statement: Any, *arguments: Any, **options: Any) -> Any:
        self._check_statement(statement)
        return super().copy(statement, *arguments, **options)

    def stream(self, query: Any, *arguments: Any, **options: Any) -> Any:
        self._check_statement(query)
        return super().stream(query, *arguments, **options)

    def _check_statement(self, query: Any) -> None:
        _check_statement(self.connection, query)


class UserServerCursor(psycopg.ServerCursor[Any]):
    """A named cursor. Its text is part of a `DECLARE`, which is not prepared."""

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        if ";" in _check_statement(self.connection, query).rstrip().rstrip(";"):
            raise make_refusal("pass several statements at once to a named cursor")
        return super().execute(query, *arguments, **options)


def _check_statement(connection: psycopg.Connection[Any], query: Any) -> str:
    """Refuse what the work may not do. Return the statement without comments and literals."""
    if not isinstance(query, (str, bytes)):
        query = query.as_string(connection)
    text = query.decode(errors="replace") if isinstance(query, bytes) else query
    text = _LITERALS.sub("''", _COMMENTS.sub(" ", text))
    if _ENDS_TRANSACTION.match(text):
        raise make_refusal("begin or end a transaction")
    if _SETTINGS.match(text):
        raise make_refusal("change a setting of the connection")
    if _STORE_SCHEMA.search(text):
        raise make_refusal("touch the schema `onrecord`, which is the store's own")
    if connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        raise _make_ended_error()
    return text


class LentPostgresConnection(Lent):
    __slots__ = ()
    _looks_like = psycopg.Connection
    _methods = frozenset({"execute", "cursor", "transaction", "pipeline", "commit", "rollback"})
    _values = frozenset({"adapters", "closed", "broken", "row_factory"})
    _settable = frozenset({"row_factory"})

    @property
    def connection(self) -> None:
        """Return None: psycopg asks for it when it composes a query, and works without."""
        self._require_target()


class LentPostgresCursor(LentContext, LentIterator):
    __slots__ = ()
    _looks_like = psycopg.Cursor
    _methods = frozenset(
        {
            *("execute", "executemany", "fetchone", "fetchmany", "fetchall", "copy", "stream", "scroll", "close"),
            *("nextset", "results", "set_result", "setinputsizes", "setoutputsize"),
        }
    )
    _values = frozenset(
        {
            *("connection", "adapters", "arraysize", "closed", "description", "format", "row_factory", "rowcount"),
            *("rownumber", "statusmessage", "name", "scrollable", "withhold", "itersize"),
        }
    )
    _settable = frozenset({"arraysize", "format", "row_factory", "itersize"})


class LentCopy(LentIterator):
    __slots__ = ()
    _looks_like = psycopg.Copy
    _methods = frozenset({"read", "read_row", "rows", "set_types", "write", "write_row"})

    def __iter__(self) -> Any:
        return self._call("__iter__")


class LentTransaction(Lent):
    __slots__ = ()
    _looks_like = psycopg.Transaction
    _values = frozenset({"savepoint_name", "status"})


class LentPipeline(Lent):
    __slots__ = ()
    _looks_like = psycopg.Pipeline
    _methods = frozenset({"sync"})


class LentBlock(LentContext):
    """A proxy for a context manager that returns one of the other proxies."""

    __slots__ = ()
    _looks_like = _GeneratorContextManager


_LENT: Kinds = {
    psycopg.Connection: LentPostgresConnection,
    psycopg.Cursor: LentPostgresCursor,
    psycopg.ServerCursor: LentPostgresCursor,
    psycopg.Copy: LentCopy,
    psycopg.Transaction: LentTransaction,
    psycopg.Pipeline: LentPipeline,
    GeneratorType: LentIterator,
    _GeneratorContextManager: LentBlock,
}
_USER_ATTRIBUTES = ("cursor_factory", "server_cursor_factory", "row_factory", "_adapters")
"""Attributes of the connection that are replaced while the user's code runs."""


class UserTransactions:
    def __init__(self, pool: ConnectionPool, appender: Appender) -> None:
        self._pool = pool
        self._appender = appender

    def transact(self, work: Work) -> None:
        """Run the work; see `onrecord.store.contract.TransactionalStore`."""
        attempt = _Attempt(self._pool, work)
        try:
            attempt.run()
        except errors.UniqueViolation as error:
            assert attempt.pending is not None
            raise make_duplicate_error(attempt.pending, error) from None
        except (errors.SerializationFailure, errors.DeadlockDetected) as error:
            raise self._pool.unavailable("the transaction collided with another; nothing was written", error) from None
        except Lost as lost:
            if attempt.pending is None or not attempt.committing or not self._was_committed(attempt.pending, lost):
                raise self._pool.unavailable("the connection was lost; nothing was written", lost) from None
        if attempt.failure is not None:
            raise attempt.failure
        if attempt.refused is not None and attempt.pending is not None:
            self._appender.raise_refusal(attempt.pending, *attempt.refused)

    def _was_committed(self, pending: PendingAppend, lost: Lost) -> bool:
        return self._appender.resolve([pending], lost, time.monotonic() + self._pool.timeouts.resolve)


class _Attempt:
    """An attempt at one transaction."""

    def __init__(self, pool: ConnectionPool, work: Work) -> None:
        self._pool = pool
        self._work = work
        self.pending: PendingAppend | None = None
        self.committing = False
        self.failure: BaseException | None = None
        """The exception of the work."""
        self.refused: tuple[Any, ...] | None = None
        """The answer of the database if it refused the append."""

    def run(self) -> None:
        with _grow_pool(self._pool), self._pool.connection(writing=True) as connection:
            level = connection.execute("select current_setting('synchronous_commit')").fetchone()
            assert level is not None
            with connection.transaction():
                number = connection.execute(TRANSACTION_NUMBER).fetchone()
                connection.execute(USE_SESSION_SETTINGS)
                if not self._run_work(connection):
                    raise psycopg.Rollback
                if not _is_open(connection) or connection.execute(TRANSACTION_NUMBER).fetchone() != number:
                    raise _make_ended_error()
                connection.execute(USE_STORE_SETTINGS, level)
                if not self._append(connection):
                    raise psycopg.Rollback
                self.committing = True

    def _run_work(self, connection: Connection) -> bool:
        """Run the work. Return False if it failed and the connection is usable."""
        try:
            with _prepare_for_user(connection), Loan(connection, _LENT) as lent:
                pending = self._work(lent)
            self.pending = check_size(pending)
        except BaseException as error:
            if connection.closed or connection.broken:
                raise psycopg.OperationalError("the connection broke during the work") from None
            self.failure = error
            return False
        return True

    def _append(self, connection: Connection) -> bool:
        assert self.pending is not None
        pending = self.pending
        answer = connection.execute(CHECK, make_check_parameters(pending), binary=True).fetchone()
        assert answer is not None
        if answer[0] != 0:
            self.refused = (answer[0], *answer[2:])
            return False
        if pending.nodes:
            addresses, values = make_node_arrays(pending.nodes)
            connection.execute(PUT_NODES, (texts([pending.namespace] * len(pending.nodes)), addresses, values))
        connection.execute(PUT_EVENTS, (Int8(answer[1]), *make_event_arrays(pending.events)))
        return True


def _is_open(connection: Connection) -> bool:
    """Return True if a transaction is open and can still be committed."""
    return connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.INTRANS


@contextmanager
def _grow_pool(pool: ConnectionPool) -> Iterator[None]:
    pool.grow()
    try:
        yield
    finally:
        pool.shrink()


@contextmanager
def _prepare_for_user(connection: Connection) -> Iterator[None]:
    before = {name: getattr(connection, name) for name in _USER_ATTRIBUTES}
    connection.cursor_factory, connection.server_cursor_factory = UserCursor, UserServerCursor
    connection._adapters = AdaptersMap(connection.adapters)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(connection, name, value)


def _make_ended_error() -> Refused:
    return Refused(
        "the work of a transaction ended it, or continued after one of its statements had failed; nothing was written",
        hint="Leave commit and rollback to the store; `with connection.transaction()` makes a savepoint.",
        code="transaction_ended",
    )
