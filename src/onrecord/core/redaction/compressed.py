"""Unpack compressed bytes, up to a limit, to search the copy for secrets."""

from __future__ import annotations

import zlib

MOST_UNPACKED = 4_000_000
"""The limit of unpacked bytes, for any input."""
_GZIP = b"\x1f\x8b\x08"
_GZIP_FORMAT = 31


def unpack_gzip(data: bytes | bytearray) -> bytes | None:
    """Return the unpacked gzip data or its beginning, or None if the data is not gzip or cannot be read."""
    if not data.startswith(_GZIP):
        return None
    try:
        return zlib.decompressobj(_GZIP_FORMAT).decompress(data, MOST_UNPACKED)
    except zlib.error:
        return None
