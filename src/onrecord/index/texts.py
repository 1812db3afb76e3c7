"""Extract the texts of a recorded content, for the index and for snippets. Pure.

A repeated conversation is stored once, in shared nodes. It is indexed once too, with the first event of the run that
refers to the node, so that the index grows like the log.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from onrecord.core.canonical import parse_stored
from onrecord.core.hashing import parse_hash
from onrecord.core.lazy_regex import Pattern
from onrecord.errors import InvalidValue

MOST_CHARACTERS = 64 * 1024
"""Most characters of one event that are indexed. A search reports that it does not find more."""
LONGEST_WORD = 128
DEEPEST = 200

Fetch = Callable[[Sequence[bytes]], Mapping[bytes, bytes]]

_NO_WORD = Pattern(rf"\w{{{LONGEST_WORD + 1},}}")
# Scripts without spaces, where each character is a word: ideographs, kana, Thai and its neighbours, Hangul.
_SOLID = Pattern("([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff])")
_BYTES = ("$bytes", "$bytearray", "$artifact")


class Texts(NamedTuple):
    texts: list[str]
    cut: bool
    """True if the texts were cut."""


def extract_texts(tree: Any, fetch: Fetch, known: set[bytes] | None = None, most: int = MOST_CHARACTERS) -> Texts:
    """Return the texts, numbers and names of a content in order, fetching the nodes it refers to.

    Nodes that are `known` are left out; nodes that are read are added to `known`.
    """
    found: list[str] = []
    left = most
    # The names of an event's members are left out: they are the same in all events of a kind.
    values = list(tree.values()) if isinstance(tree, dict) else [tree]
    stack: list[tuple[Any, int]] = [(value, 0) for value in reversed(values)]
    while stack:
        value, depth = stack.pop()
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, (str, int, float)):
            text = value if isinstance(value, str) else repr(value)
            found.append(text[:left])
            left -= len(text)
        elif isinstance(value, list) and depth < DEEPEST:
            stack.extend((item, depth + 1) for item in reversed(value))
        elif isinstance(value, dict) and depth < DEEPEST:
            stack.extend((item, depth + 1) for item in reversed(_child_values(value, fetch, known)))
        if left <= 0:
            return Texts(found, True)
    return Texts(found, False)


def _child_values(value: dict[str, Any], fetch: Fetch, known: set[bytes] | None) -> list[Any]:
    if len(value) == 1:
        ((tag, target),) = value.items()
        if tag in _BYTES:
            return []
        if tag == "$text" and isinstance(target, str):  # with halves of surrogate pairs
            return [b64decode(target).decode("utf-8", "replace")]
        if tag in ("$node", "$list", "$string"):
            targets = target if isinstance(target, list) else [target]
            if tag == "$list" and targets and isinstance(targets[-1], list):  # the items of the open run are in place
                return [*_fetch_nodes(targets[:-1], tag, fetch, known), *targets[-1]]
            return _fetch_nodes(targets, tag, fetch, known)
    return [part for name, item in value.items() for part in ((item,) if name.startswith("$") else (name, item))]


def _fetch_nodes(targets: list[Any], tag: str, fetch: Fetch, known: set[bytes] | None) -> list[Any]:
    addresses = []
    for target in targets:
        try:
            addresses.append(parse_hash(target))
        except InvalidValue:
            return []  # from a foreign recording; `verify` reports the damage
    fresh = [one for one in addresses if known is None or one not in known]
    if known is not None:
        known.update(fresh)
    read = fetch(fresh)
    parts = [parse_stored(read[one]) for one in fresh if one in read]
    if tag == "$string" and all(isinstance(part, str) for part in parts):
        return ["".join(parts)]  # a string is split anywhere, even within a word
    return parts


def make_searchable(text: str) -> str:
    """Return a text as it is indexed. Queries are treated the same way."""
    plain = text.encode("utf-8", "replace").decode().replace("\0", " ")
    return _SOLID.sub(r" \1 ", _NO_WORD.sub(" ", plain))
