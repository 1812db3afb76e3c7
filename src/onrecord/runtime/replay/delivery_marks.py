"""Marks of deliveries: the link's key of an outcome or a chunk says where it was delivered (docs/format.md)."""

from __future__ import annotations

from typing import NamedTuple

from onrecord.runtime.scheduler.items import AHEAD, APART

_CANCELLED, _AHEAD, _APART, _STEP = "cancelled", "ahead", "apart", "step"


class Mark(NamedTuple):
    is_cancelled: bool = False
    """The outcome is the cancellation of the effect."""
    forced: int = 0


_PLAIN = Mark()


def make_mark(forced: int, *, is_cancelled: bool = False) -> str | None:
    words = [_CANCELLED] if is_cancelled else []
    if forced:
        words += [_AHEAD] if forced == AHEAD else [_APART] if forced == APART else [_STEP, str(forced)]
    return " ".join(words) or None


def parse_mark(key: str | None) -> Mark:
    if key is None:
        return _PLAIN
    words = key.split(" ")
    is_cancelled = words[0] == _CANCELLED
    rest = words[is_cancelled:]
    if not rest:
        return Mark(is_cancelled)
    if rest[0] == _STEP:
        return Mark(is_cancelled, int(rest[1]))
    return Mark(is_cancelled, {_AHEAD: AHEAD, _APART: APART}[rest[0]])
