"""How times, sizes and states are said on a page. Pure, and without any markup."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["amount", "clock_time", "cost", "day_time", "duration", "inert", "kind_words", "size", "status_word"]

_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])")
_STATUS_WORDS = {"in_doubt": "in doubt"}


def status_word(status: str) -> str:
    return _STATUS_WORDS.get(status, status)


def kind_words(kind: str) -> str:
    """`ActionRequested` as `action requested`."""
    return _BOUNDARY.sub(" ", kind).lower()


def day_time(iso: str | None) -> str:
    """`2026-11-16 12:04:05`: to the second, in UTC, as it was recorded."""
    return "" if iso is None else iso[:19].replace("T", " ")


def clock_time(iso: str | None) -> str:
    """`12:04:05.123`."""
    return "" if iso is None else iso[11:23].rstrip("Z")


def amount(number: Any) -> str:
    return f"{number:,}" if isinstance(number, int) else str(number)


def cost(dollars: float | None) -> str:
    if dollars is None:
        return ""
    if 0 < dollars < 0.0001:
        return "<$0.0001"
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4f}"


def size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KB", "MB"):
        if value < 1024 or unit == "MB":
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def duration(microseconds: int | None) -> str:
    """`840 µs`, `12.3 ms`, `4.56 s`, `2 min 05 s`, `3 h 20 min`."""
    if microseconds is None:
        return ""
    if microseconds < 1_000:
        return f"{microseconds} µs"
    if microseconds < 1_000_000:
        return f"{microseconds / 1_000:.1f} ms"
    seconds = microseconds / 1_000_000
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60:02} min"


def inert(text: Any) -> str:
    """Characters that turn the direction of text, or that nobody sees, as what they are; `dom.js` has the same."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", str(text))
