"""Connections for reading: lent to one thread for one statement, never kept across a yield.

So no read transaction outlives a call, the write-ahead log can always be emptied, and before a fork it is
enough to wait until all are back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from reenact.errors import ReenactError
from reenact.store.sqlite.connection import connect, discard, translate

KEPT = 8


class Readers:
    def __init__(self, path: str, busy_seconds: float, immutable: bool) -> None:
        self.path = path
        self.refusal: ReenactError | None = None
        self._busy_seconds = busy_seconds
        self._immutable = immutable
        self.reset()

    def reset(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._free: list[apsw.Connection] = []
        self._lent = 0
        self._paused = False

    @contextmanager
    def cursor(self) -> Iterator[apsw.Cursor]:
        if self.refusal is not None:
            raise self.refusal
        connection: apsw.Connection | None = None
        with self._changed:
            while self._paused:
                self._changed.wait()
            self._lent += 1
            if self._free:
                connection = self._free.pop()
        try:
            if connection is None:
                connection = connect(self.path, write=False, busy_seconds=self._busy_seconds, immutable=self._immutable)
            cursor = connection.cursor()
            try:
                yield cursor
            finally:
                cursor.close(True)  # ends the read transaction, also when not all rows were taken
        except (apsw.Error, UnicodeDecodeError) as error:
            if connection is not None:
                discard(connection)
                connection = None
            raise translate(error, self.path) from error
        finally:
            self._give_back(connection)

    def _give_back(self, connection: apsw.Connection | None) -> None:
        with self._changed:
            self._lent -= 1
            keep = connection is not None and len(self._free) < KEPT and self.refusal is None
            if keep and connection is not None:
                self._free.append(connection)
            if self._paused:
                self._changed.notify_all()
        if connection is not None and not keep:
            connection.close(True)

    def pause(self, timeout_seconds: float) -> bool:
        """Lends nothing more, and waits until everything is back; False if that took too long."""
        with self._changed:
            self._paused = True
            return self._changed.wait_for(lambda: self._lent == 0, timeout_seconds)

    def resume(self) -> None:
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def drop(self, *, checkpoint: bool) -> None:
        with self._changed:
            connections, self._free = self._free, []
        for connection in connections:
            if checkpoint:
                connection.close(True)
            else:
                discard(connection)

    def abandon(self) -> list[object]:
        connections, self._free = self._free, []
        return list(connections)
