"""Connections for reading: lent to one thread for one statement, never kept across a yield.

So no read transaction outlives a call, the write-ahead log can always be emptied, and before a fork it is enough to
wait until all connections are returned.

No lock is needed: each step is one operation on a list or a set, which the interpreter does not interrupt. So Ctrl-C
cannot leave a lock held; at worst a connection is closed instead of kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import apsw

from onrecord.errors import Damaged, OnrecordError, StoreUnavailable
from onrecord.store.sqlite.connection import connect, discard, translate
from onrecord.store.sqlite.file_checks import unlogged_version

MOST_IDLE = 8
POLL_SECONDS = 0.001

T = TypeVar("T")


class Readers:
    def __init__(self, path: str, busy_seconds: float, *, without_locks: bool) -> None:
        self.path = path
        self.refusal: OnrecordError | None = None
        self._busy_seconds = busy_seconds
        self._without_locks = without_locks
        """Where no -shm can be created, SQLite has no locks: each read checks that the file is the same as before."""
        self._version: tuple[int, int, int] | None = None
        self.reset()

    def reset(self) -> None:
        self._free: list[apsw.Connection] = []
        self._lent: set[object] = set()
        self._paused = False

    def read(self, work: Callable[[apsw.Cursor], T]) -> T:
        """Run `work` with a cursor that no other thread uses meanwhile."""
        if not self._without_locks:
            return self._read(work, immutable=False)
        while True:
            version = unlogged_version(self.path)
            if version != self._version:
                self._version = version
                self.drop(checkpoint=False)
            try:
                result = self._read(work, immutable=version is not None)
            except (Damaged, StoreUnavailable):
                if version is None or unlogged_version(self.path) == version:
                    raise
                continue
            if version is None or unlogged_version(self.path) == version:
                return result

    def _read(self, work: Callable[[apsw.Cursor], T], *, immutable: bool) -> T:
        if self.refusal is not None:
            raise self.refusal
        lent, token = self._lent, object()
        connection: apsw.Connection | None = None
        try:
            lent.add(token)
            while self._paused:  # checked after adding the token, because `pause` checks tokens after setting it
                lent.discard(token)
                time.sleep(POLL_SECONDS)
                lent.add(token)
            with suppress(IndexError):
                connection = self._free.pop()
            if connection is None:
                connection = connect(self.path, write=False, busy_seconds=self._busy_seconds, immutable=immutable)
            cursor = connection.cursor()
            try:
                result = work(cursor)
            finally:
                cursor.close(True)  # ends the read transaction, even if not all rows were read
            self._return(connection)
            return result
        except (apsw.Error, UnicodeDecodeError) as error:
            if connection is not None:
                discard(connection)
            raise translate(error, self.path) from error
        except OnrecordError:
            if connection is not None:
                self._return(connection)
            raise
        except BaseException:
            if connection is not None and connection not in self._free:
                discard(connection)
            raise
        finally:
            lent.discard(token)

    def _return(self, connection: apsw.Connection) -> None:
        if len(self._free) < MOST_IDLE and self.refusal is None:
            self._free.append(connection)
        else:
            connection.close(True)

    def pause(self, timeout_seconds: float) -> bool:
        """Stop lending and wait until all connections are returned. Return False after the timeout."""
        self._paused = True
        end = time.monotonic() + timeout_seconds
        while self._lent:
            if time.monotonic() > end:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def resume(self) -> None:
        self._paused = False

    def drop(self, *, checkpoint: bool) -> None:
        connections, self._free = self._free, []
        for connection in connections:
            if checkpoint:
                connection.close(True)
            else:
                discard(connection)

    def abandon(self) -> list[object]:
        connections, self._free = self._free, []
        return list(connections)
