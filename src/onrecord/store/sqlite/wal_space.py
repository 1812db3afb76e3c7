"""Room in the write-ahead log: its file is made longer ahead of what is written to it.

A sync of a file that has grown waits for the file system's own journal as well, which takes longer than everything
else about a small commit. So the log is filled with zeros a piece at a time, as Postgres does with its own. To SQLite
zeros behind the last frame are what any remainder of an older log is: nothing. A log that was emptied keeps its length,
so this comes to an end with the first checkpoint.
"""

from __future__ import annotations

import os
from contextlib import suppress

import apsw

FIRST_LOOK = 8
"""Commits. Whoever opens a store to write a word or two does not need any of this."""
LOOK_EVERY = 32
PIECE_BYTES = 1 << 20
ENOUGH_BYTES = PIECE_BYTES // 2
SPARE_BYTES = 16 * PIECE_BYTES
"""What has to be free on the disk: where little is left, others need it more."""
_ZEROS = bytes(1 << 16)
_LOG_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24


class Room:
    def __init__(self, path: str, most_bytes: int, busy_seconds: float) -> None:
        """`most_bytes`: a longer log is cut back to this when it is emptied."""
        self._path = path + "-wal"
        self._most_bytes = most_bytes
        self._busy_seconds = busy_seconds
        self.commits_left = FIRST_LOOK
        """Until the next look."""

    def look(self, cursor: apsw.Cursor) -> None:
        """Makes room where there is little left. No transaction is under way. Whatever is the matter, the next commit
        will say so itself."""
        self.commits_left = LOOK_EVERY
        connection = cursor.connection
        with suppress(apsw.Error, OSError):
            frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            used = _LOG_HEADER_BYTES + frames * (_FRAME_HEADER_BYTES + connection.pragma("page_size"))
            length = os.stat(self._path).st_size
            if length - used < ENOUGH_BYTES and length < self._most_bytes:
                self._fill(cursor)

    def _fill(self, cursor: apsw.Cursor) -> None:
        """Under the write lock, since others who write would write to the same place; they are not waited for."""
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
