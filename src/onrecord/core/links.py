"""Header and link: the small canonical records of the hash chain (docs/format.md, section 4).

Both are stored and hashed as their canonical bytes. Parsing is strict: bytes that are not in canonical form are
refused, so one record has exactly one spelling.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from onrecord.core.canonical import canonical_bytes
from onrecord.core.lane_names import ROOT_LANE, is_lane
from onrecord.core.lazy_regex import Pattern
from onrecord.errors import Damaged, InvalidInput, InvalidValue

FORMAT = "onrecord/1"
BASE_RULES = "onrecord.rules/1"
OPERATIONS_RUN = "operations"
MAX_RECORD_BYTES = 16 * 1024
MAX_ID_CHARACTERS = 64
MAX_KEY_CHARACTERS = 1024

_NAME = Pattern(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}\Z")
_EVENT_ID = Pattern(r"[A-Za-z0-9_-]{1,64}\Z")
MAX_TIME = 2**53 - 1


class ParentRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The run that this one derives from, the position and head there, and the relation of the two."""

    head: str
    relation: Literal["fork", "replay", "child", "continuation"]
    run: str
    seq: int


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    content: str
    created: int
    format: str
    kind: Literal["run", "operations"]
    namespace: str
    parent: ParentRun | None
    reducer: str
    rules: str
    run: str

    def to_bytes(self) -> bytes:
        return canonical_bytes(msgspec.to_builtins(self))


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A link. Its members are declared in canonical order, so that encoding takes one call in most cases."""

    content: str
    id: str
    key: str | None
    kind: str
    lane: str
    parent: int | None
    prev: str
    run: str
    seq: int
    time: int


class OwnMembers(msgspec.Struct, frozen=True, gc=False):
    """The members of a link that are stored nowhere else.

    A fast check reads only these, writes the link again with `write_link` from them and from the known facts of the
    event, and compares the bytes.
    """

    key: str | None
    parent: int | None
    time: int


_HEADER_DECODER = msgspec.json.Decoder(Header)
_LINK_DECODER = msgspec.json.Decoder(Link)
_ENCODER = msgspec.json.Encoder()


def link_bytes(link: Link) -> bytes:
    """Return the canonical bytes of a link.

    Members are declared in canonical order and are text, integers and null. msgspec writes those as RFC 8785 does,
    except control characters, which only `key` can contain, and `lane` in a link that is invalid.
    """
    key, lane = link.key, link.lane
    if not (lane.isascii() and lane.isprintable()) or not (key is None or (key.isascii() and key.isprintable())):
        return canonical_bytes(msgspec.to_builtins(link))
    return _ENCODER.encode(link)


def write_json_string(text: str) -> str:
    """Return text in canonical JSON, quotes included."""
    return _ENCODER.encode(text).decode() if text.isprintable() else canonical_bytes(text).decode()


def write_link(
    content: bytes,
    event_id: str,
    key: str | None,
    kind: str,
    lane: str,
    parent: int | None,
    prev: bytes,
    run: str,
    seq: int,
    time: int,
) -> bytes:
    """Return the same bytes as `link_bytes`, faster, from checked parts. Only key and lane may need escaping."""
    lane_text = '"main"' if lane == ROOT_LANE else write_json_string(lane)
    key_text = "null" if key is None else write_json_string(key)
    parent_text = "null" if parent is None else parent
    return (
        f'{{"content":"sha256:{content.hex()}","id":"{event_id}","key":{key_text},"kind":"{kind}","lane":{lane_text},'
        f'"parent":{parent_text},"prev":"sha256:{prev.hex()}","run":"{run}","seq":{seq},"time":{time}}}'
    ).encode()


def parse_link(data: bytes) -> Link:
    """Parse a link. Raise Damaged if the bytes are not the canonical form of a valid link."""
    if len(data) > MAX_RECORD_BYTES:
        raise Damaged(f"a link is larger than {MAX_RECORD_BYTES} bytes", code="too_large")
    try:
        link = _LINK_DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Damaged("a link is not well formed", code="bad_link") from None
    try:
        canonical = link_bytes(link)
    except InvalidValue:
        raise Damaged("a link holds text that cannot be written", code="bad_link") from None
    if canonical != data:
        raise Damaged("a link is not in canonical form", code="bad_link")
    return link


def parse_header(data: bytes) -> Header:
    if len(data) > MAX_RECORD_BYTES:
        raise Damaged(f"a header is larger than {MAX_RECORD_BYTES} bytes", code="too_large")
    try:
        header = _HEADER_DECODER.decode(data)
        canonical = header.to_bytes()
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidValue):
        raise Damaged("a header is not well formed", code="bad_header") from None
    if canonical != data:
        raise Damaged("a header is not in canonical form", code="bad_header")
    if header.format != FORMAT:
        raise Damaged("a header names a format that this version does not read", code="unknown_format")
    if not _NAME.match(header.run) or not _NAME.match(header.namespace):
        raise Damaged("a header has an invalid run id or namespace", code="bad_header")
    return header


def is_name(name: str) -> bool:
    """Return True if `name` is a valid run id or namespace."""
    return _NAME.match(name) is not None


def check_run_id(run: str) -> str:
    if not isinstance(run, str) or not _NAME.match(run):
        raise InvalidInput(
            "not a run id",
            hint="Run ids are 1 to 128 characters of A-Z a-z 0-9 . _ : - and begin with a letter or digit.",
            code="bad_run_id",
        )
    return run


def check_namespace(namespace: str) -> str:
    if not isinstance(namespace, str) or not _NAME.match(namespace):
        raise InvalidInput(
            "not a namespace",
            hint="Namespaces are 1 to 128 characters of A-Z a-z 0-9 . _ : - and begin with a letter or digit.",
            code="bad_namespace",
        )
    return namespace


def check_event_id(event_id: str) -> str:
    if not _EVENT_ID.match(event_id) or event_id.startswith("_"):
        raise InvalidInput(
            "not an event id: 1 to 64 characters of A-Z a-z 0-9 _ -, not beginning with _", code="bad_event_id"
        )
    return event_id


def check_lane(lane: str) -> str:
    if not is_lane(lane):
        raise InvalidInput("not a lane: names joined by `>`, such as main or main>fetch#1", code="bad_lane")
    return lane


def check_time(time: int) -> int:
    if type(time) is not int or not 0 <= time <= MAX_TIME:
        raise InvalidInput("a time is whole microseconds since 1970, below 2^53", code="bad_time")
    return time


def check_key(key: str | None) -> str | None:
    if key is not None and len(key) > MAX_KEY_CHARACTERS:
        raise InvalidInput(f"a replay key is longer than {MAX_KEY_CHARACTERS} characters", code="bad_key")
    return key


def find_link_problem(link: Link, *, run: str, seq: int, prev: str) -> str | None:
    """Return why this link is invalid at this position of this run, or None. Does not check the uniqueness of ids."""
    if link.run != run:
        return "belongs to another run"
    if link.seq != seq:
        return f"says it is seq {link.seq}"
    if link.prev != prev:
        return "does not follow the event before it"
    if link.parent is not None and not 1 <= link.parent < seq:
        return "names a causal parent that is not before it"
    if not 0 <= link.time <= MAX_TIME or not _EVENT_ID.match(link.id) or not is_lane(link.lane):
        return "has an invalid id, lane or time"
    if link.id.startswith("_") and not link.id.endswith(f"_{seq:x}"):
        return "has an id that does not end with its seq"
    if link.key is not None and len(link.key) > MAX_KEY_CHARACTERS:
        return f"has a key of more than {MAX_KEY_CHARACTERS} characters"
    return None
