"""Write the user's own tables and events in one transaction.

Rules:

1. The user's code works on the writer's connection, under the store's write lock, inside its transaction. Its
   exceptions are raised unchanged, and everything is rolled back. The connection is lent (`onrecord.store.loan`): only
   the operations listed here work, and none after the work ends.
2. Meanwhile SQLite asks the guard about each statement. The guard refuses the store's own tables, transactions,
   attached files, settings, temporary tables (which could hide the store's), views and triggers (which the store's
   connections do not run).
3. No other commit can happen: a hook turns it into a rollback. `INSERT OR ROLLBACK` ends a transaction without asking,
   and what came after it would commit by itself.
4. Open cursors are closed at the end: a half-read statement would keep an old view of the database alive.
5. If tables were created or changed, the file must still pass `schema.examine`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import apsw

from onrecord.errors import OnrecordError, Refused
from onrecord.store.contract import PendingAppend
from onrecord.store.loan import Kinds, Lent, LentContext, LentIterator, Loan, make_refusal
from onrecord.store.sqlite import schema
from onrecord.store.sqlite.group_commit import CommitRequest
from onrecord.store.sqlite.write_connection import SqliteWriter

Work = Callable[[Any], PendingAppend]

_STORE_TABLES = frozenset(name for kind, name in schema.EXPECTED if kind == "table")
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
"""Pragmas that only read; every other one changes a setting of the store's connection."""
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
"""Failures of the store, not of the work, whichever statement meets them."""


class _RowTracer(Lent):
    """A proxy on which the user may set how rows are made."""

    __slots__ = ()
    _settable = frozenset({"row_trace", "rowtrace"})

    def _set(self, thing: Any, name: str, value: Any) -> None:
        loan = self._loan
        trace = value if value is None else lambda cursor, row: value(loan.lend(cursor), row)
        super()._set(thing, name, trace)


class LentSqliteConnection(_RowTracer, LentContext):
    """A proxy for a connection. `with` makes a savepoint, as with every apsw connection."""

    __slots__ = ()
    _looks_like = apsw.Connection
    _methods = frozenset(
        {
            *("execute", "executemany", "cursor", "pragma", "changes", "total_changes", "totalchanges"),
            *("last_insert_rowid", "get_autocommit", "getautocommit", "column_metadata", "table_exists"),
        }
    )
    _values = frozenset({"in_transaction", "filename", "row_trace", "rowtrace"})


class LentSqliteCursor(_RowTracer, LentIterator):
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


_LENT: Kinds = {apsw.Connection: LentSqliteConnection, apsw.Cursor: LentSqliteCursor}


class _WorkFailed(OnrecordError):
    """Wraps the exception of the work, so that it is not translated like SQLite's own errors."""

    def __init__(self, error: BaseException) -> None:
        super().__init__("the work of a transaction failed")
        self.error = error


def transact(writer: SqliteWriter, path: str, work: Work) -> None:
    """Run the work; see `onrecord.store.contract.TransactionalStore`."""

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
                hint="Do not close the connection, and let a conflict fail only its statement (OR ABORT).",
                code="transaction_ended",
            )
        if guard.changed:
            schema.examine(connection, path)
        refusal = writer.append_carefully(cursor, CommitRequest(*pending, sync=True))
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
    """Checks the user's statements on the writer's connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._cursors: list[apsw.Cursor] = []
        self._dropping = False
        self.changed = False
        """True if tables or indexes were created or altered."""

    def __enter__(self) -> _Guard:
        connection = self._connection
        self._factory, self._trace = connection.cursor_factory, connection.row_trace
        connection.cursor_factory = self._make_cursor
        connection.set_commit_hook(lambda: True)
        connection.authorizer = self._check_action
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(apsw.ConnectionClosedError):
            for cursor in self._cursors:
                cursor.close(True)
            connection = self._connection
            connection.authorizer = None
            connection.set_commit_hook(None)
            connection.cursor_factory, connection.row_trace = self._factory, self._trace

    def _make_cursor(self, connection: apsw.Connection) -> apsw.Cursor:
        cursor: apsw.Cursor = self._factory(connection)
        self._cursors.append(cursor)
        return cursor

    def _check_action(
        self, action: int, first: str | None, second: str | None, database: str | None, _: str | None
    ) -> int:
        """Answer SQLite's question about one action of a statement. The statement raises what this raises."""
        if action in _REFUSED:
            raise make_refusal(_REFUSED[action])
        if action == apsw.SQLITE_PRAGMA and first not in _PRAGMAS:
            raise make_refusal("change a setting of the connection")
        # The position of the table among the arguments differs: an index names it second, and so does ALTER TABLE.
        table_argument = (
            second if action in (apsw.SQLITE_CREATE_INDEX, apsw.SQLITE_DROP_INDEX, apsw.SQLITE_ALTER_TABLE) else first
        )
        table = (table_argument or "").lower()
        if action not in (apsw.SQLITE_FUNCTION, apsw.SQLITE_SAVEPOINT, apsw.SQLITE_SELECT):
            self._check_table(action, table)
        self.changed = self.changed or action in _CHANGES
        return apsw.SQLITE_OK

    def _check_table(self, action: int, table: str) -> None:
        if table in _STORE_TABLES or table.startswith(schema.RESERVED_PREFIX):
            raise make_refusal(f"touch the table {table!r}, which is the store's own")
        if action == apsw.SQLITE_DROP_TABLE:
            self._dropping = True  # SQLite then deletes the table's row numbers by itself
        elif action == apsw.SQLITE_DELETE and table in _SCHEMA_TABLES:
            self._dropping = False
        elif table == "sqlite_sequence" and action != apsw.SQLITE_READ and not self._dropping:
            raise make_refusal("touch the table 'sqlite_sequence', by which the store numbers its runs")
