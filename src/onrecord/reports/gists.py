"""One line about a value, however large it is: enough to tell it from others."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any, NamedTuple

ROOM = 160
TEXT_ROOM, ITEMS_ROOM, DEPTH_ROOM, VALUES_ROOM = 20_000, 200, 60, 4_000
_REFERENCES = frozenset({"$node", "$list", "$string"})
_TOLD = {
    "ActionRequested": ("payload",),
    "ActionSucceeded": ("output",),
    "ActionFailed": ("error",),
    "ActionDenied": ("reason",),
    "AttemptRecorded": ("attempt", "status"),
    "ChunkReceived": ("index", "chunk"),
    "EffectSettled": ("decision", "value", "by"),
    "Interrupted": ("value",),
    "Resumed": ("value",),
    "WaitCreated": ("deadline",),
    "WaitResolved": ("resolution",),
    "SignalReceived": ("payload",),
    "StateUpdated": ("payload",),
    "Completed": ("output",),
    "Failed": ("error",),
    "Cancelled": ("reason",),
}


def gist_of(kind: str, content: Any, room: int = ROOM) -> str:
    """What an event is about. `content` may be an outline: parts that are kept elsewhere are shown as an ellipsis."""
    if not isinstance(content, dict):
        return ""
    names = _TOLD.get(kind)
    told = [content[name] for name in names if content.get(name) is not None] if names else [content]
    return " ".join(gist_of_value(_heart(value), room) for value in told)[:room].strip()


def gist_of_value(value: Any, room: int = ROOM) -> str:
    parts: list[str] = []
    _put(value, parts, room)
    text = "".join(parts).strip()
    return text if len(text) <= room else text[: room - 1] + "…"


def _heart(value: Any) -> Any:
    """Of a recorded request or answer its body, of an error its message."""
    if isinstance(value, dict):
        body = value.get("body")
        if isinstance(body, dict) and ("method" in value or "status" in value):
            return body.get("json", body.get("text", value.get("status")))
        if "method" in value and "url" in value and len(value) <= 4:
            return ""  # its name says it
        error = value.get("$error")
        if isinstance(error, dict):
            return error.get("message", error)
        if isinstance(value.get("message"), str) and "type" in value:
            return value["message"]
    return value


def _put(value: Any, parts: list[str], room: int) -> int:
    """Writes the beginning of a value; returns the room that is left."""
    if room <= 0:
        return 0
    if isinstance(value, dict):
        if len(value) == 1 and next(iter(value)) in _REFERENCES:
            return _text("…", parts, room)
        room = _text("{", parts, room)
        for number, (name, inner) in enumerate(value.items()):
            if room <= 0:
                return 0
            room = _text(f"{', ' if number else ''}{name[:room]}: ", parts, room)
            room = _put(inner, parts, room)
        return _text("}", parts, room)
    if isinstance(value, list):
        room = _text("[", parts, room)
        for number, inner in enumerate(value):
            if room <= 0:
                return 0
            room = _put(inner, parts, room - _comma(number, parts))
        return _text("]", parts, room)
    if isinstance(value, str):
        return _text(" ".join(value[: room + 1].split()), parts, room)
    return _text(json.dumps(value), parts, room)


def _comma(number: int, parts: list[str]) -> int:
    if not number:
        return 0
    parts.append(", ")
    return 2


def _text(text: str, parts: list[str], room: int) -> int:
    parts.append(text)
    return room - len(text)


class Trimmed(NamedTuple):
    value: Any
    cut: bool
    """Something was left out; in its place stands an ellipsis, and how much it was."""


def trimmed(tree: Any) -> Trimmed:
    """As much of a value as somebody looks at: long texts, lists and objects are cut, however many there are."""
    cutter = _Cutter()
    return Trimmed(cutter.part(tree, DEPTH_ROOM), cutter.cut)


class _Cutter:
    def __init__(self) -> None:
        self.cut = False
        self._values = VALUES_ROOM
        self._characters = 10 * TEXT_ROOM

    def part(self, value: Any, depth: int) -> Any:
        self._values -= 1
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, dict | list):
            return value
        if value and (depth == 0 or self._values <= 0):
            return self._left_out(len(value))
        most = ITEMS_ROOM
        if isinstance(value, list):
            found = [self.part(one, depth - 1) for one in value[:most]]
            return found if len(value) <= most else [*found, self._left_out(len(value) - most)]
        members = {name: self.part(value[name], depth - 1) for name in islice(value, most)}
        return members if len(value) <= most else {**members, "…": self._left_out(len(value) - most)}

    def _text(self, text: str) -> str:
        room = max(200, min(TEXT_ROOM, self._characters))
        self._characters -= min(len(text), room)
        if len(text) <= room:
            return text
        self.cut = True
        return f"{text[:room]}… ({len(text) - room:,} more characters)"

    def _left_out(self, count: int) -> str:
        self.cut = True
        return f"… ({count:,} more)"
