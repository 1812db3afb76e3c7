"""The one connection that writes.

Rules:

1. `appends.py` executes appends; everything else is a function inside a transaction.
2. After an error at COMMIT, or in a statement that commits by itself, the outcome is unknown. The connection is dropped
   without a checkpoint, the commit is never repeated, and the next call uses a new connection.
3. `synchronous` is FULL for what must survive power loss and NORMAL for the rest; it is set only when it differs. A
   group is as durable as its most demanding member, and one FULL commit makes all earlier ones durable too, since they
   share the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import apsw

from onrecord.errors import OnrecordError, Refused, StoreUnavailable
from onrecord.store.contract import DuplicateIds, EventRow, HeaderRow, NodeRow
from onrecord.store.sqlite import schema
from onrecord.store.sqlite.appends import EVENT_COLUMNS, INSERT_NODE, MOST_ROWS, Appends, insert_events, parse_seq
from onrecord.store.sqlite.connection import connect, discard, translate
from onrecord.store.sqlite.group_commit import CommitRequest, GroupCommit
from onrecord.store.sqlite.short_links import shorten_row
from onrecord.store.sqlite.wal_space import WalSpace

INSERT_RUN = (
    "INSERT INTO runs(namespace, run, kind, created, header, hash, salt, match, content, imported)"
    " VALUES(?,?,?,?,?,?,?,?,?,?)"
)
PAGE_BYTES = 512
"""SQLite's minimum. An empty table or index takes a page, as most do in a store of one run, and rows of a few hundred
bytes waste less space at the ends of small pages. A commit writes fewer bytes in the same time."""
CHECKPOINT_BYTES = 16 << 20
"""Four times SQLite's default: the last pages of a busy run are copied once instead of four times."""
JOURNAL_SIZE_LIMIT = 16 << 20

FULL, NORMAL = 2, 1


T = TypeVar("T")


