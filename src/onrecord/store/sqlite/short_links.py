"""Store links without what the row and the run already hold.

A link repeats its row (id, kind, lane, seq) and its run, and writes its hashes in hex; four fifths of it can be
omitted. A link is shortened only if it can be restored to the byte, else it is stored unchanged. A short link begins
with a byte that no link begins with:

    marker · commitment (32) · prev (32) · time (8) · parent (4, 0 for none) · nonce of the id (10) · key

The marker says whether there is a key, and whether the journal made the id from time, nonce and seq: then the id column
holds only `_`. A damaged short link gives a link that does not match its hash, or no link.
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec

from onrecord.core.links import write_link
from onrecord.errors import InvalidValue
from onrecord.store.contract import EventRow

_PARTS = struct.Struct(">B32s32sQI")
_SIZE = _PARTS.size
_NONCE_BYTES = 10
_SIZE_WITH_NONCE = _SIZE + _NONCE_BYTES
_HASH_BYTES = 32
_UNCHANGED = 0
_WITH_KEY, _WITH_NONCE, _SHORT = 1, 2, 4
_LAST_MARKER = _SHORT | _WITH_KEY | _WITH_NONCE
_JOURNAL_ID = "_"
_BRACE = b"{"


class _LinkMembers(msgspec.Struct, gc=False):
    """The members of a link that neither its row nor its run holds."""

    content: str
    key: str | None
    parent: int | None
    prev: str
    time: int


_decode_members = msgspec.json.Decoder(_LinkMembers).decode
_pack, _unpack = _PARTS.pack, _PARTS.unpack_from
_make_tuple = tuple.__new__


def shorten_row(run: str, event: EventRow) -> tuple[object, ...]:
    """Return the columns of an event."""
    seq, event_id, kind, lane, lane_seq, link, digest, salt, match, prefix, content = event
    if link[:1] == _BRACE:
        event_id, link = _shorten(run, seq, event_id, kind, lane, link)
    elif not link or link[0] <= _LAST_MARKER:
        link = bytes([_UNCHANGED]) + link
    return seq, event_id, kind, lane, lane_seq, link, digest, salt, match, prefix, content


def restore_row(run: str, columns: tuple[Any, ...]) -> EventRow:
    """Return the event of columns that have the right types."""
    seq, event_id, kind, lane, lane_seq, link, digest, salt, match, prefix, content = columns
    if link[:1] != _BRACE:
        event_id, link = _restore(run, seq, event_id, kind, lane, link)
    return _make_tuple(EventRow, (seq, event_id, kind, lane, lane_seq, link, digest, salt, match, prefix, content))


def _shorten(run: str, seq: int, event_id: str, kind: str, lane: str, link: bytes) -> tuple[str, bytes]:
    """Return id and link as stored: shortened if they can be restored exactly, else unchanged."""
    try:
        members = _decode_members(link)
        time, key, parent = members.time, members.key, members.parent
        content, prev = bytes.fromhex(members.content[7:]), bytes.fromhex(members.prev[7:])
        if (
            write_link(content, event_id, key, kind, lane, parent, prev, run, seq, time) != link
            or parent == 0
            or not len(content) == len(prev) == _HASH_BYTES
        ):
            return event_id, link
        nonce = _parse_nonce(event_id, time, seq)
        stored_id, marker = (_JOURNAL_ID, _SHORT | _WITH_NONCE) if nonce else (event_id, _SHORT)
        if key is None:
            return stored_id, _pack(marker, content, prev, time, parent or 0) + nonce
        return stored_id, _pack(marker | _WITH_KEY, content, prev, time, parent or 0) + nonce + key.encode()
    except (msgspec.DecodeError, InvalidValue, ValueError, struct.error):
        return event_id, link


def _parse_nonce(event_id: str, time: int, seq: int) -> bytes:
    """Return the nonce of an id that the journal made; empty for any other."""
    if event_id[:1] != "_":
        return b""
    begin = len(f"{time:x}") + 1
    middle = event_id[begin : begin + 2 * _NONCE_BYTES]
    nonce = bytes.fromhex(middle)
    return nonce if nonce.hex() == middle and event_id == f"_{time:x}{middle}_{seq:x}" else b""


def _restore(run: str, seq: int, stored_id: str, kind: str, lane: str, short: bytes) -> tuple[str, bytes]:
    """Return the full id and link, or the stored ones if they cannot be restored."""
    marker = short[0] if short else _LAST_MARKER + 1
    if marker == _UNCHANGED:
        return stored_id, short[1:]
    size = _SIZE_WITH_NONCE if marker & _WITH_NONCE else _SIZE
    if not _SHORT <= marker <= _LAST_MARKER or len(short) < size:
        return stored_id, short
    _, content, prev, time, parent = _unpack(short)
    if size == _SIZE_WITH_NONCE:
        if stored_id != _JOURNAL_ID:
            return stored_id, short
        stored_id = f"_{time:x}{short[_SIZE:size].hex()}_{seq:x}"
    key = None
    if marker & _WITH_KEY:
        try:
            key = short[size:].decode()
        except UnicodeDecodeError:
            return stored_id, short
    elif len(short) != size:
        return stored_id, short
    return stored_id, write_link(content, stored_id, key, kind, lane, parent or None, prev, run, seq, time)
