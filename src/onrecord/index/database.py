"""Open the index file, and rebuild it when anything is wrong with it.

One connection writes, under a lock; others read. Between processes SQLite's locks decide: a process that finds the file
locked leaves the update to the other process. A problem of the file is never an error for the caller: the file is
emptied, and if that does not help, the index is kept in memory.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import apsw

from onrecord.index import files, schema
from onrecord.store.contract import Store
from onrecord.store.sqlite.connection import connect
from onrecord.store.sqlite.index_files import empty_view, reset

BUSY_SECONDS = 2.0
READERS_KEPT = 4
TRIES = 3
T = TypeVar("T")


class IndexOutdated(Exception):
    """Raised when the index no longer matches the log and has to be rebuilt."""


class Database:
    def __init__(self, store: Store, namespace: str) -> None:
        self.path: str | None = next(
            (path for path in files.candidate_paths(store, namespace) if files.is_usable(path)), None
        )
        self._store = f"{store.url} {namespace}"
        self._lock = threading.RLock()
        self._pool = threading.Lock()
        self._writer: apsw.Connection | None = None
        self._readers: list[apsw.Connection] = []
        self._identity: tuple[int, int] | None = None
        self._closed = False

    def read(self, work: Callable[[apsw.Connection], T]) -> T:
        """Call `work` in one read transaction, and again if the file had to be rebuilt."""
        for _ in range(TRIES):
            try:
                with self._reader() as connection, connection:
                    return work(connection)
            except (apsw.BusyError, apsw.LockedError):
                pass  # another process rebuilds it
            except apsw.Error:
                self.rebuild()
        self._use_memory()
        with self._reader() as connection:
            return work(connection)

    @contextmanager
    def _reader(self) -> Iterator[apsw.Connection]:
        if self.path is None:
            with self._lock:
                yield self._ensure_open()
            return
        if self._writer is None or files.file_identity(self.path) != self._identity:
            with self._lock:
                self._ensure_open()  # creates or replaces the file if necessary
        with self._pool:  # not the writer's lock: readers do not wait for the writer
            connection = self._readers.pop() if self._readers else None
        if connection is None:
            connection = connect(self.path, write=True, busy_seconds=BUSY_SECONDS)
            connection.pragma("query_only", True)
        try:
            yield connection
        except apsw.Error:
            connection.close(True)
            raise
        except BaseException:
            self._return_reader(connection)
            raise
        self._return_reader(connection)

    def _return_reader(self, connection: apsw.Connection) -> None:
        with self._pool:
            kept = len(self._readers) < READERS_KEPT and not self._closed and self.path is not None
            if kept:
                self._readers.append(connection)
        if not kept:
            connection.close(True)

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        """Run one write transaction. Raise BusyError if another process is writing."""
        with self._lock:
            connection = self._ensure_open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    with suppress(apsw.Error):
                        connection.execute("ROLLBACK")
                raise

    def rebuild(self) -> None:
        """Make an empty index, unless another process has already made a valid one."""
        with self._lock:
            self._drop()
            try:
                self._ensure_open()
            except (apsw.BusyError, apsw.LockedError):
                pass  # another process makes it
            except apsw.Error:
                self._use_memory()

    def empty(self) -> None:
        """Empty the index, so that its files hold none of the old bytes."""
        with self._lock:
            self._drop()
            if self.path is not None:
                empty_view(self.path)
            self.rebuild()

    def _use_memory(self) -> None:
        """Keep the index in this process's memory, because no file can be used."""
        with self._lock:
            self._drop()
            self.path = None
            self._ensure_open()

    def _ensure_open(self) -> apsw.Connection:
        if self._writer is not None and self.path is not None and files.file_identity(self.path) != self._identity:
            self._drop()  # the file was removed or replaced
        if self._writer is None:
            self._writer = self._open()
        return self._writer

    def _open(self) -> apsw.Connection:
        if self.path is None:
            connection = apsw.Connection(":memory:")
        else:
            files.is_usable(self.path)
            self._identity = files.file_identity(self.path)
            connection = connect(self.path, write=True, busy_seconds=BUSY_SECONDS)
        try:
            if not self._is_prepared(connection):
                reset(connection)
                self._is_prepared(connection)
        except BaseException:
            connection.close(True)
            raise
        return connection

    def _is_prepared(self, connection: apsw.Connection) -> bool:
        """Turn an empty file into an index; return False if the file is not a valid index.

        The write lock ensures that only one of several processes creates it.
        """
        try:
            connection.pragma("journal_mode", "wal")
            connection.pragma("synchronous", "normal")
            connection.execute("BEGIN IMMEDIATE")
        except (apsw.CorruptError, apsw.NotADBError):
            return False
        try:
            if connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").get is None:
                schema.create(connection)
                facts = {"store": self._store, "birth": secrets.token_hex(8), "version": "0"}
                connection.executemany("INSERT INTO meta VALUES(?, ?)", list(facts.items()))
            ours = self._is_ours(connection)
            connection.execute("COMMIT")
            return ours
        except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError):
            return False
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _is_ours(self, connection: apsw.Connection) -> bool:
        try:
            if schema.fingerprint(connection) != schema.expected_fingerprint():
                return False
            return bool(connection.execute("SELECT value FROM meta WHERE name = 'store'").get == self._store)
        except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError):
            return False

    def _drop(self) -> None:
        with self._pool:
            closing = [*self._readers, *([self._writer] if self._writer is not None else [])]
            self._readers, self._writer = [], None
        for connection in closing:
            with suppress(apsw.Error):
                connection.close(True)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop()
