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
from reenact.store.sqlite.views import empty_view, reset

BUSY_SECONDS = 2.0
READERS_KEPT = 4
TRIES = 3
T = TypeVar("T")


class StartAnew(Exception):
    """What the index holds is not a view of the log any more."""


class Database:
    def __init__(self, store: Store, namespace: str) -> None:
        self.path: str | None = next((path for path in files.places(store, namespace) if files.usable(path)), None)
        self._store = f"{store.url} {namespace}"
        self._lock = threading.RLock()
        self._pool = threading.Lock()
        self._writer: apsw.Connection | None = None
        self._readers: list[apsw.Connection] = []
        self._identity: tuple[int, int] | None = None
        self._closed = False

    # Reading

    def read(self, work: Callable[[apsw.Connection], T]) -> T:
        """All that `work` reads is seen at one moment. Called again where the file had to be made anew."""
        for _ in range(TRIES):
            try:
                with self._reader() as connection, connection:
                    return work(connection)
            except (apsw.BusyError, apsw.LockedError):
                pass  # somebody makes it anew
            except apsw.Error:
                self.make_anew()
        self._go_to_memory()
        with self._reader() as connection:
            return work(connection)

    @contextmanager
    def _reader(self) -> Iterator[apsw.Connection]:
        if self.path is None:
            with self._lock:
                yield self._opened()
            return
        if self._writer is None or files.identity(self.path) != self._identity:
            with self._lock:
                self._opened()  # there is a file, and it is ours
        with self._pool:  # not the lock of the writer: nobody who reads waits for him
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
            self._give_back(connection)
            raise
        self._give_back(connection)

    def _give_back(self, connection: apsw.Connection) -> None:
        with self._pool:
            kept = len(self._readers) < READERS_KEPT and not self._closed and self.path is not None
            if kept:
                self._readers.append(connection)
        if not kept:
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
        """An empty index, unless what is there is right by now: somebody else may have made it."""
        with self._lock:
            self._drop()
            try:
                self._opened()
            except (apsw.BusyError, apsw.LockedError):
                pass  # whoever is at it makes it
            except apsw.Error:
                self._go_to_memory()

    def empty(self) -> None:
        """Nothing of what was in it is left in its files."""
        with self._lock:
            self._drop()
            if self.path is not None:
                empty_view(self.path)
            self.make_anew()

    def _go_to_memory(self) -> None:
        """There is no file that could be used: this process keeps an index for itself."""
        with self._lock:
            self._drop()
            self.path = None
            self._opened()

    def _opened(self) -> apsw.Connection:
        if self._writer is not None and self.path is not None and files.identity(self.path) != self._identity:
            self._drop()  # somebody has removed the file: what we have open is nobody's
        if self._writer is None:
            self._writer = self._open()
        return self._writer

    def _open(self) -> apsw.Connection:
        if self.path is None:
            connection = apsw.Connection(":memory:")
        else:
            files.usable(self.path)
            self._identity = files.identity(self.path)
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
        """An empty file becomes an index; False for one that is something else. Looked at under the write lock, so that
        of several who come at once one makes it."""
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
            if schema.fingerprint(connection) != schema.expected():
                return False
            return bool(connection.execute("SELECT value FROM meta WHERE name = 'store'").get == self._store)
        except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError):
            return False

    def _drop(self) -> None:
        with self._pool:
            going = [*self._readers, *([self._writer] if self._writer is not None else [])]
            self._readers, self._writer = [], None
        for connection in going:
            with suppress(apsw.Error):
                connection.close(True)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._drop()
