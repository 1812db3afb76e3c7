"""Looking through what was recorded for what looks like a secret: where it is and of what kind, never what it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from reenact.core.codec import decode
from reenact.core.redaction.compressed import unpacked
from reenact.core.redaction.finding import Finder
from reenact.core.redaction.names import holds_credential, is_credential_header, is_option
from reenact.core.redaction.placeholders import CREDENTIAL, PLACEHOLDER
from reenact.core.redaction.redactor import is_credential_pair

LONGEST_NAME_SHOWN = 80
_BYTES = ("$bytes", "$bytearray")
_TUPLE = "$tuple"


class Finding(NamedTuple):
    path: str
    """A JSON pointer into what was looked through; what looks like a secret is left out of it, too."""
    kind: str


def scan_tree(tree: Any, finder: Finder, path: str = "") -> Iterator[Finding]:
    """What looks like a secret in an encoded value. Placeholders do not."""
    tree = _bare(tree)
    if type(tree) is str:
        yield from scan_text(tree, finder, path)
    elif type(tree) is list:
        name, value = (_bare(tree[0]), _bare(tree[1])) if len(tree) == 2 else (None, None)
        if type(name) is str and is_credential_header(name) and _is_secret(value):
            yield Finding(f"{path}/1", CREDENTIAL)
            return
        before = None
        for index, item in enumerate(tree):
            if _stands_for_credential(before, item):
                within = "/1" if type(_bare(item)) is list else ""  # the second one of a pair
                yield Finding(f"{path}/{index}{within}", CREDENTIAL)
            else:
                yield from scan_tree(item, finder, f"{path}/{index}")
            before = item
    elif type(tree) is dict:
        yield from _scan_members(tree, finder, path)


def scan_text(text: str, finder: Finder, path: str) -> Iterator[Finding]:
    for one in finder.find(text):
        if PLACEHOLDER.fullmatch(text, one.start, one.end) is None:
            yield Finding(path, one.kind)


def _bare(tree: Any) -> Any:
    """Tuples as lists, and bytes as the text that they may be."""
    if type(tree) is not dict or len(tree) != 1:
        return tree
    if _TUPLE in tree:
        return tree[_TUPLE]
    if any(tag in tree for tag in _BYTES):
        data = bytes(decode(tree))
        return (unpacked(data) or data).decode("utf-8", "surrogateescape")
    return tree


def _scan_members(tree: dict[str, Any], finder: Finder, path: str) -> Iterator[Finding]:
    for name, item in tree.items():
        if any(True for _ in scan_text(name, finder, path)):
            yield Finding(f"{path}/…", "name")
            inner = f"{path}/…"
        else:
            inner = f"{path}/{name[:LONGEST_NAME_SHOWN]}"
        beside = tree.get("name") if name == "value" else None
        named = holds_credential(name, item) or (type(beside) is str and is_credential_header(beside))
        if named and _is_secret(item):
            yield Finding(inner, CREDENTIAL)
        else:
            yield from scan_tree(item, finder, inner)


def _stands_for_credential(before: Any, item: Any) -> bool:
    """An item of a list: what an option of a command line names, by itself or in one word with it, or a pair."""
    item = _bare(item)
    if type(item) is list:
        return is_credential_pair(item) and _is_secret(item[1])
    if type(item) is not str:
        return False
    option, is_one_word, value = item.partition("=")
    return _is_secret(item) if is_option(before) else bool(is_one_word) and is_option(option) and _is_secret(value)


def _is_secret(value: Any) -> bool:
    return type(value) is str and bool(value) and PLACEHOLDER.fullmatch(value) is None
