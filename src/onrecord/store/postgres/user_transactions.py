"""Tables of the user's own in the store's database, written in one transaction with events.

Rules:

1. The user's code works on a connection of the pool, inside our transaction, with the search path and the planner's
   settings that the database gives everybody. What it raises comes out as it is, and everything is rolled back. It is
   lent the connection (`reenact.store.lending`): it can do with it what is named here, and nothing any more when the
   work is over.
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
from contextlib import _GeneratorContextManager, contextmanager
from types import GeneratorType
from typing import Any

import psycopg
from psycopg import errors
from psycopg.adapt import AdaptersMap
from psycopg.types.numeric import Int8

from reenact.errors import Refused
from reenact.store.contract import PendingAppend
from reenact.store.lending import Kinds, Lent, LentContext, LentIterator, Loan
from reenact.store.lending import refusal as _refusal
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

    def stream(self, query: Any, *arguments: Any, **options: Any) -> Any:
        self._ask(query)
        return super().stream(query, *arguments, **options)

    def _ask(self, query: Any) -> None:
        _ask(self.connection, query)


class GuestServerCursor(psycopg.ServerCursor[Any]):
    """A cursor with a name. Its text is part of a `DECLARE`, which is not prepared."""

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        if ";" in _ask(self.connection, query).rstrip().rstrip(";"):
            raise _refusal("give several statements at once to a cursor with a name")
        return super().execute(query, *arguments, **options)


def _ask(connection: psycopg.Connection[Any], query: Any) -> str:
    """Refuses what the work may not do; otherwise the statement without comments and literals."""
    if not isinstance(query, (str, bytes)):
        query = query.as_string(connection)
    text = query.decode(errors="replace") if isinstance(query, bytes) else query
    text = _LITERALS.sub("''", _COMMENTS.sub(" ", text))
    if _ENDS.match(text):
        raise _refusal("begin or end a transaction")
    if _SETTINGS.match(text):
        raise _refusal("change a setting of the connection")
    if _OURS.search(text):
        raise _refusal("touch the schema `reenact`, which is the store's own")
    if connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        raise _ended()
    return text


class LentConnection(Lent):
    __slots__ = ()
    _looks_like = psycopg.Connection
    _methods = frozenset({"execute", "cursor", "transaction", "pipeline", "commit", "rollback"})
    _values = frozenset({"adapters", "closed", "broken", "row_factory"})
    _settable = frozenset({"row_factory"})

    @property
    def connection(self) -> None:
        """Asked for by whoever composes a text; it can do without."""
        self._open()


class LentCursor(LentContext, LentIterator):
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
    """A `with` that gives one of the others."""

    __slots__ = ()
    _looks_like = _GeneratorContextManager


_LENT: Kinds = {
    psycopg.Connection: LentConnection,
    psycopg.Cursor: LentCursor,
    psycopg.ServerCursor: LentCursor,
    psycopg.Copy: LentCopy,
    psycopg.Transaction: LentTransaction,
    psycopg.Pipeline: LentPipeline,
    GeneratorType: LentIterator,
    _GeneratorContextManager: LentBlock,
}
_GUESTS_OWN = ("cursor_factory", "server_cursor_factory", "row_factory", "_adapters")
"""Of the connection: what is the guest's own while it works."""


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
            with _as_guest(connection), Loan(connection, _LENT) as lent:
                pending = self._work(lent)
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
    before = {name: getattr(connection, name) for name in _GUESTS_OWN}
    connection.cursor_factory, connection.server_cursor_factory = GuestCursor, GuestServerCursor
    connection._adapters = AdaptersMap(connection.adapters)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(connection, name, value)


def _ended() -> Refused:
    return Refused(
        "the work of a transaction ended it, or went on after a statement of it had failed; nothing was written",
        hint="Leave commit and rollback to the store; `with connection.transaction()` makes a savepoint.",
        code="transaction_ended",
    )
