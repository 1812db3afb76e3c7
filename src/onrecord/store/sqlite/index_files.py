"""Views that others keep beside a store, in files named after it: they hold words of what was recorded.

What is erased from a store may not live on in them, so they are emptied with every erasure, by SQLite itself: whoever
has one open finds it empty, and builds it again. Removing the file under him would lose his locks instead.
"""

from __future__ import annotations

import glob
import os
from contextlib import suppress

import apsw

from reenact.store.sqlite.connection import connect

SUFFIX = ".index"
BUSY_SECONDS = 5.0
_COMPANIONS = ("-wal", "-shm", "-journal")


def empty_views(path: str) -> None:
    """Nothing that was in them is in any of their files afterwards."""
    for found in glob.glob(glob.escape(path) + SUFFIX + "*"):
        if not found.endswith(_COMPANIONS):
            empty_view(found)


def empty_view(path: str) -> None:
    """By SQLite, or where that cannot be, by removing it: whoever has it open notices that."""
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
    """An empty database, whatever it was before; raises where others do not let go of it."""
    connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
    try:
        connection.execute("VACUUM")
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 0)
    busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() or (0,)
    if busy:
        raise apsw.BusyError("somebody reads the old bytes")


def remove(path: str) -> None:
    for name in (path, *(path + companion for companion in _COMPANIONS)):
        with suppress(OSError):
            os.unlink(name)
