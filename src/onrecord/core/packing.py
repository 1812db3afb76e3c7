"""Packing: a store keeps bytes plain or compressed, with a check (docs/format.md, section 10).

The check exists because flipped bits of compressed bytes can decode to the right ones: such damage would go unnoticed.

The choice depends on cost. Zstandard compresses fast, but creating a decompressor takes as long as reading a short
content; zlib is the opposite. Short contents compress little alone and well with a dictionary of common text; long ones
need none. So:

    below 200 bytes     plain
    below 640           plain, but HTTP, strings, lists and references to nodes: zlib with the dictionary
    below 8,192         Zstandard with the dictionary
    above               Zstandard
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from onrecord.core.hashing import frame_digest
from onrecord.core.packing_dictionary import DICTIONARY
from onrecord.errors import Damaged

if TYPE_CHECKING:
    from types import ModuleType

MAX_STORED_BYTES = 64 * 1024 * 1024
DEFLATED_FROM_BYTES = 200
FRAMED_FROM_BYTES = 640
FRAMED_ALONE_FROM_BYTES = 8192

_PLAIN = b"\x00"
_FRAME = b"\x01"
_FRAME_WITH_DICTIONARY = b"\x02"
_DEFLATED = b"\x03"
_CHECK_BYTES = {_FRAME: 32, _FRAME_WITH_DICTIONARY: 8, _DEFLATED: 8}
_MAGIC = b"\x28\xb5\x2f\xfd"
"""The first bytes of every Zstandard frame; short packings omit them."""
_LEVEL = 3
_WINDOW_BITS = -13
_DEFLATER = zlib.compressobj(6, zlib.DEFLATED, _WINDOW_BITS, 5, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)
"""A prepared compressor that already holds the dictionary; each use copies it."""


class _Zstd:
    """Loads the module with the first large value, so that `import onrecord` stays fast."""

    module: ModuleType | None = None
    dictionary: Any = None

    @classmethod
    def get(cls) -> Any:
        if cls.module is None:
            try:
                from compression import zstd  # type: ignore[import-not-found,unused-ignore]
            except ImportError:
                from backports import zstd
            cls.dictionary = zstd.ZstdDict(DICTIONARY, is_raw=True).as_digested_dict
            cls.module = zstd
        return cls.module


_idle: dict[bytes, list[Any]] = {_FRAME: [], _FRAME_WITH_DICTIONARY: []}
"""Idle compressors, by the frame they make: creating one takes three times as long as using it. One shared by all
threads would need a lock, which can stay locked in the child of a fork."""


def pack(stored: bytes) -> bytes:
    size = len(stored)
    if size < DEFLATED_FROM_BYTES:
        return _PLAIN + stored
    if size >= FRAMED_ALONE_FROM_BYTES:
        packed = _prepend_check(_FRAME, _compress_frame(_FRAME, stored))
    elif size >= FRAMED_FROM_BYTES:
        packed = _prepend_check(_FRAME_WITH_DICTIONARY, _compress_frame(_FRAME_WITH_DICTIONARY, stored)[len(_MAGIC) :])
    elif stored[:1] != b"{" or b'"headers":' in stored or b'"sha256:' in stored:
        deflater = _DEFLATER.copy()
        packed = _prepend_check(_DEFLATED, deflater.compress(stored) + deflater.flush())
    else:
        return _PLAIN + stored
    return packed if len(packed) < size * 0.9 else _PLAIN + stored


def _compress_frame(marker: bytes, stored: bytes) -> bytes:
    idle = _idle[marker]
    try:
        compressor = idle.pop()
    except IndexError:
        zstd = _Zstd.get()
        compressor = zstd.ZstdCompressor(_LEVEL, zstd_dict=_Zstd.dictionary if marker != _FRAME else None)
    frame: bytes = compressor.compress(stored, compressor.FLUSH_FRAME)
    idle.append(compressor)  # skipped if the call above raised: that compressor is in the middle of a frame
    return frame


def _prepend_check(marker: bytes, kept: bytes) -> bytes:
    return marker + frame_digest(kept)[: _CHECK_BYTES[marker]] + kept


def unpack(blob: bytes, *, limit: int = MAX_STORED_BYTES) -> bytes:
    """Return the stored bytes of a blob. Raise Damaged for anything that `pack` does not produce."""
    marker = blob[:1]
    if marker == _PLAIN:
        if len(blob) - 1 > limit:
            raise Damaged(f"kept bytes are larger than the limit of {limit} bytes", code="too_large")
        return blob[1:]
    begin = 1 + _CHECK_BYTES.get(marker, len(blob))
    if len(blob) <= begin:
        raise Damaged("kept bytes have an unknown packing", code="bad_packing")
    kept = blob[begin:]
    if frame_digest(kept)[: begin - 1] != blob[1:begin]:
        raise Damaged("a compressed frame does not match its digest", code="bad_frame")
    stored, is_complete = _inflate(kept, limit) if marker == _DEFLATED else _decompress_frame(marker, kept, limit)
    if len(stored) > limit:
        raise Damaged(f"a compressed frame holds more than the limit of {limit} bytes", code="too_large")
    if not is_complete:
        raise Damaged("a compressed frame is cut short or has bytes after its end", code="bad_frame")
    return stored


def _inflate(kept: bytes, limit: int) -> tuple[bytes, bool]:
    """Return the bytes, and whether the data ends exactly at the end of the stream."""
    inflater = zlib.decompressobj(_WINDOW_BITS, DICTIONARY)
    try:
        stored = inflater.decompress(kept, limit + 1)
    except zlib.error:
        raise Damaged("a compressed frame cannot be decoded", code="bad_frame") from None
    return stored, inflater.eof and not inflater.unused_data


def _decompress_frame(marker: bytes, kept: bytes, limit: int) -> tuple[bytes, bool]:
    zstd = _Zstd.get()
    if marker == _FRAME:
        decompressor = zstd.ZstdDecompressor()
    else:
        decompressor, kept = zstd.ZstdDecompressor(_Zstd.dictionary), _MAGIC + kept
    try:
        stored: bytes = decompressor.decompress(kept, max_length=limit + 1)
    except zstd.ZstdError:
        raise Damaged("a compressed frame cannot be decoded", code="bad_frame") from None
    return stored, decompressor.eof and not decompressor.unused_data
