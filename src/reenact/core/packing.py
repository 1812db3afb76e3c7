"""How a store keeps bytes: as they are, or as a Zstandard frame with a check of its own (docs/format.md, section 10).

The frame's check is there because flipped bits in a frame can decode to the right bytes: without it damage would go
unseen until the day it matters.

Frames are made with a dictionary of what most contents have in common, without which a frame of a few hundred bytes
saves little. They stand without the four bytes that every frame begins with.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from reenact.core.hashing import frame_digest
from reenact.errors import Damaged

if TYPE_CHECKING:
    from types import ModuleType

MAX_STORED_BYTES = 64 * 1024 * 1024
COMPRESS_FROM_BYTES = 200
"""Below this a frame saves less than the time it costs."""
COMPRESS_LARGE_FROM_BYTES = 640
"""For what is written once in a run, where loading the compressor would cost the most."""

_PLAIN = b"\x00"
_FRAME = b"\x01"
_FRAME_WITH_DICTIONARY = b"\x02"
_MAGIC = b"\x28\xb5\x2f\xfd"
_CHECK_BYTES = 8
_CHECKS = {_FRAME: 32, _FRAME_WITH_DICTIONARY: _CHECK_BYTES}
"""Bytes of the check before the frame. Earlier versions wrote whole digests, and no dictionary."""
_LEVEL = 3


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
            from reenact.core.packing_dictionary import DICTIONARY

            cls.dictionary = zstd.ZstdDict(DICTIONARY, is_raw=True).as_digested_dict
            cls.module = zstd
        return cls.module


class _Compressors(threading.local):
    """One for each thread: making one takes three times as long as using it, and the lock of one that all share would
    stay held in the child of a fork."""

    compressor: Any = None


_compressors = _Compressors()


def pack(stored: bytes, *, compress_from: int = COMPRESS_FROM_BYTES) -> bytes:
    if len(stored) >= compress_from:
        frame = _compressed(stored)
        if len(frame) + _CHECK_BYTES < len(stored) * 0.9:
            return _FRAME_WITH_DICTIONARY + frame_digest(frame)[:_CHECK_BYTES] + frame[len(_MAGIC) :]
    return _PLAIN + stored


def _compressed(stored: bytes) -> bytes:
    compressor, _compressors.compressor = _compressors.compressor, None
    if compressor is None:
        zstd = _Zstd.get()
        compressor = zstd.ZstdCompressor(_LEVEL, zstd_dict=_Zstd.dictionary)
    frame: bytes = compressor.compress(stored, compressor.FLUSH_FRAME)
    _compressors.compressor = compressor  # not one that stopped in the middle of a frame
    return frame


def unpack(blob: bytes, *, limit: int = MAX_STORED_BYTES) -> bytes:
    """The stored bytes of a blob; anything that is not exactly what `pack` makes is damage."""
    marker = blob[:1]
    if marker == _PLAIN:
        if len(blob) - 1 > limit:
            raise Damaged(f"kept bytes are larger than the limit of {limit} bytes", code="too_large")
        return blob[1:]
    frame = _checked_frame(marker, blob)
    zstd = _Zstd.get()
    decompressor = zstd.ZstdDecompressor(_Zstd.dictionary if marker == _FRAME_WITH_DICTIONARY else None)
    try:
        stored: bytes = decompressor.decompress(frame, max_length=limit + 1)
    except zstd.ZstdError:
        raise Damaged("a compressed frame cannot be decoded", code="bad_frame") from None
    if len(stored) > limit:
        raise Damaged(f"a compressed frame holds more than the limit of {limit} bytes", code="too_large")
    if not decompressor.eof or decompressor.unused_data:
        raise Damaged("a compressed frame is cut short or has bytes after its end", code="bad_frame")
    return stored


def _checked_frame(marker: bytes, blob: bytes) -> bytes:
    begin = 1 + _CHECKS.get(marker, len(blob))
    if len(blob) <= begin:
        raise Damaged("kept bytes have an unknown packing", code="bad_packing")
    frame = blob[begin:] if marker == _FRAME else _MAGIC + blob[begin:]
    if frame_digest(frame)[: begin - 1] != blob[1:begin]:
        raise Damaged("a compressed frame does not match its digest", code="bad_frame")
    return frame
