"""Hashes of the format, each under its own tag (docs/format.md, section 2).

A preimage is `tag || 0x00 || parts`. All parts but the last have a fixed length, so no two splits share a preimage.

The four hashes of an event copy a prepared hash object that already holds the tag. Creating a new OpenSSL object
touches more code and data than hashing a small record, and little of it is cached right after a disk write.
"""

from __future__ import annotations

import struct
from hashlib import sha256

from onrecord.core.lazy_regex import Pattern
from onrecord.errors import InvalidValue

HASH_BYTES = 32
SALT_BYTES = 16
ZERO = bytes(HASH_BYTES)

_HEADER = b"onrecord.header/1\0"
_LINK = sha256(b"onrecord.link/1\0")
_COMMIT = sha256(b"onrecord.commit/1\0")
_MATCH = sha256(b"onrecord.match/1\0")
_PREFIX = sha256(b"onrecord.prefix/1\0")
_LANES = b"onrecord.lanes/1\0"
_ORDER = b"onrecord.order/1\0"
_NODE = b"onrecord.node/1\0"
_ARTIFACT = b"onrecord.artifact/1\0"
_STATE = b"onrecord.state/1\0"
_VALUE = b"onrecord.value/1\0"
_SNAPSHOT = b"onrecord.snapshot/1\0"
_STATE_LINK = b"onrecord.statelink/1\0"
_FRAME = b"onrecord.frame/1\0"
ERASED_MARKER = sha256(b"onrecord.erased/1\0").digest()

_RENDERED = Pattern(r"sha256:[0-9a-f]{64}\Z")


def header_hash(header: bytes) -> bytes:
    return sha256(_HEADER + header).digest()


def link_hash(link: bytes) -> bytes:
    hasher = _LINK.copy()
    hasher.update(link)
    return hasher.digest()


def commitment(salt: bytes, match: bytes, stored: bytes) -> bytes:
    if len(salt) != SALT_BYTES or len(match) != HASH_BYTES:
        # With variable lengths, bytes could move from one part to the next under the same hash.
        raise InvalidValue("a salt has 16 bytes and a match digest 32", code="bad_hash")
    hasher = _COMMIT.copy()
    hasher.update(salt + match + stored)
    return hasher.digest()


def match_digest(canonical: bytes) -> bytes:
    hasher = _MATCH.copy()
    hasher.update(canonical)
    return hasher.digest()


def next_prefix(previous: bytes, match: bytes, distance: int) -> bytes:
    hasher = _PREFIX.copy()
    hasher.update(previous + match + distance.to_bytes(8, "big"))
    return hasher.digest()


def lane_fold(prefix: bytes, children: list[bytes]) -> bytes:
    """Return the fold of a lane. `children` are the folds of its children, in the order of their names."""
    return sha256(_LANES + prefix + b"".join(children)).digest()


def next_order(previous: bytes, lane: str) -> bytes:
    return sha256(_ORDER + previous + lane.encode()).digest()


def node_address(stored: bytes) -> bytes:
    return sha256(_NODE + stored).digest()


def artifact_address(data: bytes) -> bytes:
    return sha256(_ARTIFACT + data).digest()


def state_hash_of(canonical: bytes) -> bytes:
    return sha256(_STATE + canonical).digest()


def state_link_of(salt: bytes, canonical: bytes) -> bytes:
    return sha256(_STATE_LINK + salt + canonical).digest()


def frame_digest(frame: bytes) -> bytes:
    return sha256(_FRAME + frame).digest()


def value_digest(canonical: bytes) -> bytes:
    return sha256(_VALUE + canonical).digest()


def snapshot_seal(run: str, seq: int, head: bytes, reducer: str, state_version: int, stored: bytes) -> bytes:
    parts = (run.encode(), str(seq).encode(), head, reducer.encode(), str(state_version).encode(), stored)
    return sha256(_SNAPSHOT + b"".join(struct.pack(">Q", len(part)) + part for part in parts)).digest()


def render(digest: bytes) -> str:
    return "sha256:" + digest.hex()


def parse_hash(text: object) -> bytes:
    if not isinstance(text, str) or not _RENDERED.match(text):
        raise InvalidValue("not a hash: expected `sha256:` and 64 lower-case hex digits", code="bad_hash")
    return bytes.fromhex(text[7:])
