"""Every hash of the format, each under its own tag (docs/format.md, section 2).

`tag || 0x00 || parts`: at most the last part varies in length, the earlier ones are fixed, so no two splits share a
preimage.

The four hashes of an event begin with a copy of that of their tag. Asking OpenSSL for a new one touches more code and
data than hashing a small record does, and little of it is in the processor's caches when something has just been
written to the disk.
"""

from __future__ import annotations

import struct
from hashlib import sha256

from reenact.core.lazy_patterns import Pattern
from reenact.errors import InvalidValue

HASH_BYTES = 32
SALT_BYTES = 16
ZERO = bytes(HASH_BYTES)

_HEADER = b"reenact.header/1\0"
_LINK = sha256(b"reenact.link/1\0")
_COMMIT = sha256(b"reenact.commit/1\0")
_MATCH = sha256(b"reenact.match/1\0")
_PREFIX = sha256(b"reenact.prefix/1\0")
_LANES = b"reenact.lanes/1\0"
_ORDER = b"reenact.order/1\0"
_NODE = b"reenact.node/1\0"
_ARTIFACT = b"reenact.artifact/1\0"
_STATE = b"reenact.state/1\0"
_VALUE = b"reenact.value/1\0"
_SNAPSHOT = b"reenact.snapshot/1\0"
_STATE_LINK = b"reenact.statelink/1\0"
_FRAME = b"reenact.frame/1\0"
ERASED_MARKER = sha256(b"reenact.erased/1\0").digest()

_WRITTEN = Pattern(r"sha256:[0-9a-f]{64}\Z")


def header_hash(header: bytes) -> bytes:
    return sha256(_HEADER + header).digest()


def link_hash(link: bytes) -> bytes:
    begun = _LINK.copy()
    begun.update(link)
    return begun.digest()


def commitment(salt: bytes, match: bytes, stored: bytes) -> bytes:
    if len(salt) != SALT_BYTES or len(match) != HASH_BYTES:
        # Without fixed lengths bytes could be moved from one part to the next under the same hash.
        raise InvalidValue("a salt has 16 bytes and a match digest 32", code="bad_hash")
    begun = _COMMIT.copy()
    begun.update(salt + match + stored)
    return begun.digest()


def match_digest(canonical: bytes) -> bytes:
    begun = _MATCH.copy()
    begun.update(canonical)
    return begun.digest()


def next_prefix(previous: bytes, match: bytes, distance: int) -> bytes:
    begun = _PREFIX.copy()
    begun.update(previous + match + distance.to_bytes(8, "big"))
    return begun.digest()


def lane_fold(prefix: bytes, children: list[bytes]) -> bytes:
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
    if not isinstance(text, str) or not _WRITTEN.match(text):
        raise InvalidValue("not a hash: expected `sha256:` and 64 lower-case hex digits", code="bad_hash")
    return bytes.fromhex(text[7:])
