"""What an event means, without what differs between two equal runs (docs/format.md, section 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reenact.core.canonical import Odd, canonical_bytes, canonical_of_plain
from reenact.core.codec import encode
from reenact.core.hashing import ERASED_MARKER, ZERO, match_digest, next_prefix, render, value_digest
from reenact.core.links import BASE_RULES
from reenact.errors import InvalidInput

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
    }
)

VolatilePath = tuple[str, str]
"""(event kind or "*", JSON pointer in which `*` stands for any one member or item)."""


class MatchRules:
    """Which parts of a content take no part in matching. The id goes into the header, added paths into the facts."""

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

    def match(self, kind: str, content: Mapping[str, Any], *, odd: Odd | None = None) -> bytes:
        """The match digest of an encoded, fully expanded content; `odd` as the codec said of it."""
        if odd and (self._paths or any(container is content for container in odd)):
            odd = None  # what holds the floats is copied below
        return match_digest(canonical_bytes({"content": self.without_volatile(kind, content), "kind": kind}, odd=odd))

    def match_of(self, kind: str, content: Mapping[str, Any]) -> bytes:
        """The match digest of a content that nobody has encoded yet."""
        plain = canonical_of_plain({"content": self.without_volatile(kind, content), "kind": kind})
        if plain is not None:
            return match_digest(plain)
        encoded = encode(content)
        return self.match(kind, encoded.tree, odd=encoded.odd)

    def without_volatile(self, kind: str, content: Mapping[str, Any]) -> Any:
        """The part of a content that counts."""
        masked: Any = dict(content)
        for name in VOLATILE_MEMBERS.intersection(content):
            del masked[name]
        for path_kind, steps in self._paths:
            if path_kind in ("*", kind):
                masked = _without(masked, steps)
        return masked


def _without(value: Any, steps: list[str]) -> Any:
    """A copy of `value` without what the steps lead to; only the containers on the way are copied."""
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        name = step.replace("~2", "*").replace("~1", "/").replace("~0", "~")
        names = list(value) if step == "*" else [name] if name in value else []
        if not names:
            return value
        copy = dict(value)
        for name in names:
            if rest:
                copy[name] = _without(copy[name], rest)
            else:
                del copy[name]
        return copy
    if isinstance(value, list):
        indexes = set(_indexes(step, len(value)))
        if not indexes:
            return value
        # A removed item leaves null behind: the positions of the others are behaviour too.
        return [
            item if index not in indexes else _without(item, rest) if rest else None for index, item in enumerate(value)
        ]
    return value


def _indexes(step: str, length: int) -> list[int]:
    if step == "*":
        return list(range(length))
    if step.isdecimal() and step.isascii() and len(step) < 10 and int(step) < length:
        return [int(step)]
    return []


def advance_prefix(previous: bytes | None, match: bytes | None, distance: int) -> bytes:
    """The lane's next prefix digest; `previous` None at its first event, `match` None when the content is erased."""
    return next_prefix(ZERO if previous is None else previous, ERASED_MARKER if match is None else match, distance)
