"""Looking through what was recorded for what looks like a secret: where it is and of what kind, never what it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from reenact.core.codec import decode
from reenact.core.redaction.finding import Finder
from reenact.core.redaction.names import is_credential_header, is_credential_member
from reenact.core.redaction.placeholders import CREDENTIAL, PLACEHOLDER

LONGEST_NAME_SHOWN = 80
_BYTES = ("$bytes", "$bytearray")


class Finding(NamedTuple):
    path: str
    """A JSON pointer into what was looked through; what looks like a secret is left out of it, too."""
    kind: str


def scan_tree(tree: Any, finder: Finder, path: str = "") -> Iterator[Finding]:
    """What looks like a secret in an encoded value. Placeholders do not."""
    if type(tree) is str:
        yield from scan_text(tree, finder, path)
    elif type(tree) is list:
        if len(tree) == 2 and type(tree[0]) is str and is_credential_header(tree[0]) and _is_secret(tree[1]):
            yield Finding(f"{path}/1", CREDENTIAL)
            return
        for index, item in enumerate(tree):
            yield from scan_tree(item, finder, f"{path}/{index}")
    elif type(tree) is dict:
        yield from _scan_members(tree, finder, path)


def scan_text(text: str, finder: Finder, path: str) -> Iterator[Finding]:
    for one in finder.find(text):
        if PLACEHOLDER.fullmatch(text, one.start, one.end) is None:
            yield Finding(path, one.kind)


def _scan_members(tree: dict[str, Any], finder: Finder, path: str) -> Iterator[Finding]:
    if len(tree) == 1 and any(tag in tree for tag in _BYTES):
        yield from scan_text(bytes(decode(tree)).decode("utf-8", "surrogateescape"), finder, path)
        return
    for name, item in tree.items():
        if any(True for _ in scan_text(name, finder, path)):
            yield Finding(f"{path}/…", "name")
            inner = f"{path}/…"
        else:
            inner = f"{path}/{name[:LONGEST_NAME_SHOWN]}"
        beside = tree.get("name") if name == "value" else None
        named = is_credential_member(name) or (type(beside) is str and is_credential_header(beside))
        if named and _is_secret(item):
            yield Finding(inner, CREDENTIAL)
        else:
            yield from scan_tree(item, finder, inner)


def _is_secret(value: Any) -> bool:
    return type(value) is str and bool(value) and PLACEHOLDER.fullmatch(value) is None
