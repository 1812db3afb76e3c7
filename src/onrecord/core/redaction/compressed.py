"""Bytes that somebody has compressed: a copy is looked through, as far as a limit allows."""

from __future__ import annotations

import zlib

MOST_UNPACKED = 4_000_000
"""Nothing that is sent can make us unpack more of it."""
_GZIP = b"\x1f\x8b\x08"
_GZIP_FORMAT = 31


def unpacked(data: bytes | bytearray) -> bytes | None:
    """What was compressed by gzip, or its beginning. None: it was not, or cannot be read."""
    if not data.startswith(_GZIP):
        return None
    try:
        return zlib.decompressobj(_GZIP_FORMAT).decompress(data, MOST_UNPACKED)
    except zlib.error:
        return None
