"""The one connection that writes.

Rules:

1. Appends are carried out by `appends.py`, everything else by a function inside a transaction.
2. After an error at COMMIT, or of a statement that commits by itself, nothing is known. The connection is dropped
   without a checkpoint, the commit is never repeated, and the next call works on a new connection.
3. `synchronous` is FULL for what must survive power loss and NORMAL for what need not; it is set only when it
   differs. A group is as durable as its most demanding member, and one FULL commit makes all earlier ones
   durable too, since they share the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import apsw

from reenact.errors import ReenactError, Refused, StoreUnavailable
from reenact.store.contract import DuplicateIds, EventRow, HeaderRow, NodeRow
from reenact.store.sqlite import schema
from reenact.store.sqlite.appends import EVENT_COLUMNS, INSERT_NODE, MOST_ROWS, Appends, insert, seq_of
from reenact.store.sqlite.connection import connect, discard, translate
from reenact.store.sqlite.group_commit import GroupCommit, Request
from reenact.store.sqlite.room import Room
from reenact.store.sqlite.short_links import kept

INSERT_RUN = (
    "INSERT INTO runs(namespace, run, kind, created, header, hash, salt, match, content, imported)"
    " VALUES(?,?,?,?,?,?,?,?,?,?)"
)
PAGE_BYTES = 512
"""The least there is. A table or index that holds nothing takes a page, as most do in a store of one run, and rows of a
few hundred bytes leave less room unused at the ends of small pages. A commit writes fewer bytes, in as much time."""
CHECKPOINT_BYTES = 16 << 20
"""Four times SQLite's default: a busy run's last pages are copied once instead of four times."""
JOURNAL_SIZE_LIMIT = 16 << 20

FULL, NORMAL = 2, 1


T = TypeVar("T")


class Writer:
    def __init__(self, path: str, durability: str, busy_seconds: float) -> None:
        self.path = path
        self.group = GroupCommit(self._commit_group)
        self.refusal: ReenactError | None = None
        """Why nothing may be written, if so: read-only, newer schema, closed."""
        self._durable = FULL if durability == "full" else NORMAL
        self._busy_seconds = busy_seconds
        self._connection: apsw.Connection | None = None
        self._cursor: apsw.Cursor
        self._synchronous = FULL
        self._appends = Appends(path)
        self._room = Room(path, JOURNAL_SIZE_LIMIT, busy_seconds) if self._durable == FULL else None

    # The connection

    def open(self) -> apsw.Cursor:
        """The lock is held, or nobody else knows this writer yet."""
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
            self._settle_log(connection)
        except BaseException:
            connection.close(True)
            raise
        self._synchronous = self._durable
        self._cursor = connection.cursor()
        self._appends.forget()
        self._connection = connection  # last: an interrupt before leaves none, not half of one
        return self._cursor

    def roll_back(self) -> None:
        """A process that died while the file was made, before it had a write-ahead log, left a journal to roll back.
        Only a connection that may write does that; it happens with the first look at the file."""
        connection = connect(self.path, write=True, busy_seconds=self._busy_seconds)
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        finally:
            connection.close(True)

    def _settle_log(self, connection: apsw.Connection) -> None:
        """What an earlier process left in the log may be pages that the kernel failed to write and has forgotten: the
        next sync would succeed without them. Nothing is built on them; they are written to the database first."""
        connection.set_busy_timeout(0)
        with suppress(apsw.BusyError, apsw.LockedError):  # others are at work, and settle what is theirs
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.set_busy_timeout(int(self._busy_seconds * 1000))

    def drop(self) -> None:
        """Forget the connection, without a checkpoint. The lock is held."""
        connection, self._connection = self._connection, None
        if connection is not None:
            discard(connection)

    def abandon(self) -> list[object]:
        """Hand the connection over without closing it (a child of a fork that was not announced)."""
        connection, self._connection = self._connection, None
        return [connection] if connection is not None else []

    def close(self, refusal: ReenactError) -> None:
        """The lock is held."""
        self.refusal = refusal
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with suppress(apsw.Error):
            connection.set_busy_timeout(0)
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.close(True)

    def _idle_cursor(self) -> apsw.Cursor:
        if self._connection is not None and self._connection.in_transaction:
            self.drop()  # an interrupt kept the last transaction from being ended
        return self._cursor if self._connection is not None else self.open()

    def _ready(self, wanted: int) -> apsw.Cursor:
        connection = self._connection
        cursor = self._idle_cursor() if connection is None or connection.in_transaction else self._cursor
        if wanted != self._synchronous:
            self._synchronous = -1
            cursor.execute("PRAGMA synchronous=2" if wanted == FULL else "PRAGMA synchronous=1")
            self._synchronous = wanted
        return cursor

    def _abort(self, error: BaseException, committing: bool) -> BaseException:
        """Ends a failed transaction; what to raise. A connection whose state is in doubt is dropped."""
        if self._connection is not None:
            healthy = isinstance(error, (ReenactError, DuplicateIds, apsw.ConstraintError, apsw.BusyError))
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
        """Does `work` in a durable transaction: everything but appends."""
        return self.group.exclusive(lambda: self._transact(work))

    def _transact(self, work: Callable[[apsw.Cursor], T]) -> T:
        committing = False
        try:
            cursor = self._ready(self._durable)
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
        """Empties the write-ahead log into the database; False if a reader of another process is in the way."""
        return self.group.exclusive(self._checkpoint)

    def _checkpoint(self) -> bool:
        try:
            self._idle_cursor().connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            return False
        except apsw.Error as error:
            raise translate(error, self.path) from error
        return True

    def vacuum(self) -> None:
        self.group.exclusive(self._vacuum)

    def _vacuum(self) -> None:
        try:
            self._idle_cursor().execute("VACUUM")
        except apsw.Error as error:
            raise translate(error, self.path) from error

    # Runs

    def header(self, cursor: apsw.Cursor, namespace: str, run: str) -> bytes | None:
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
        """Events of a run that nobody else can see yet."""
        cursor.executemany(INSERT_NODE, [(namespace, *node) for node in nodes])
        try:
            insert(cursor, [(number, *kept(run, event)) for event in events])
        except apsw.ConstraintError as error:
            raise Refused("seq, id or lane_seq of an event is taken in the imported run") from error

    # Appends

    def _commit_group(self, group: list[Request]) -> None:
        appends = self._appends
        appends.committing = False
        try:
            sync = group[0].sync or (len(group) > 1 and any(request.sync for request in group))
            cursor = self._ready(self._durable if sync else NORMAL)
            room = self._room
            if room is not None:
                room.commits_left -= 1
                if not room.commits_left:
                    room.look(cursor)
            if not appends.at_once(cursor, group):
                cursor.execute("BEGIN IMMEDIATE")
                for request in group:
                    request.error = appends.with_care(cursor, request)
                appends.committing = True
                cursor.execute("COMMIT")
        except BaseException as error:
            raised = self._abort(error, appends.committing)
            if raised is error:
                raise
            raise raised from error

    def append_many(self, requests: list[Request]) -> list[Exception | None]:
        if requests:
            self.group.exclusive(lambda: self._commit_group(requests))
        return [request.error for request in requests]

    def apply_with_care(self, cursor: apsw.Cursor, request: Request) -> Exception | None:
        """One append inside any transaction."""
        return self._appends.with_care(cursor, request)

    def run_number(self, cursor: apsw.Cursor, namespace: str, run: str) -> int:
        return self._appends.run_number(cursor, namespace, run)


__all__ = ["EVENT_COLUMNS", "Writer", "seq_of"]
