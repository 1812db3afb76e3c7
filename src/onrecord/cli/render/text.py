"""Text for people: recorded data made harmless, short and readable.

Whatever comes from a recording was written by a model, a tool or a stranger. Before it reaches a terminal it goes
through `inert`, which leaves nothing that moves the cursor, changes colours, reorders a line or hides.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from onrecord.core.lane_names import shown_lane
from onrecord.reports.times import iso_time as iso_time  # for those who show times

# Control characters, format characters (bidi, zero width, tags), surrogates, line and paragraph separators.
_ACTIVE_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MARKS_IN_A_ROW = 4
_BRIEF_DEPTH = 8
ELLIPSIS = "…"


class _Escapes(dict[int, str | int]):
    """Filled as characters are met: `str.translate` then costs one look-up a character."""

    def __missing__(self, code: int) -> str | int:
        character = chr(code)
        active = unicodedata.category(character) in _ACTIVE_CATEGORIES
        self[code] = escape(character) if active else code
        return self[code]


def escape(character: str) -> str:
    code = ord(character)
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_escapes = _Escapes()


def inert(text: str) -> str:
    """The text on one line, every character that acts on a terminal shown as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_escapes)


def lane_text(lane: str) -> str:
    """The lane for people, as in `visit#2 › fetch`."""
    return inert(shown_lane(lane))


def cells(text: str) -> int:
    """How many columns the (inert) text takes."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def fit(text: str, width: int) -> str:
    """The text in at most `width` columns. Piled-up combining marks go too: they take no column and smear lines."""
    if text.isascii() and len(text) <= width:
        return text
    used = marks = 0
    kept: list[str] = []
    for character in text:
        taken = _cells_of(character)
        marks = 0 if taken else marks + 1
        if marks > _MARKS_IN_A_ROW:
            continue
        if used + taken > width:
            while kept and used > width - 1:
                used -= _cells_of(kept.pop())
            return "".join(kept) + ELLIPSIS[: max(width, 0)]
        used += taken
        kept.append(character)
    return "".join(kept)


class _FullError(Exception):
    pass


class _Brief:
    """Writes as much of a value as fits, and looks at no more of it: a content may expand to hundreds of megabytes."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.parts: list[str] = []

    def put(self, text: str) -> None:
        self.parts.append(text[: self.left])
        self.left -= len(text)
        if self.left < 0:
            raise _FullError

    def value(self, value: Any, depth: int) -> None:
        if isinstance(value, str):
            self.put(json.dumps(value[: self.left + 1], ensure_ascii=False))
        elif isinstance(value, dict | list) and depth > _BRIEF_DEPTH:
            self.put(ELLIPSIS)
        elif isinstance(value, dict):
            self.put("{")
            for number, (key, item) in enumerate(value.items()):
                self.put(", " if number else "")
                self.value(str(key), depth)
                self.put(": ")
                self.value(item, depth + 1)
            self.put("}")
        elif isinstance(value, list):
            self.put("[")
            for number, item in enumerate(value):
                self.put(", " if number else "")
                self.value(item, depth + 1)
            self.put("]")
        else:
            self.put(json.dumps(value))


def brief(tree: Any, limit: int = 200) -> str:
    """The beginning of an encoded value on one line, inert."""
    writer = _Brief(limit)
    try:
        writer.value(tree, 0)
    except _FullError:
        return inert("".join(writer.parts)) + ELLIPSIS
    return inert("".join(writer.parts))


def local_time(microseconds: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    try:
        return (_EPOCH + timedelta(microseconds=microseconds)).astimezone().strftime(form)
    except (OverflowError, ValueError, OSError):
        return str(microseconds)


def bytes_text(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def duration_text(microseconds: int | None) -> str:
    if microseconds is None:
        return ""
    milliseconds = microseconds / 1000
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    if hours < 1:
        return f"{minutes}m {int(seconds % 60):02}s"
    return f"{hours}h {minutes % 60:02}m" if hours < 48 else f"{hours // 24}d {hours % 24}h"


def tokens_text(count: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if count >= size:
            return f"{count / (1000 if unit == 'k' else size):.1f}{unit}"
    return f"{count:,.0f}"


def cost_text(dollars: float | None) -> str:
    if dollars is None:
        return ""
    if 0 < dollars < 0.0001:
        return "<$0.0001"
    return f"${dollars:,.2f}" if dollars >= 100 or not dollars else f"${dollars:.4f}"


def count_text(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def status_text(status: str, about: Sequence[str]) -> str:
    shown = status.replace("_", " ")
    return f"{shown} ({fit(inert(', '.join(about)), 60)})" if about else shown


def url_text(url: str) -> str:
    """A store's URL without the password in it."""
    return inert(re.sub(r"(://[^/@:]*):[^@]*@", r"\1:***@", url, count=1))
