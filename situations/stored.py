"""What stands in the files of a recorder, compressed or not: looked for, and changed, by somebody who has the files."""

from __future__ import annotations

import contextlib
import gzip
import sqlite3
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from onrecord.core.packing import pack, unpack
from onrecord.errors import Damaged

_SQLITE = b"SQLite format 3"
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


def contains(records: Path, secret: bytes) -> bool:
    """Whether it stands anywhere: in clear or compressed, in files or in rows."""
    contents = {path: path.read_bytes() for path in _files(records)}
    databases = [path for path, content in contents.items() if content.startswith(_SQLITE)]
    raw = (text for content in contents.values() for text in _plain_forms(content))
    return any(secret in text for text in raw) or any(secret in text for text in _rows(databases))


def _rows(databases: list[Path]) -> Iterator[bytes]:
    for path in databases:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            for table, column in _columns(connection):
                for (stored,) in connection.execute(f'SELECT "{column}" FROM "{table}"'):
                    yield from _plain_forms(stored if isinstance(stored, bytes) else str(stored).encode())


def _plain_forms(stored: bytes) -> Iterator[bytes]:
    """As it is, and what is packed in it, also behind a few bytes of somebody's own, or as we do it."""
    yield stored
    for magic, unpacked in ((_GZIP, gzip.decompress), (_ZSTD, zstd.decompress)):
        at = stored[:64].find(magic)
        if at >= 0:
            with contextlib.suppress(OSError, EOFError, zlib.error, zstd.ZstdError):
                yield unpacked(stored[at:])
    with contextlib.suppress(Damaged):
        yield unpack(stored)


def alter(records: Path, old: bytes, new: bytes) -> bool:
    """Wherever it stands: in clear or compressed, in files or in rows. Both texts are of the same length."""
    files = _files(records)
    databases = [path for path in files if path.read_bytes()[:15] == _SQLITE]
    for database in databases:
        _make_whole(database)
    changed = [_alter_file(path, old, new) for path in files if path.exists()]
    changed += [_alter_rows(path, old, new) for path in databases]
    return any(changed)


def _files(records: Path) -> list[Path]:
    return [path for path in sorted(records.rglob("*")) if path.is_file()]


def _columns(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [(table, row[1]) for table in tables for row in connection.execute(f'PRAGMA table_info("{table}")')]


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


def _altered_row(stored: bytes, old: bytes, new: bytes) -> bytes:
    """Of a blob that is packed by itself; others are altered where they stand in the file."""
    if stored[:4] == _ZSTD:
        return _altered(stored, old, new)
    with contextlib.suppress(Damaged):
        plain = unpack(stored)
        return pack(plain.replace(old, new)) if old in plain else stored
    return stored


def _alter_rows(path: Path, old: bytes, new: bytes) -> bool:
    """Whoever has the file is not held up by its triggers: they are as they were afterwards."""
    changed = False
    with contextlib.closing(sqlite3.connect(path)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f'DROP TRIGGER "{name}"')
        for table, column in _columns(connection):
            where = f'FROM "{table}" WHERE typeof("{column}") = \'blob\''
            for (stored,) in connection.execute(f'SELECT "{column}" {where}').fetchall():
                after = _altered_row(stored, old, new)
                if after != stored:
                    connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE "{column}" = ?', (after, stored))
                    changed = True
        for _, sql in triggers:
            connection.execute(sql)
        connection.commit()
    return changed
