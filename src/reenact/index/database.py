"""The file of the index: opened, kept in order, made anew when anything is wrong with it.

One connection writes, under a lock; others read. Between processes SQLite's own locks hold: whoever finds the file
being written leaves the work to him. What goes wrong with the file is never anybody's error: it is emptied, and if
that does not help, the index is kept in memory.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import apsw

from reenact.index import files, schema
from reenact.store.contract import Store
from reenact.store.sqlite.connection import connect
from reenact.store.sqlite.views import remove, reset

BUSY_SECONDS = 2.0
READERS_KEPT = 4
T = TypeVar("T")


class StartAnew(Exception):
    """What the index holds is not a view of the log any more."""


class Database:
    def __init__(self, store: Store, namespace: str) -> None:
        self.path: str | None = next((path for path in files.places(store, namespace) if files.usable(path)), None)
        self._store = f"{store.url} {namespace}"
        self._lock = threading.RLock()
        self._writer: apsw.Connection | None = None
        self._readers: list[apsw.Connection] = []
        self._closed = False

    # Reading

    def read(self, work: Callable[[apsw.Connection], T]) -> T:
        """All that `work` reads is seen at one moment. Called again where the file had to be made anew."""
        for last in (False, False, True):
            try:
                with self._reader() as connection, connection:
                    return work(connection)
            except (apsw.BusyError, apsw.LockedError):
                if last:
                    raise
            except apsw.Error:
                if last:
                    raise
                self.make_anew()
        raise AssertionError("unreachable")

    @contextmanager
    def _reader(self) -> Iterator[apsw.Connection]:
        if self.path is None:
            with self._lock:
                yield self._opened()
            return
        with self._lock:
            self._opened()  # there is a file, and it is ours
            connection = self._readers.pop() if self._readers else None
        if connection is None:
            connection = connect(self.path, write=True, busy_seconds=BUSY_SECONDS)
            connection.pragma("query_only", True)
        try:
            yield connection
        except apsw.Error:
            connection.close(True)
            raise
        with self._lock:
            if len(self._readers) < READERS_KEPT and not self._closed and self.path is not None:
                self._readers.append(connection)
            else:
                connection.close(True)

    # Writing

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        """One transaction. Raises BusyError where another process is at it."""
        with self._lock:
            connection = self._opened()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    with suppress(apsw.Error):
                        connection.execute("ROLLBACK")
                raise

    def make_anew(self) -> None:
        """An empty index. Where somebody else has just made one, that is left as it is."""
        with self._lock:
            self._drop()
            try:
                self._opened()
            except apsw.Error:
                if self.path is not None:
                    remove(self.path)
                self._drop()
                self.path = None
                self._opened()

    def empty(self) -> None:
        """Nothing of what was in it is left in its files."""
        with self._lock:
            self._drop()
            if self.path is not None:
                try:
                    connection = connect(self.path, write=True, busy_seconds=BUSY_SECONDS)
                    try:
                        reset(connection)
                    finally:
                        connection.close()
                except apsw.Error:
                    remove(self.path)
                    files.usable(self.path)  # makes it
            self.make_anew()

    def _opened(self) -> apsw.Connection:
        if self._writer is None:
            self._writer = self._open()
        return self._writer

    def _open(self) -> apsw.Connection:
        if self.path is None:
            connection = apsw.Connection(":memory:")
        else:
            files.usable(self.path)
            connection = connect(self.path, write=True, busy_seconds=BUSY_SECONDS)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close(True)
            raise
        return connection

    def _prepare(self, connection: apsw.Connection) -> None:
        if self._is_ours(connection):
            return
        if self.path is not None and files.size_of(self.path) > 0:
            reset(connection)
        if self.path is not None:
            connection.pragma("journal_mode", "wal")
            connection.pragma("synchronous", "normal")
        connection.execute("BEGIN IMMEDIATE")
        try:
            if connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").get is None:
                schema.create(connection)
                facts = {"store": self._store, "birth": secrets.token_hex(8), "version": "0"}
                connection.executemany("INSERT INTO meta VALUES(?, ?)", list(facts.items()))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _is_ours(self, connection: apsw.Connection) -> bool:
        try:
            if schema.fingerprint(connection) != schema.expected():
                return False
            connection.pragma("synchronous", "normal")
            return bool(connection.execute("SELECT value FROM meta WHERE name = 'store'").get == self._store)
        except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError):
            return False

    def _drop(self) -> None:
        for connection in [*self._readers, *([self._writer] if self._writer is not None else [])]:
            with suppress(apsw.Error):
                connection.close(True)
        self._readers, self._writer = [], None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop()
