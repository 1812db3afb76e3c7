"""The match digest of an event: its meaning without the members that differ between equal runs (docs/format.md, section
6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onrecord.core.canonical import OddFloats, canonical_bytes, canonical_of_plain
from onrecord.core.codec import encode
from onrecord.core.hashing import ERASED_MARKER, ZERO, match_digest, next_prefix, render, value_digest
from onrecord.core.links import BASE_RULES
from onrecord.errors import InvalidInput

VOLATILE_MEMBERS = frozenset(
    {
        "action_id",
        "attempt_id",
        "wait_id",
        "idempotency_key",
        "duration_us",
        "started",
        "ended",
        "deadline",
        "before",
        "after",
        "process",
        "nonce",
        "meta",
        "by",
        "why",
    }
)

VolatilePath = tuple[str, str]
"""(event kind or "*", JSON pointer in which `*` matches any one member or item)."""


class MatchRules:
    """Rules that exclude volatile parts of a content from matching. The header holds their id, the facts hold added
    paths.
    """

    def __init__(self, volatile: Sequence[VolatilePath] = ()) -> None:
        self.volatile = sorted({(kind, pointer) for kind, pointer in volatile})
        self._paths: list[tuple[str, list[str]]] = []
        for kind, pointer in self.volatile:
            if not pointer.startswith("/"):
                raise InvalidInput("a volatile path is not a JSON pointer: it begins with `/`", code="bad_pointer")
            self._paths.append((kind, pointer[1:].split("/")))

    @property
    def id(self) -> str:
        if not self.volatile:
            return BASE_RULES
        canonical = canonical_bytes([list(path) for path in self.volatile])
        return f"{BASE_RULES}+{render(value_digest(canonical))}"

    def match(self, kind: str, content: Mapping[str, Any], *, odd: OddFloats | None = None) -> bytes:
        """Return the match digest of an encoded, fully expanded content. `odd` are its odd floats from the codec."""
        if odd and (self._paths or any(container is content for container in odd)):
            odd = None  # the container that holds the floats is copied below
        return match_digest(canonical_bytes({"content": self.without_volatile(kind, content), "kind": kind}, odd=odd))

    def match_of(self, kind: str, content: Mapping[str, Any]) -> bytes:
        """Return the match digest of a content that is not encoded yet."""
        plain = canonical_of_plain({"content": self.without_volatile(kind, content), "kind": kind})
        if plain is not None:
            return match_digest(plain)
        encoded = encode(content)
        return self.match(kind, encoded.tree, odd=encoded.odd)

    def without_volatile(self, kind: str, content: Mapping[str, Any]) -> Any:
        """Return the content without its volatile members."""
        masked: Any = dict(content)
        for name in VOLATILE_MEMBERS.intersection(content):
            del masked[name]
        for path_kind, steps in self._paths:
            if path_kind in ("*", kind):
                masked = _remove_path(masked, steps)
        return masked


def _remove_path(value: Any, steps: list[str]) -> Any:
    """Return a copy of `value` without the target of the steps. Only the containers on the path are copied."""
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        name = step.replace("~2", "*").replace("~1", "/").replace("~0", "~")
        names = list(value) if step == "*" else [name] if name in value else []
        if not names:
            return value
        copy = dict(value)
        for name in names:
            if rest:
                copy[name] = _remove_path(copy[name], rest)
            else:
                del copy[name]
        return copy
    if isinstance(value, list):
        indexes = set(_match_indexes(step, len(value)))
        if not indexes:
            return value
        # A removed item becomes null: the positions of the other items are behaviour too.
        return [
            item if index not in indexes else _remove_path(item, rest) if rest else None
            for index, item in enumerate(value)
        ]
    return value


def _match_indexes(step: str, length: int) -> list[int]:
    if step == "*":
        return list(range(length))
    if step.isdecimal() and step.isascii() and len(step) < 10 and int(step) < length:
        return [int(step)]
    return []


def advance_prefix(previous: bytes | None, match: bytes | None, distance: int) -> bytes:
    """Return the lane's next prefix digest. `previous` is None at its first event, `match` for erased content."""
    return next_prefix(ZERO if previous is None else previous, ERASED_MARKER if match is None else match, distance)
