"""How a store keeps bytes: as they are, or compressed, with a check (docs/format.md, section 10).

The check is there because flipped bits of compressed bytes can decode to the right ones: without it damage would go
unseen until the day it matters.

Which way is taken depends on what it costs. Zstandard is quick to write, but a reader of it takes as long to make as a
short content takes to read otherwise; zlib is the other way round. Short contents save little by themselves, much with
a dictionary of what they have in common; long ones need none. So:

    below 200 bytes     as they are
    below 640           as they are, but for HTTP and references to nodes: zlib with the dictionary
    below 8,192         Zstandard with the dictionary
    above               Zstandard
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from reenact.core.hashing import frame_digest
from reenact.core.packing_dictionary import DICTIONARY
from reenact.errors import Damaged

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
"""What every Zstandard frame begins with; not kept with the short ones."""
_LEVEL = 3
_WINDOW_BITS = -13
_deflating = zlib.compressobj(6, zlib.DEFLATED, _WINDOW_BITS, 5, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)
"""Copied for each use: the dictionary is read into it once."""


class _Zstd:
    """The module is loaded with the first large value, so that `import reenact` stays quick."""

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
"""Compressors that nobody is using, by what they make: making one takes three times as long as using it. One that all
threads share would have a lock, which can stay held in the child of a fork."""


def pack(stored: bytes) -> bytes:
    size = len(stored)
    if size < DEFLATED_FROM_BYTES:
        return _PLAIN + stored
    if size >= FRAMED_ALONE_FROM_BYTES:
        packed = _checked(_FRAME, _frame(_FRAME, stored))
    elif size >= FRAMED_FROM_BYTES:
        packed = _checked(_FRAME_WITH_DICTIONARY, _frame(_FRAME_WITH_DICTIONARY, stored)[len(_MAGIC) :])
    elif b'"headers":' in stored or b'"sha256:' in stored:
        deflating = _deflating.copy()
        packed = _checked(_DEFLATED, deflating.compress(stored) + deflating.flush())
    else:
        return _PLAIN + stored
    return packed if len(packed) < size * 0.9 else _PLAIN + stored


def _frame(marker: bytes, stored: bytes) -> bytes:
    idle = _idle[marker]
    try:
        compressor = idle.pop()
    except IndexError:
        zstd = _Zstd.get()
        compressor = zstd.ZstdCompressor(_LEVEL, zstd_dict=_Zstd.dictionary if marker != _FRAME else None)
    frame: bytes = compressor.compress(stored, compressor.FLUSH_FRAME)
    idle.append(compressor)  # one that was stopped in the middle of a frame is not used again
    return frame


def _checked(marker: bytes, kept: bytes) -> bytes:
    return marker + frame_digest(kept)[: _CHECK_BYTES[marker]] + kept


def unpack(blob: bytes, *, limit: int = MAX_STORED_BYTES) -> bytes:
    """The stored bytes of a blob; anything that is not exactly what `pack` makes is damage."""
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
    stored, whole = _inflated(kept, limit) if marker == _DEFLATED else _unframed(marker, kept, limit)
    if len(stored) > limit:
        raise Damaged(f"a compressed frame holds more than the limit of {limit} bytes", code="too_large")
    if not whole:
        raise Damaged("a compressed frame is cut short or has bytes after its end", code="bad_frame")
    return stored


def _inflated(kept: bytes, limit: int) -> tuple[bytes, bool]:
    """The bytes, and whether they reach up to the end, with nothing after it."""
    inflating = zlib.decompressobj(_WINDOW_BITS, DICTIONARY)
    try:
        stored = inflating.decompress(kept, limit + 1)
    except zlib.error:
        raise Damaged("a compressed frame cannot be decoded", code="bad_frame") from None
    return stored, inflating.eof and not inflating.unused_data


def _unframed(marker: bytes, kept: bytes, limit: int) -> tuple[bytes, bool]:
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
