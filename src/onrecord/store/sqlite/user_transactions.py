"""Tables of the user's own in the store's file, written in one transaction with events.

Rules:

1. The user's code works on the writer's connection, under the store's write lock, inside its transaction. What it
   raises comes out as it is, and everything is rolled back. It is lent the connection (`reenact.store.lending`): it
   can do with it what is named here, and nothing any more when the work is over.
2. While it works, SQLite asks us about each statement: our own tables, transactions, attached files, settings,
   temporary tables (which would hide ours), views and triggers (which our connections do not run) are refused.
3. No commit but ours can happen: a hook turns any other into a rollback. `INSERT OR ROLLBACK` ends a transaction
   without asking, and what came after it would commit by itself.
4. Cursors that were left open are closed: a statement half read would keep an old view of the database alive.
5. If tables were made or changed, the file must still be one that we would open.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import apsw

from reenact.errors import ReenactError, Refused
from reenact.store.contract import PendingAppend
from reenact.store.lending import Kinds, Lent, LentContext, LentIterator, Loan
from reenact.store.lending import refusal as _refusal
from reenact.store.sqlite import schema
from reenact.store.sqlite.group_commit import Request
from reenact.store.sqlite.writer import Writer

Work = Callable[[Any], PendingAppend]

_OWN = frozenset(name for kind, name in schema.EXPECTED if kind == "table")
_SCHEMA_TABLES = frozenset({"sqlite_master", "sqlite_schema"})
_REFUSED = {
    apsw.SQLITE_TRANSACTION: "begin or end a transaction",
    apsw.SQLITE_ATTACH: "attach a file",
    apsw.SQLITE_DETACH: "detach a file",
    apsw.SQLITE_ANALYZE: "analyse the store",
    apsw.SQLITE_CREATE_TEMP_TABLE: "make a temporary table",
    apsw.SQLITE_CREATE_TEMP_INDEX: "make a temporary index",
    apsw.SQLITE_CREATE_TEMP_TRIGGER: "make a trigger",
    apsw.SQLITE_CREATE_TEMP_VIEW: "make a view",
    apsw.SQLITE_CREATE_TRIGGER: "make a trigger",
    apsw.SQLITE_DROP_TRIGGER: "drop a trigger",
    apsw.SQLITE_CREATE_VIEW: "make a view",
    apsw.SQLITE_CREATE_VTABLE: "make a virtual table",
}
_PRAGMAS = frozenset({"table_info", "table_xinfo", "table_list", "index_list", "index_info", "foreign_key_list"})
"""Questions about tables; every other one is a setting of a connection that is ours."""
_CHANGES = frozenset({apsw.SQLITE_CREATE_TABLE, apsw.SQLITE_CREATE_INDEX, apsw.SQLITE_ALTER_TABLE})
_STORE_FAILURES = (
    apsw.FullError,
    apsw.IOError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.NoMemError,
)
"""Not the user's mistakes, whosever statement meets them: nothing is known to be wrong with the work."""


class _Rows(Lent):
    """What may set how rows are made."""

    __slots__ = ()
    _settable = frozenset({"row_trace", "rowtrace"})

    def _set(self, thing: Any, name: str, value: Any) -> None:
        loan = self._loan
        trace = value if value is None else lambda cursor, row: value(loan.lend(cursor), row)
        super()._set(thing, name, trace)


class LentConnection(_Rows, LentContext):
    """`with` makes a savepoint, as it does with any connection of apsw's."""

    __slots__ = ()
    _looks_like = apsw.Connection
    _methods = frozenset(
        {
            *("execute", "executemany", "cursor", "pragma", "changes", "total_changes", "totalchanges"),
            *("last_insert_rowid", "get_autocommit", "getautocommit", "column_metadata", "table_exists"),
        }
    )
    _values = frozenset({"in_transaction", "filename", "row_trace", "rowtrace"})


class LentCursor(_Rows, LentIterator):
    __slots__ = ()
    _looks_like = apsw.Cursor
    _methods = frozenset(
        {
            *("execute", "executemany", "fetchone", "fetchall", "close"),
            *("get_description", "getdescription", "get_connection", "getconnection"),
        }
    )
    _values = frozenset(
        {
            *("connection", "description", "description_full", "get", "bindings_count", "bindings_names"),
            *("expanded_sql", "has_vdbe", "is_explain", "is_readonly", "sql", "row_trace", "rowtrace"),
        }
    )


