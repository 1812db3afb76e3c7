"""Empty the index files beside a store (`onrecord.index`): they hold recorded words.

Erased words must not remain in them, so every erasure empties them. SQLite does it: a process that has one open finds
it empty and rebuilds it. Removing the open file would lose that process's locks instead.
"""

from __future__ import annotations

import glob
import os
from contextlib import suppress

import apsw

from onrecord.store.sqlite.connection import connect

SUFFIX = ".index"
BUSY_SECONDS = 5.0
_COMPANIONS = ("-wal", "-shm", "-journal")


def empty_views(path: str) -> None:
    """Empty all indexes beside the store; none of their files holds the old bytes afterwards."""
    for found in glob.glob(glob.escape(path) + SUFFIX + "*"):
        if not found.endswith(_COMPANIONS):
            empty_view(found)


def empty_view(path: str) -> None:
    """Empty one index with SQLite. If that fails, remove the file; a process that has it open notices that."""
    try:
        connection = connect(path, write=True, busy_seconds=BUSY_SECONDS)
    except apsw.Error:
        remove(path)
        return
    try:
        reset(connection)
    except apsw.Error:
        remove(path)
    finally:
        connection.close()


def reset(connection: apsw.Connection) -> None:
    """Empty the database, whatever it held. Raise BusyError if another process keeps it open."""
    connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
    try:
        connection.execute("VACUUM")
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 0)
    busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() or (0,)
    if busy:
        raise apsw.BusyError("another process reads the old bytes")


def remove(path: str) -> None:
    for name in (path, *(path + companion for companion in _COMPANIONS)):
        with suppress(OSError):
            os.unlink(name)
