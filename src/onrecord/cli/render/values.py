"""A value in lines for people: members under each other, texts of several lines as they are, everything inert."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from onrecord.cli.render.styled_text import lines_of_text
from onrecord.cli.render.text import brief, inert

DEEPEST = 60
MOST_LINES = 20_000
STEP = "  "


def readable_lines(value: Any) -> list[str]:
    """At most so many; the last one then says that there is more."""
    found: list[str] = []
    for line in _lines(value, "", "", 0):
        if len(found) == MOST_LINES:
            return [*found, "… and more"]
        found.append(line)
    return found


def _lines(value: Any, name: str, margin: str, depth: int) -> Iterator[str]:
    """`name` is what stands before the value: the member that it is."""
    lead = f"{margin}{name} " if name else margin
    if isinstance(value, str) and "\n" in value.rstrip("\n"):
        yield f"{lead}|"
        yield from (f"{margin}{STEP}{line}" for line in lines_of_text(value))
    elif isinstance(value, dict | list) and value and depth < DEEPEST:
        if name:
            yield lead.rstrip()
        inner = margin + (STEP if name else "")
        if isinstance(value, dict):
            for key, item in value.items():
                yield from _lines(item, f"{inert(str(key))}:", inner, depth + 1)
        else:
            for item in value:
                first, *more = _lines(item, "", inner + STEP, depth + 1)
                yield from (f"{inner}- {first[len(inner) + len(STEP) :]}", *more)
    elif isinstance(value, dict | list):
        yield lead + brief(value)
    else:
        yield lead + inert(json.dumps(value, ensure_ascii=False))