_LENT: Kinds = {apsw.Connection: LentConnection, apsw.Cursor: LentCursor}


class _WorkFailed(ReenactError):
    """Carries what the work raised past the code that translates SQLite's own errors."""

    def __init__(self, error: BaseException) -> None:
        super().__init__("the work of a transaction failed")
        self.error = error


def transact(writer: Writer, path: str, work: Work) -> None:
    """See `reenact.store.contract.TransactionalStore`."""

    def inside(cursor: apsw.Cursor) -> None:
        connection = cursor.connection
        guard = _Guard(connection)
        try:
            with guard, Loan(connection, _LENT) as lent:
                pending = work(lent)
        except _STORE_FAILURES:
            raise
        except BaseException as error:
            raise _WorkFailed(error) from None
        if not _in_transaction(connection):
            raise Refused(
                "the work of a transaction ended it; nothing was written",
                hint="Do not close the connection, and let a conflict fail its statement (OR ABORT), not everything.",
                code="transaction_ended",
            )
        if guard.changed:
            schema.examine(connection, path)
        refusal = writer.apply_with_care(cursor, Request(*pending, sync=True))
        if refusal is not None:
            raise refusal

    try:
        writer.transaction(inside)
    except _WorkFailed as failed:
        raise failed.error from None


def _in_transaction(connection: apsw.Connection) -> bool:
    with suppress(apsw.ConnectionClosedError):
        return connection.in_transaction
    return False


class _Guard:
    """Stands between the user's statements and the writer's connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._cursors: list[apsw.Cursor] = []
        self._dropping = False
        self.changed = False
        """Tables or indexes were made or altered."""

    def __enter__(self) -> _Guard:
        connection = self._connection
        self._factory, self._trace = connection.cursor_factory, connection.row_trace
        connection.cursor_factory = self._cursor
        connection.set_commit_hook(lambda: True)
        connection.authorizer = self._ask
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(apsw.ConnectionClosedError):
            for cursor in self._cursors:
                cursor.close(True)
            connection = self._connection
            connection.authorizer = None
            connection.set_commit_hook(None)
            connection.cursor_factory, connection.row_trace = self._factory, self._trace

    def _cursor(self, connection: apsw.Connection) -> apsw.Cursor:
        cursor: apsw.Cursor = self._factory(connection)
        self._cursors.append(cursor)
        return cursor

    def _ask(self, action: int, first: str | None, second: str | None, database: str | None, _: str | None) -> int:
        """SQLite's question about one thing that a statement is about to do. What is raised here, the statement
        raises."""
        if action in _REFUSED:
            raise _refusal(_REFUSED[action])
        if action == apsw.SQLITE_PRAGMA and first not in _PRAGMAS:
            raise _refusal("change a setting of the connection")
        # Where the table stands among the arguments differs: an index names it second, and so does ALTER TABLE.
        named = (
            second if action in (apsw.SQLITE_CREATE_INDEX, apsw.SQLITE_DROP_INDEX, apsw.SQLITE_ALTER_TABLE) else first
        )
        table = (named or "").lower()
        if action not in (apsw.SQLITE_FUNCTION, apsw.SQLITE_SAVEPOINT, apsw.SQLITE_SELECT):
            self._ask_about(action, table)
        self.changed = self.changed or action in _CHANGES
        return apsw.SQLITE_OK

    def _ask_about(self, action: int, table: str) -> None:
        if table in _OWN or table.startswith(schema.RESERVED_PREFIX):
            raise _refusal(f"touch the table {table!r}, which is the store's own")
        if action == apsw.SQLITE_DROP_TABLE:
            self._dropping = True  # SQLite then forgets the table's row numbers by itself
        elif action == apsw.SQLITE_DELETE and table in _SCHEMA_TABLES:
            self._dropping = False
        elif table == "sqlite_sequence" and action != apsw.SQLITE_READ and not self._dropping:
            raise _refusal("touch the table 'sqlite_sequence', by which the store numbers its runs")
