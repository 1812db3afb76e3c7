"""One stored answer is changed in the files of a recorder, as somebody does who has only the files."""

from __future__ import annotations

import contextlib
import gzip
import sqlite3
import sys
from pathlib import Path

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_SQLITE = b"SQLite format 3"
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


def alter(records: Path, old: bytes, new: bytes) -> bool:
    """Wherever it stands: in clear or compressed, in files or in rows. Both texts are of the same length."""
    files = [path for path in sorted(records.rglob("*")) if path.is_file()]
    databases = [path for path in files if path.read_bytes()[:15] == _SQLITE]
    for database in databases:
        _make_whole(database)
    changed = [_alter_file(path, old, new) for path in files if path.exists()]
    changed += [_alter_rows(path, old, new) for path in databases]
    return any(changed)


def _make_whole(database: Path) -> None:
    """What is still in its log comes into the file: bytes changed in a log are thrown away by SQLite."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _altered(stored: bytes, old: bytes, new: bytes) -> bytes:
    if stored[:2] == _GZIP:
        return gzip.compress(gzip.decompress(stored).replace(old, new), mtime=0)
    if stored[:4] == _ZSTD:
        plain = zstd.decompress(stored)
        return zstd.compress(plain.replace(old, new)) if old in plain else stored
    return stored.replace(old, new)


def _alter_file(path: Path, old: bytes, new: bytes) -> bool:
    before = path.read_bytes()
    after = _altered(before, old, new)
    if after != before:
        path.write_bytes(after)
    return after != before


def _alter_rows(path: Path, old: bytes, new: bytes) -> bool:
    """Blobs that are compressed one by one."""
    changed = False
    with contextlib.closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in names:
            for column in [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]:
                where = f'FROM "{table}" WHERE typeof("{column}") = \'blob\''
                for (stored,) in connection.execute(f'SELECT "{column}" {where}').fetchall():
                    after = _altered(stored, old, new)
                    if stored[:4] == _ZSTD and after != stored:
                        connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE "{column}" = ?', (after, stored))
                        changed = True
        connection.commit()
    return changed
