"""Arrays and numbers as parameters, in Postgres' binary form.

psycopg can write lists too, but it chooses their type by the values (small or large integers, no type for an empty
list), and each choice is another prepared statement. Here the type is explicit, and bytes are sent unchanged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, ClassVar

import psycopg
from psycopg import pq
from psycopg.adapt import Dumper
from psycopg.types.numeric import Int8

_HEADER = struct.Struct(">iiIii")
_LENGTH = struct.Struct(">i")
_BIGINT = struct.Struct(">q")
_LEAST, _LARGEST = -(1 << 63), (1 << 63) - 1
_NULL = b"\xff\xff\xff\xff"


class Array:
    """Values of one type, already in binary form."""

    __slots__ = ("items",)
    element_oid: ClassVar[int]

    def __init__(self, items: list[bytes | None]) -> None:
        self.items = items

    def encoded(self) -> bytes:
        items = self.items
        if not items:
            return struct.pack(">iiI", 0, 0, self.element_oid)
        parts = [_HEADER.pack(1, int(None in items), self.element_oid, len(items), 1)]
        for item in items:
            if item is None:
                parts.append(_NULL)
            else:
                parts.append(_LENGTH.pack(len(item)))
                parts.append(item)
        return b"".join(parts)


class ByteaArray(Array):
    element_oid = 17


class TextArray(Array):
    element_oid = 25


class BigintArray(Array):
    element_oid = 20


def blobs(values: Iterable[bytes | None]) -> ByteaArray:
    return ByteaArray(list(values))


def texts(values: Iterable[str | None]) -> TextArray:
    items = [None if value is None else value.encode() for value in values]
    if any(item is not None and b"\0" in item for item in items):
        raise psycopg.DataError("text with a zero character")
    return TextArray(items)


def bigints(values: Iterable[int | None]) -> BigintArray:
    return BigintArray([None if value is None else pack_bigint(value) for value in values])


def pack_bigint(value: int) -> bytes:
    try:
        return _BIGINT.pack(value)
    except struct.error:
        raise psycopg.DataError("an integer beyond 64 bits") from None


def clamp_bigint(value: int) -> int:
    """Return a number to compare with. No row has one beyond 64 bits, so the nearest limit compares the same."""
    return value if _LEAST <= value <= _LARGEST else _LEAST if value < 0 else _LARGEST


def bigint(value: int) -> Int8:
    return Int8(clamp_bigint(value))


def _make_dumper(array_oid: int) -> type[Dumper]:
    class ArrayDumper(Dumper):
        oid = array_oid
        format = pq.Format.BINARY

        def dump(self, obj: Any) -> bytes:
            encoded: bytes = obj.encoded()
            return encoded

    return ArrayDumper


_DUMPERS = ((ByteaArray, _make_dumper(1001)), (TextArray, _make_dumper(1009)), (BigintArray, _make_dumper(1016)))


def register(connection: psycopg.Connection[Any]) -> None:
    for cls, dumper in _DUMPERS:
        connection.adapters.register_dumper(cls, dumper)
