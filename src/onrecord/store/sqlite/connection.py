"""Open and harden connections to one database file, and translate SQLite's errors.

A file is data, not code (no extension loading, no trusted schema, no views, defensive mode). A path is a path, never a
URI. A library with the WAL-reset race (before 3.51.3) is refused. Errors are translated only here:

    full                       StoreUnavailable, nothing was written
    busy, locked               StoreUnavailable, nothing was written
    cannot open, read-only     StoreUnavailable
    corrupt, not a database    Damaged
    anything at COMMIT         OutcomeUnknown, unless SQLite says that nothing was written (full, busy, constraint)
    other                      StoreUnavailable
"""

from __future__ import annotations

import urllib.parse

import apsw

from onrecord.errors import Damaged, OnrecordError, OutcomeUnknown, StoreUnavailable
from onrecord.store.sqlite import file_checks

OLDEST_LIBRARY = (3, 51, 3)
NO_STORE_HINT = (
    "The file is not an Onrecord store, or it is damaged. Restore a backup of it, or import exported recordings: "
    "`onrecord import run.jsonl --store new.db`."
)


def check_library() -> None:
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < OLDEST_LIBRARY:
        raise StoreUnavailable(
            f"SQLite {apsw.sqlite_lib_version()} can corrupt a database in WAL mode; 3.51.3 or newer is needed",
            hint="pip install -U apsw",
        )


def connect(
    path: str, *, write: bool, busy_seconds: float, immutable: bool = False, cache: int = 64
) -> apsw.Connection:
    name = path
    flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
    flags |= apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_EXRESCODE
    if immutable:
        name = "file:" + urllib.parse.quote(path, safe="/") + "?immutable=1"
        flags |= apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(name, flags=flags, statementcachesize=cache)
    try:
        _harden(connection, busy_seconds=busy_seconds)
    except BaseException:
        connection.close()
        raise
    return connection


def _harden(connection: apsw.Connection, *, busy_seconds: float) -> None:
    connection.set_busy_timeout(int(busy_seconds * 1000))
    for option, value in (
        (apsw.SQLITE_DBCONFIG_DEFENSIVE, 1),
        (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1),
        (apsw.SQLITE_DBCONFIG_DQS_DML, 0),
        (apsw.SQLITE_DBCONFIG_DQS_DDL, 0),
    ):
        connection.config(option, value)
    # One call each: a statement that returns a row stops the ones after it.
    connection.pragma("cell_size_check", True)
    connection.pragma("mmap_size", 0)
    connection.pragma("secure_delete", True)


def discard(connection: apsw.Connection) -> None:
    """Close without a checkpoint: for a connection in an unknown state, and before a fork."""
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close(True)
    except apsw.Error:
        pass  # the connection is not used again, so a failed close is harmless


def translate(error: apsw.Error | UnicodeDecodeError, path: str, *, committing: bool = False) -> OnrecordError:
    if isinstance(error, UnicodeDecodeError):
        return Damaged(f"{path}: a text in it is not UTF-8")
    text = f"{path}: {error}"
    if isinstance(error, apsw.FullError):
        free = file_checks.free_bytes(path)
        return StoreUnavailable(
            f"{path}: the disk is full ({free} bytes free); nothing was written",
            hint="Free some space and try again; the run can be resumed.",
            code="disk_full",
        )
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return StoreUnavailable(
            f"{path}: another process held the write lock for too long; nothing was written",
            hint="Try again; find the process that keeps the store locked.",
        )
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return Damaged(text, hint=NO_STORE_HINT)
    if committing and not isinstance(error, apsw.ConstraintError):
        return OutcomeUnknown(f"{text} (while committing)")
    if isinstance(error, (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)):
        return StoreUnavailable(
            f"{text}; the store or its folder cannot be written or opened",
            hint="Copy the store, with the -wal file beside it, to a folder where you can write, and use the copy.",
        )
    return StoreUnavailable(text)
