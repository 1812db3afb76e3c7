"""Links as they are kept: without what the row and the run say anyway.

A link repeats its row (id, kind, lane, seq) and its run, and spells its hashes in hex; four fifths of it can be left
out. Nothing is decided by it here: a link is kept short only if it can be written out again to the byte, and as it is
otherwise. A short one begins with a byte that no link begins with:

    marker · commitment (32) · prev (32) · time (8) · parent (4, 0 for none) · nonce of the id (10) · key

The marker says whether there is a key, and whether the id is one that the journal made of time, nonce and seq: then the
column of the id holds `_` alone. A damaged one comes out as a link that does not match its hash, or that is none.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from reenact.core.links import write_link
from reenact.errors import InvalidValue
from reenact.store.contract import EventRow

_PARTS = struct.Struct(">B32s32sQI")
_SIZE = _PARTS.size
_NONCE_BYTES = 10
_SIZE_WITH_NONCE = _SIZE + _NONCE_BYTES
_HASH_BYTES = 32
_AS_IT_IS = 0
_WITH_KEY, _WITH_NONCE, _SHORT = 1, 2, 4
_LAST_MARKER = _SHORT | _WITH_KEY | _WITH_NONCE
_MADE_ID = "_"
_BRACE = b"{"


class _Told(msgspec.Struct, gc=False):
    """What a link says that neither its row nor its run does."""

    content: str
    key: str | None
    parent: int | None
    prev: str
    time: int


_told = msgspec.json.Decoder(_Told).decode
_pack, _unpack = _PARTS.pack, _PARTS.unpack_from
_made = tuple.__new__


def kept(run: str, event: EventRow) -> tuple[object, ...]:
    """The columns of an event."""
    seq, event_id, kind, lane, lane_seq, link, digest, salt, match, prefix, content = event
    if link[:1] == _BRACE:
        event_id, link = _shortened(run, seq, event_id, kind, lane, link)
    elif not link or link[0] <= _LAST_MARKER:
        link = bytes([_AS_IT_IS]) + link
    return seq, event_id, kind, lane, lane_seq, link, digest, salt, match, prefix, content


def restored(run: str, columns: tuple[Any, ...]) -> EventRow:
    """The event of columns that have the right types."""
    seq, event_id, kind, lane, lane_seq, link, digest, salt, match, prefix, content = columns
    if link[:1] != _BRACE:
        event_id, link = _written_out(run, seq, event_id, kind, lane, link)
    return _made(EventRow, (seq, event_id, kind, lane, lane_seq, link, digest, salt, match, prefix, content))


def _shortened(run: str, seq: int, event_id: str, kind: str, lane: str, link: bytes) -> tuple[str, bytes]:
    """Id and link as they are kept: as they are, unless everything left out is exactly what will be put in."""
    try:
        told = _told(link)
        time, key, parent = told.time, told.key, told.parent
        content, prev = bytes.fromhex(told.content[7:]), bytes.fromhex(told.prev[7:])
        if (
            write_link(content, event_id, key, kind, lane, parent, prev, run, seq, time) != link
            or parent == 0
            or not len(content) == len(prev) == _HASH_BYTES
        ):
            return event_id, link
        nonce = _nonce_of(event_id, time, seq)
        kept_id, marker = (_MADE_ID, _SHORT | _WITH_NONCE) if nonce else (event_id, _SHORT)
        if key is None:
            return kept_id, _pack(marker, content, prev, time, parent or 0) + nonce
        return kept_id, _pack(marker | _WITH_KEY, content, prev, time, parent or 0) + nonce + key.encode()
    except (msgspec.DecodeError, InvalidValue, ValueError, struct.error):
        return event_id, link


def _nonce_of(event_id: str, time: int, seq: int) -> bytes:
    """Of an id that the journal made; nothing for any other."""
    if event_id[:1] != "_":
        return b""
    begin = len(f"{time:x}") + 1
    middle = event_id[begin : begin + 2 * _NONCE_BYTES]
    nonce = bytes.fromhex(middle)
    return nonce if nonce.hex() == middle and event_id == f"_{time:x}{middle}_{seq:x}" else b""


def _written_out(run: str, seq: int, kept_id: str, kind: str, lane: str, short: bytes) -> tuple[str, bytes]:
    """Id and link; what was kept where nothing can be made of it."""
    marker = short[0] if short else _LAST_MARKER + 1
    if marker == _AS_IT_IS:
        return kept_id, short[1:]
    size = _SIZE_WITH_NONCE if marker & _WITH_NONCE else _SIZE
    if not _SHORT <= marker <= _LAST_MARKER or len(short) < size:
        return kept_id, short
    _, content, prev, time, parent = _unpack(short)
    if size == _SIZE_WITH_NONCE:
        if kept_id != _MADE_ID:
            return kept_id, short
        kept_id = f"_{time:x}{short[_SIZE:size].hex()}_{seq:x}"
    key = None
    if marker & _WITH_KEY:
        try:
            key = short[size:].decode()
        except UnicodeDecodeError:
            return kept_id, short
    elif len(short) != size:
        return kept_id, short
    return kept_id, write_link(content, kept_id, key, kind, lane, parent or None, prev, run, seq, time)
