"""All bytes that a folder keeps: of every file as they are, and of every SQLite database also what its rows hold once
it is unpacked. A search of the files alone does not see into what is compressed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw

from onrecord.core.packing import unpack
from onrecord.errors import OnrecordError

_SQLITE = b"SQLite format 3\x00"


def kept_in(folder: Path) -> Iterator[tuple[str, bytes]]:
    """(where, bytes)"""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            yield path.name, data
            if data.startswith(_SQLITE):
                yield f"the rows of {path.name}", _rows(path)


def places_of(needle: str, folder: Path) -> list[str]:
    """Where it is found; a search that would find nothing at all is no search."""
    places = list(kept_in(folder))
    assert any(name.startswith("the rows of") for name, _ in places), f"there is no store in {folder}"
    return [name for name, data in places if needle.encode() in data]


def _rows(path: Path) -> bytes:
    """Of a copy with its log: who looks changes nothing."""
    with tempfile.TemporaryDirectory() as folder:
        for name in (path.name, f"{path.name}-wal"):
            if (path.parent / name).exists():
                shutil.copy(path.parent / name, folder)
        connection = apsw.Connection(str(Path(folder, path.name)))
        try:
            tables = [name for (name,) in connection.execute("select name from sqlite_schema where type = 'table'")]
            rows = [row for table in tables for row in connection.execute(f'select * from "{table}"')]
        finally:
            connection.close()
    return b"\n".join(_unpacked(value) for row in rows for value in row)


def _unpacked(value: object) -> bytes:
    if not isinstance(value, bytes):
        return str(value).encode()
    try:
        return unpack(value)
    except OnrecordError:
        return value
