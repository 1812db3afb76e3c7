"""Recognise values without secrets by their texts, most of which have been seen before.

A program repeats itself: names of members and headers, and with each turn of a conversation everything said before. A
text that holds no secret and names no position for credentials is harmless anywhere. Only new texts are searched, all
of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from onrecord.core.redaction.names import is_credential_member

MOST_LETTERS = 2_000_000
"""The limit of remembered characters."""
LONGEST_REMEMBERED = 500_000
MOST_CONTAINERS = 4096
"""Larger values are searched as a whole: a value that contains itself never ends."""
_SIMPLE = frozenset({type(None), bool, int, float})


class HarmlessTexts(set[str]):
    """Texts that are known to be harmless."""

    letters = 0

    def remember(self, texts: Iterable[str]) -> None:
        for text in texts:
            length = len(text)
            if length > LONGEST_REMEMBERED:
                continue
            if self.letters + length > MOST_LETTERS:
                self.clear()
                self.letters = 0
            self.letters += length
            self.add(text)


def find_new_texts(value: Any, harmless: HarmlessTexts) -> list[str] | None:
    """Return the texts and member names of a plain value that are not known as harmless.

    Return None if the value is not plain or has too many containers.
    """
    new: list[str] = []
    todo: list[Any] = [(value,)]
    for container in todo:
        items: Iterable[Any] = container
        if type(container) is dict:
            for name in container:
                if type(name) is not str:
                    return None
                if name not in harmless:
                    new.append(name)
            items = container.values()
        for item in items:
            kind = type(item)
            if kind is str:
                if item not in harmless:
                    new.append(item)
            elif kind is dict or kind is list:
                todo.append(item)
            elif kind not in _SIMPLE:
                return None
        if len(todo) > MOST_CONTAINERS:
            return None
    return new


def write_as_stored(texts: Sequence[str]) -> str | None:
    """Join the texts into one JSON text, in which each may name its neighbour. Return None if one cannot be written."""
    try:
        return orjson.dumps([*texts, ""]).decode()
    except orjson.JSONEncodeError:
        return None


def names_credentials(text: str) -> bool:
    """Return True if a value beside this text may be a credential because of it."""
    return text.startswith("--") or is_credential_member(text)
