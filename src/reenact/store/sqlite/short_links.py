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

import msgspec

from reenact.core.links import write_link
from reenact.store.contract import EventRow

_PARTS = struct.Struct(">B32s32sQI")
_NONCE_BYTES = 10
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
_event_row = tuple.__new__


def kept(run: str, event: EventRow) -> tuple[object, ...]:
    """The columns of an event."""
    seq, event_id, kind, lane, lane_seq, link, *others = event
    kept_id, short = _shortened(run, seq, event_id, kind, lane, link)
    return (seq, kept_id, kind, lane, lane_seq, short, *others)


def restored(run: str, columns: tuple[object, ...]) -> EventRow:
    """The event of columns that have the right types."""
    event: EventRow = _event_row(EventRow, columns)
    if event[5][:1] == _BRACE:
        return event
    seq, kept_id, kind, lane, lane_seq, link, *others = event
    event_id, link = _written_out(run, seq, kept_id, kind, lane, link)
    return _event_row(EventRow, (seq, event_id, kind, lane, lane_seq, link, *others))


def _shortened(run: str, seq: int, event_id: str, kind: str, lane: str, link: bytes) -> tuple[str, bytes]:
    if link[:1] != _BRACE:
        return event_id, link if link and link[0] > _LAST_MARKER else bytes([_AS_IT_IS]) + link
    try:
        told = _told(link)
        nonce = _nonce_of(event_id, told.time, seq)
        kept_id, marker = (_MADE_ID, _SHORT | _WITH_NONCE) if nonce else (event_id, _SHORT)
        key = b""
        if told.key is not None:
            key, marker = told.key.encode(), marker | _WITH_KEY
        content, prev = bytes.fromhex(told.content[7:]), bytes.fromhex(told.prev[7:])
        short = _PARTS.pack(marker, content, prev, told.time, told.parent or 0) + nonce + key
    except (msgspec.DecodeError, ValueError, struct.error):
        return event_id, link
    if _written_out(run, seq, kept_id, kind, lane, short) != (event_id, link):
        return event_id, link
    return kept_id, short


def _nonce_of(event_id: str, time: int, seq: int) -> bytes:
    begin, end = f"_{time:x}", f"_{seq:x}"
    if not (event_id.startswith(begin) and event_id.endswith(end)):
        return b""
    nonce = bytes.fromhex(event_id[len(begin) : -len(end)])
    return nonce if len(nonce) == _NONCE_BYTES else b""


def _written_out(run: str, seq: int, kept_id: str, kind: str, lane: str, short: bytes) -> tuple[str, bytes]:
    """Id and link; what was kept where nothing can be made of it."""
    marker = short[0] if short else _AS_IT_IS
    if marker == _AS_IT_IS:
        return kept_id, short[1:]
    made = bool(marker & _WITH_NONCE)
    if not _SHORT <= marker <= _LAST_MARKER or len(short) < _PARTS.size or made != (kept_id == _MADE_ID):
        return kept_id, short
    _, content, prev, time, parent = _PARTS.unpack_from(short)
    end = _PARTS.size
    if made:
        end += _NONCE_BYTES
        kept_id = f"_{time:x}{short[_PARTS.size : end].hex()}_{seq:x}"
    try:
        key = short[end:].decode() if marker & _WITH_KEY else None
        if key is None and len(short) != end:
            return kept_id, short
        return kept_id, write_link(content, kept_id, key, kind, lane, parent or None, prev, run, seq, time)
    except ValueError:
        return kept_id, short
