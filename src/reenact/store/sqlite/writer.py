"""The one connection that writes.

Rules:

1. Everything is validated inside the transaction that writes it. An append whose epoch and head are right is
   inserted at once; only when something is not as expected are its ids looked up, and the unique indexes
   catch the rest. Then the whole group is rolled back and done again with care, each append under its own
   savepoint. Heads and epochs are remembered from one group to the next, and believed only while the file's
   data version says that nobody, this connection included, has committed anything else since. It is the check
   by which SQLite itself believes its page cache.
2. After an error at COMMIT nothing is known. The connection is dropped without a checkpoint, the commit is
   never repeated, and the next call works on a new connection.
3. `synchronous` is FULL for what must survive power loss and NORMAL for what need not; it is set only when it
   differs. A group is as durable as its most demanding member, and one FULL commit makes all earlier ones
   durable too, since they share the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import TypeVar, cast

import apsw

from reenact.errors import MovedHead, NotFound, ReenactError, Refused, StaleEpoch, StoreUnavailable
from reenact.store.contract import DuplicateIds, EventRow, HeaderRow, NodeRow
from reenact.store.sqlite import row_types, schema
from reenact.store.sqlite.connection import connect, discard, translate
from reenact.store.sqlite.group_commit import GroupCommit, Request

EVENT_COLUMNS = "seq, id, kind, lane, lane_seq, link, hash, salt, match, prefix, content"
RUN_NUMBER = "SELECT run_no FROM runs WHERE namespace = ? AND run = ?"
HEAD = (
    "SELECT r.epoch, r.hash, e.seq, e.hash FROM runs r LEFT JOIN events e ON e.run_no = r.run_no"
    " WHERE r.run_no = ? ORDER BY e.seq DESC LIMIT 1"
)
INSERT_EVENT = f"INSERT INTO events(run_no, {EVENT_COLUMNS}) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)"
# Many rows in one statement: one hand-over of the interpreter lock instead of one for each row.
INSERTS = tuple((n, INSERT_EVENT + ",(?,?,?,?,?,?,?,?,?,?,?,?)" * (n - 1)) for n in (32, 8, 2, 1))
INSERT_RUN = (
    "INSERT INTO runs(namespace, run, kind, created, header, hash, salt, match, content, imported)"
    " VALUES(?,?,?,?,?,?,?,?,?,?)"
)
INSERT_NODE = (
    "INSERT INTO nodes(namespace, address, blob) SELECT ?1, ?2, ?3"
    " WHERE NOT EXISTS(SELECT 1 FROM nodes WHERE namespace = ?1 AND address = ?2)"
)
EVENT_BY_ID = f"SELECT {EVENT_COLUMNS} FROM events WHERE run_no = ? AND id = ? AND substr(id, 1, 1) <> '_'"
EVENT_BY_SEQ = f"SELECT {EVENT_COLUMNS} FROM events WHERE run_no = ? AND seq = ?"

CHECKPOINT_PAGES = 4000
"""Four times SQLite's default: a busy run's last pages are copied once instead of four times. 16 MB of log at most."""
JOURNAL_SIZE_LIMIT = 16 << 20
KNOWN_RUNS = 4096

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
        self._known: dict[tuple[str, str], tuple[int, int, int, bytes]] = {}
        """(namespace, run) -> run number, epoch, seq and hash of the head, as of `_version`"""
        self._version = -1

    # The connection

    def open(self) -> apsw.Cursor:
        """The lock is held, or nobody else knows this writer yet."""
        if self.refusal is not None:
            raise self.refusal
        connection = connect(self.path, write=True, busy_seconds=self._busy_seconds)
        try:
            if connection.readonly("main"):
                raise StoreUnavailable(f"{self.path} cannot be written by this user")
            connection.execute(f"PRAGMA journal_size_limit={JOURNAL_SIZE_LIMIT}").fetchall()
            connection.wal_autocheckpoint(CHECKPOINT_PAGES)
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
        self._version = -1
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

    def _begin(self, sync: bool) -> apsw.Cursor:
        cursor = self._idle_cursor()
        wanted = self._durable if sync else NORMAL
        if wanted != self._synchronous:
            self._synchronous = -1
            cursor.execute("PRAGMA synchronous=2" if wanted == FULL else "PRAGMA synchronous=1")
            self._synchronous = wanted
        cursor.execute("BEGIN IMMEDIATE")
        return cursor

    def _abort(self, error: BaseException, committing: bool) -> BaseException:
        """Ends a failed transaction; what to raise. A connection whose state is in doubt is dropped."""
        self._version = -1
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
            cursor = self._begin(True)
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
        number: int,
        events: Sequence[EventRow],
        nodes: Sequence[NodeRow],
    ) -> None:
        """Events of a run that nobody else can see yet."""
        cursor.executemany(INSERT_NODE, [(namespace, *node) for node in nodes])
        try:
            _insert(cursor, [(number, *event) for event in events])
        except apsw.ConstraintError as error:
            raise Refused("seq, id or lane_seq of an event is taken in the imported run") from error

    # Appends

    def _commit_group(self, group: list[Request]) -> None:
        committing = False
        try:
            cursor = self._begin(group[0].sync or any(request.sync for request in group))
            connection = cursor.connection
            if connection.data_version() != self._version or len(self._known) > KNOWN_RUNS:
                self._known.clear()
            self._version = -1  # what is noted from here on is not committed yet
            try:
                rows: list[tuple[object, ...]] = []
                for request in group:
                    request.error = self._admit(cursor, request, rows)
                if rows:
                    _insert(cursor, rows)
            except apsw.ConstraintError:
                cursor.execute("ROLLBACK")
                cursor.execute("BEGIN IMMEDIATE")
                for request in group:
                    request.error = self.apply_with_care(cursor, request)
            committing = True
            cursor.execute("COMMIT")
            self._version = connection.data_version()
        except BaseException as error:
            raised = self._abort(error, committing)
            if raised is error:
                raise
            raise raised from error

    def append_many(self, requests: list[Request]) -> list[Exception | None]:
        if requests:
            self.group.exclusive(lambda: self._commit_group(requests))
        return [request.error for request in requests]

    def run_number(self, cursor: apsw.Cursor, namespace: str, run: str) -> int:
        number = cursor.execute(RUN_NUMBER, (namespace, run)).get
        if number is None:
            raise NotFound(f"no run {run!r} in namespace {namespace!r} of {self.path}")
        return int(number)

    def _admit(self, cursor: apsw.Cursor, request: Request, rows: list[tuple[object, ...]]) -> Exception | None:
        """Adds the request's events to `rows`, to be inserted by the caller, or says why not."""
        key = (request.namespace, request.run)
        known = self._known.get(key)
        if known is None:
            try:
                number = self.run_number(cursor, *key)
            except NotFound as error:
                return error
            row = cursor.execute(HEAD, (number,)).fetchone()
            epoch, header_hash, seq, last_hash = cast("tuple[int, bytes, int | None, bytes]", row)
            known = (number, epoch, 0, header_hash) if seq is None else (number, epoch, seq, last_hash)
            self._known[key] = known
        number, epoch, seq, last_hash = known
        expected = request.expected
        if epoch != request.epoch or seq != expected[0] or last_hash != expected[1]:
            _insert(cursor, rows)  # the ids of this group count too
            rows.clear()
            return self._refusal(cursor, number, request, epoch, seq)
        if request.nodes:
            namespace = request.namespace
            cursor.executemany(INSERT_NODE, [(namespace, address, blob) for address, blob in request.nodes])
        for event in request.events:
            rows.append((number, *event))
        if request.events:
            self._known[key] = (number, epoch, event[0], event[6])
        return None

    def _refusal(self, cursor: apsw.Cursor, number: int, request: Request, epoch: int, seq: int) -> Exception:
        existing = self._existing(cursor, number, request)
        if existing:
            return DuplicateIds(existing)
        if epoch != request.epoch:
            return StaleEpoch(f"run {request.run!r} is at epoch {epoch}, the append is of epoch {request.epoch}")
        return MovedHead(f"run {request.run!r} ends with seq {seq}, the append expected {request.expected[0]}")

    def _existing(self, cursor: apsw.Cursor, number: int, request: Request) -> list[EventRow]:
        found = []
        for event in request.events:
            seq = seq_of(event.id)
            if seq is None:
                row = cursor.execute(EVENT_BY_ID, (number, event.id)).fetchone()
            else:
                row = cursor.execute(EVENT_BY_SEQ, (number, seq)).fetchone()
            if row is not None and row[1] == event.id:
                found.append(row_types.event(row, request.run))
        return found

    def apply_with_care(self, cursor: apsw.Cursor, request: Request) -> Exception | None:
        """One append inside any transaction, trusting nothing remembered."""
        self._known.clear()
        self._version = -1
        cursor.execute("SAVEPOINT append")
        try:
            rows: list[tuple[object, ...]] = []
            error = self._admit(cursor, request, rows)
            _insert(cursor, rows)
        except apsw.ConstraintError:
            cursor.execute("ROLLBACK TO append")
            error = self._conflict(cursor, request)
        cursor.execute("RELEASE append")
        self._known.clear()
        return error

    def _conflict(self, cursor: apsw.Cursor, request: Request) -> Exception:
        number = self.run_number(cursor, request.namespace, request.run)
        existing = self._existing(cursor, number, request)
        if existing:
            return DuplicateIds(existing)
        return Refused(f"seq, id or lane_seq of an event is taken in run {request.run!r}")


def seq_of(event_id: str) -> int | None:
    """The seq that an id made by the journal ends with; None for an id that somebody gave."""
    if not event_id.startswith("_"):
        return None
    try:
        seq = int(event_id.rpartition("_")[2], 16)
    except ValueError:
        return 0
    return seq if seq < 1 << 62 else 0


def _insert(cursor: apsw.Cursor, rows: list[tuple[object, ...]]) -> None:
    if len(rows) == 1:
        cursor.execute(INSERT_EVENT, rows[0])
        return
    at = 0
    for size, sql in INSERTS:
        while len(rows) - at >= size:
            cursor.execute(sql, tuple(chain.from_iterable(rows[at : at + size])))
            at += size
