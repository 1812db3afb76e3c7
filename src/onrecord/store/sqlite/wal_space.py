"""Extend the file of the write-ahead log before it is written.

A sync of a file that has grown also waits for the file system's journal, which takes longer than everything else in a
small commit. So the log is filled with zeros piece by piece, as Postgres does. SQLite ignores zeros after the last
frame like any remainder of an older log. An emptied log keeps its length, so this ends with the first checkpoint.
"""

from __future__ import annotations

import os
from contextlib import suppress

import apsw

FIRST_CHECK = 8
"""Commits before the first check: a store that is opened to write a few events needs no extension."""
CHECK_EVERY = 32
PIECE_BYTES = 1 << 20
ENOUGH_BYTES = PIECE_BYTES // 2
SPARE_BYTES = 16 * PIECE_BYTES
"""The space that must stay free on the disk."""
_ZEROS = bytes(1 << 16)
_LOG_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24


class WalSpace:
    def __init__(self, path: str, most_bytes: int, busy_seconds: float) -> None:
        """Prepare the space for a log. A log longer than `most_bytes` is cut to this when it is emptied."""
        self._path = path + "-wal"
        self._most_bytes = most_bytes
        self._busy_seconds = busy_seconds
        self.commits_left = FIRST_CHECK
        """Commits until the next check."""

    def extend_if_needed(self, cursor: apsw.Cursor) -> None:
        """Extend the log if little space is left. No transaction is open. The next commit reports errors."""
        self.commits_left = CHECK_EVERY
        connection = cursor.connection
        with suppress(apsw.Error, OSError):
            frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            used = _LOG_HEADER_BYTES + frames * (_FRAME_HEADER_BYTES + connection.pragma("page_size"))
            length = os.stat(self._path).st_size
            if length - used < ENOUGH_BYTES and length < self._most_bytes:
                self._extend(cursor)

    def _extend(self, cursor: apsw.Cursor) -> None:
        """Write zeros under the write lock, since another writer would write there too. Do not wait for it."""
        connection = cursor.connection
        connection.set_busy_timeout(0)
        try:
            cursor.execute("BEGIN IMMEDIATE")
        finally:
            connection.set_busy_timeout(int(self._busy_seconds * 1000))
        try:
            self._write_zeros()
        finally:
            cursor.execute("ROLLBACK")

    def _write_zeros(self) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            length, disk = os.fstat(file).st_size, os.fstatvfs(file)
            if disk.f_bavail * disk.f_frsize < SPARE_BYTES:
                return
            for at in range(length, min(length + PIECE_BYTES, self._most_bytes), len(_ZEROS)):
                os.pwrite(file, _ZEROS, at)
        finally:
            os.close(file)
