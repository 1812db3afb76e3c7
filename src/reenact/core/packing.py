"""How a store keeps bytes: as they are, or as a Zstandard frame with a digest of its own (docs/format.md, section 10).

The frame's digest is there because flipped bits in a frame can decode to the right bytes: without it damage would go
unseen until the day it matters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reenact.core.hashing import frame_digest
from reenact.errors import Damaged

if TYPE_CHECKING:
    from types import ModuleType

MAX_STORED_BYTES = 64 * 1024 * 1024
COMPRESS_FROM_BYTES = 640
"""Below this a frame saves less than the time it costs."""

_PLAIN = b"\x00"
_ZSTD = b"\x01"
_LEVEL = 3


class _Zstd:
    """The module is loaded with the first large value, so that `import reenact` stays quick."""

    module: ModuleType | None = None

    @classmethod
    def get(cls) -> Any:
        if cls.module is None:
            try:
                from compression import zstd  # type: ignore[import-not-found,unused-ignore]
            except ImportError:
                from backports import zstd
            cls.module = zstd
        return cls.module


def pack(stored: bytes, *, compress_from: int = COMPRESS_FROM_BYTES) -> bytes:
    if len(stored) >= compress_from:
        frame: bytes = _Zstd.get().compress(stored, _LEVEL)
        if len(frame) + 32 < len(stored) * 0.9:
            return _ZSTD + frame_digest(frame) + frame
    return _PLAIN + stored


def unpack(blob: bytes, *, limit: int = MAX_STORED_BYTES) -> bytes:
    """The stored bytes of a blob; anything that is not exactly what `pack` makes is damage."""
    marker = blob[:1]
    if marker == _PLAIN:
        if len(blob) - 1 > limit:
            raise Damaged(f"kept bytes are larger than the limit of {limit} bytes", code="too_large")
        return blob[1:]
    if marker != _ZSTD or len(blob) < 34:
        raise Damaged("kept bytes have an unknown packing", code="bad_packing")
    frame = blob[33:]
    if frame_digest(frame) != blob[1:33]:
        raise Damaged("a compressed frame does not match its digest", code="bad_frame")
    zstd = _Zstd.get()
    decompressor = zstd.ZstdDecompressor()
    try:
        stored: bytes = decompressor.decompress(frame, max_length=limit + 1)
    except zstd.ZstdError:
        raise Damaged("a compressed frame cannot be decoded", code="bad_frame") from None
    if len(stored) > limit:
        raise Damaged(f"a compressed frame holds more than the limit of {limit} bytes", code="too_large")
    if not decompressor.eof or decompressor.unused_data:
        raise Damaged("a compressed frame is cut short or has bytes after its end", code="bad_frame")
    return stored
