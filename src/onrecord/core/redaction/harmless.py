"""Values with nothing to hide, told by their texts: most of those have been seen before.

A program says the same again and again: names of members and headers, and with every turn of a conversation all that
was said so far. A text in which there is no secret, and which names no place for credentials, is innocent wherever it
stands: only what is new has to be looked at, and all of that at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from reenact.core.redaction.names import is_credential_member

MOST_LETTERS = 2_000_000
"""Of all texts that are remembered."""
LONGEST_REMEMBERED = 500_000
MOST_CONTAINERS = 4096
"""Values with more are looked at as a whole: one that contains itself has no end."""
_SIMPLE = frozenset({type(None), bool, int, float})


class Innocent(set[str]):
    """Texts that are known to be innocent."""

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


def new_texts(value: Any, innocent: Innocent) -> list[str] | None:
    """Those of a plain value that nobody knows yet, with the names of its members. None: the value is not plain, or
    large."""
    new: list[str] = []
    todo: list[Any] = [(value,)]
    for container in todo:
        items: Iterable[Any] = container
        if type(container) is dict:
            for name in container:
                if type(name) is not str:
                    return None
                if name not in innocent:
                    new.append(name)
            items = container.values()
        for item in items:
            kind = type(item)
            if kind is str:
                if item not in innocent:
                    new.append(item)
            elif kind is dict or kind is list:
                todo.append(item)
            elif kind not in _SIMPLE:
                return None
        if len(todo) > MOST_CONTAINERS:
            return None
    return new


def as_stored(texts: Sequence[str]) -> str | None:
    """All of them in one text, in which each shows as it does in a value that is stored: as what may name its
    neighbour. None: one cannot be written."""
    try:
        return orjson.dumps([*texts, ""]).decode()
    except orjson.JSONEncodeError:
        return None


def names_credentials(text: str) -> bool:
    """What stands beside the text may be a credential because of it."""
    return text.startswith("--") or is_credential_member(text)