class SqliteWriter:
    def __init__(self, path: str, durability: str, busy_seconds: float) -> None:
        self.path = path
        self.group = GroupCommit(self._commit_group)
        self.refusal: OnrecordError | None = None
        """Why writing is refused: read-only, newer schema, or closed; else None."""
        self._durable = FULL if durability == "full" else NORMAL
        self._busy_seconds = busy_seconds
        self._connection: apsw.Connection | None = None
        self._cursor: apsw.Cursor
        self._synchronous = FULL
        self._appends = Appends(path)
        self._wal_space = WalSpace(path, JOURNAL_SIZE_LIMIT, busy_seconds) if self._durable == FULL else None

    # The connection

    def open(self) -> apsw.Cursor:
        """Open the connection. The lock is held, or no other thread knows this writer yet."""
        if self.refusal is not None:
            raise self.refusal
        connection = connect(self.path, write=True, busy_seconds=self._busy_seconds, cache=MOST_ROWS + 32)
        try:
            if connection.readonly("main"):
                raise StoreUnavailable(f"{self.path} cannot be written by this user")
            connection.execute(f"PRAGMA journal_size_limit={JOURNAL_SIZE_LIMIT}").fetchall()
            if connection.pragma("page_count") == 0:
                connection.pragma("page_size", PAGE_BYTES)
            connection.wal_autocheckpoint(CHECKPOINT_BYTES // connection.pragma("page_size"))
            mode = connection.pragma("journal_mode", "wal")
            if mode != "wal":
                raise StoreUnavailable(f"{self.path}: SQLite offers no WAL here (journal mode {mode})")
            schema.initialise(connection, self.path)
            connection.execute(f"PRAGMA synchronous={self._durable}")
            self._checkpoint_old_log(connection)
        except BaseException:
            connection.close(True)
            raise
        self._synchronous = self._durable
        self._cursor = connection.cursor()
        self._appends.forget()
        self._connection = connection  # last, so that an interrupt leaves no half-open connection
        return self._cursor

    def roll_back(self) -> None:
        """Roll back the journal of a process that died while it created the file, before it had a write-ahead log.

        Only a connection that may write does that, at its first read of the file.
        """
        connection = connect(self.path, write=True, busy_seconds=self._busy_seconds)
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        finally:
            connection.close(True)

    def _checkpoint_old_log(self, connection: apsw.Connection) -> None:
        """Checkpoint the log of an earlier process before building on it.

        The log may hold pages that the kernel failed to write and has forgotten: the next sync would not report it.
        """
        connection.set_busy_timeout(0)
        with suppress(apsw.BusyError, apsw.LockedError):  # other processes are active and checkpoint their own log
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.set_busy_timeout(int(self._busy_seconds * 1000))

    def drop(self) -> None:
        """Close the connection without a checkpoint. The lock is held."""
        connection, self._connection = self._connection, None
        if connection is not None:
            discard(connection)

    def abandon(self) -> list[object]:
        """Return the connection without closing it, in a child of a fork that Python did not announce."""
        connection, self._connection = self._connection, None
        return [connection] if connection is not None else []

    def close(self, refusal: OnrecordError) -> None:
        """Empty the log and close the connection. The lock is held."""
        self.refusal = refusal
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with suppress(apsw.Error):
            connection.set_busy_timeout(0)
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.close(True)

    def _find_idle_cursor(self) -> apsw.Cursor:
        if self._connection is not None and self._connection.in_transaction:
            self.drop()  # an interrupt prevented the end of the last transaction
        return self._cursor if self._connection is not None else self.open()

    def _prepare_cursor(self, wanted: int) -> apsw.Cursor:
        connection = self._connection
        cursor = self._find_idle_cursor() if connection is None or connection.in_transaction else self._cursor
        if wanted != self._synchronous:
            self._synchronous = -1
            cursor.execute("PRAGMA synchronous=2" if wanted == FULL else "PRAGMA synchronous=1")
            self._synchronous = wanted
        return cursor

    def _abort(self, error: BaseException, committing: bool) -> BaseException:
        """End a failed transaction and return the exception to raise. Drop a connection in an unknown state."""
        if self._connection is not None:
            healthy = isinstance(error, (OnrecordError, DuplicateIds, apsw.ConstraintError, apsw.BusyError))
            try:
                if not healthy or committing:
                    self.drop()
                elif self._connection.in_transaction:
                    self._cursor.execute("ROLLBACK")
            except apsw.Error:
                self.drop()
        if isinstance(error, (apsw.Error, UnicodeDecodeError)):
            return translate(error, self.path, committing=committing)
        return error

    def transaction(self, work: Callable[[apsw.Cursor], T]) -> T:
        """Run `work` in a durable transaction. For everything but appends."""
        return self.group.exclusive(lambda: self._transact(work))

    def _transact(self, work: Callable[[apsw.Cursor], T]) -> T:
        committing = False
        try:
            cursor = self._prepare_cursor(self._durable)
            cursor.execute("BEGIN IMMEDIATE")
            result = work(cursor)
            committing = True
            cursor.execute("COMMIT")
        except BaseException as error:
            raised = self._abort(error, committing)
            if raised is error:
                raise
            raise raised from error
        return result

    def checkpoint(self) -> bool:
        """Empty the write-ahead log into the database. Return False if a reader of another process prevents it."""
        return self.group.exclusive(self._checkpoint)

    def _checkpoint(self) -> bool:
        try:
            self._find_idle_cursor().connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            return False
        except apsw.Error as error:
            raise translate(error, self.path) from error
        return True

    def vacuum(self) -> None:
        self.group.exclusive(self._vacuum)

    def _vacuum(self) -> None:
        try:
            self._find_idle_cursor().execute("VACUUM")
        except apsw.Error as error:
            raise translate(error, self.path) from error

    # Runs

    def read_header(self, cursor: apsw.Cursor, namespace: str, run: str) -> bytes | None:
        row = cursor.execute("SELECT header FROM runs WHERE namespace = ? AND run = ?", (namespace, run)).fetchone()
        return None if row is None else row[0]

    def add_run(self, cursor: apsw.Cursor, namespace: str, header: HeaderRow, nodes: Sequence[NodeRow]) -> int:
        cursor.execute(INSERT_RUN, (namespace, *header[:-1], int(header.imported)))
        number = cursor.connection.last_insert_rowid()
        cursor.executemany(INSERT_NODE, [(namespace, *node) for node in nodes])
        return number

    def add_events(
        self,
        cursor: apsw.Cursor,
        namespace: str,
        run: str,
        number: int,
        events: Sequence[EventRow],
        nodes: Sequence[NodeRow],
    ) -> None:
        """Insert events of a run that no other connection can see yet."""
        cursor.executemany(INSERT_NODE, [(namespace, *node) for node in nodes])
        try:
            insert_events(cursor, [(number, *shorten_row(run, event)) for event in events])
        except apsw.ConstraintError as error:
            raise Refused("seq, id or lane_seq of an event is taken in the imported run") from error

    # Appends

    def _commit_group(self, group: list[CommitRequest]) -> None:
        appends = self._appends
        appends.committing = False
        try:
            sync = group[0].sync or (len(group) > 1 and any(request.sync for request in group))
            cursor = self._prepare_cursor(self._durable if sync else NORMAL)
            wal_space = self._wal_space
            if wal_space is not None:
                wal_space.commits_left -= 1
                if not wal_space.commits_left:
                    wal_space.extend_if_needed(cursor)
            if not appends.append_group(cursor, group):
                cursor.execute("BEGIN IMMEDIATE")
                for request in group:
                    request.error = appends.append_carefully(cursor, request)
                appends.committing = True
                cursor.execute("COMMIT")
        except BaseException as error:
            raised = self._abort(error, appends.committing)
            if raised is error:
                raise
            raise raised from error

    def append_many(self, requests: list[CommitRequest]) -> list[Exception | None]:
        if requests:
            self.group.exclusive(lambda: self._commit_group(requests))
        return [request.error for request in requests]

    def append_carefully(self, cursor: apsw.Cursor, request: CommitRequest) -> Exception | None:
        """Execute one append inside an open transaction."""
        return self._appends.append_carefully(cursor, request)

    def find_run_number(self, cursor: apsw.Cursor, namespace: str, run: str) -> int:
        return self._appends.find_run_number(cursor, namespace, run)


__all__ = ["EVENT_COLUMNS", "SqliteWriter", "parse_seq"]
