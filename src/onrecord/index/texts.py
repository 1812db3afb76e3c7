"""The texts of a recorded content, as they are indexed and shown with a hit. Pure.

A conversation that repeats itself is kept once, in nodes that are shared; so it is indexed once, too: with the event
that brought the node into its run. However long a run is, its index grows like its log.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from reenact.core.canonical import parse_stored
from reenact.core.hashing import parse_hash
from reenact.core.lazy_patterns import Pattern
from reenact.errors import InvalidValue

MOST_CHARACTERS = 64 * 1024
"""Of one event; what is beyond that is not found by a search, which says so."""
LONGEST_WORD = 128
DEEPEST = 200

Fetch = Callable[[Sequence[bytes]], Mapping[bytes, bytes]]

_NO_WORD = Pattern(rf"\w{{{LONGEST_WORD + 1},}}")
# Where words are not set apart, each character is one: ideographs, kana, Thai and its neighbours, Hangul.
_SOLID = Pattern("([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff])")
_BYTES = ("$bytes", "$bytearray", "$artifact")


class Texts(NamedTuple):
    texts: list[str]
    cut: bool
    """There was more than is taken."""


def texts_in(tree: Any, fetch: Fetch, known: set[bytes] | None = None, most: int = MOST_CHARACTERS) -> Texts:
    """Texts, numbers and names in the order they stand, from an event's content with its references unexpanded.

    Nodes that are `known` are left out, and those that were read are known afterwards.
    """
    found: list[str] = []
    left = most
    stack: list[tuple[Any, int]] = [(value, 0) for value in reversed(_members(tree))]
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
            stack.extend((item, depth + 1) for item in reversed(_inside(value, fetch, known)))
        if left <= 0:
            return Texts(found, True)
    return Texts(found, False)


def _members(tree: Any) -> list[Any]:
    """The names of the members of an event say nothing: all events of a kind have them."""
    return list(tree.values()) if isinstance(tree, dict) else [tree]


def _inside(value: dict[str, Any], fetch: Fetch, known: set[bytes] | None) -> list[Any]:
    if len(value) == 1:
        ((tag, target),) = value.items()
        if tag in _BYTES:
            return []
        if tag == "$text" and isinstance(target, str):  # with halves of surrogate pairs
            return [b64decode(target).decode("utf-8", "replace")]
        if tag in ("$node", "$list", "$string"):
            return _referred(target if isinstance(target, list) else [target], tag, fetch, known)
    return [part for name, item in value.items() for part in ((item,) if name.startswith("$") else (name, item))]


def _referred(targets: list[Any], tag: str, fetch: Fetch, known: set[bytes] | None) -> list[Any]:
    addresses = []
    for target in targets:
        try:
            addresses.append(parse_hash(target))
        except InvalidValue:
            return []  # a stranger's; `verify` says what is the matter with it
    fresh = [one for one in addresses if known is None or one not in known]
    if known is not None:
        known.update(fresh)
    read = fetch(fresh)
    parts = [parse_stored(read[one]) for one in fresh if one in read]
    if tag == "$string" and all(isinstance(part, str) for part in parts):
        return ["".join(parts)]  # cut anywhere, in the middle of a word, too
    return parts


def searchable(text: str) -> str:
    """A text as the index takes it, and a question for it in the same way."""
    plain = text.encode("utf-8", "replace").decode().replace("\0", " ")
    return _SOLID.sub(r" \1 ", _NO_WORD.sub(" ", plain))
