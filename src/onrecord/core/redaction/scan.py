"""Scan recorded data for secrets. A finding names the position and the kind, never the secret."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from onrecord.core.codec import decode
from onrecord.core.redaction.compressed import unpack_gzip
from onrecord.core.redaction.finder import Finder
from onrecord.core.redaction.names import holds_credential, is_credential_header, is_option
from onrecord.core.redaction.placeholders import CREDENTIAL, PLACEHOLDER
from onrecord.core.redaction.redactor import is_credential_pair

LONGEST_NAME_SHOWN = 80
_BYTES = ("$bytes", "$bytearray")
_TUPLE = "$tuple"


class SecretFinding(NamedTuple):
    path: str
    """A JSON pointer into the scanned value; names that look like secrets are left out of it."""
    kind: str


def scan_tree(tree: Any, finder: Finder, path: str = "") -> Iterator[SecretFinding]:
    """Yield what looks like a secret in an encoded value. Placeholders are skipped."""
    tree = _untag(tree)
    if type(tree) is str:
        yield from scan_text(tree, finder, path)
    elif type(tree) is list:
        name, value = (_untag(tree[0]), _untag(tree[1])) if len(tree) == 2 else (None, None)
        if type(name) is str and is_credential_header(name) and _is_secret(value):
            yield SecretFinding(f"{path}/1", CREDENTIAL)
            return
        before = None
        for index, item in enumerate(tree):
            if _is_credential_item(before, item):
                within = "/1" if type(_untag(item)) is list else ""  # the value of a pair
                yield SecretFinding(f"{path}/{index}{within}", CREDENTIAL)
            else:
                yield from scan_tree(item, finder, f"{path}/{index}")
            before = item
    elif type(tree) is dict:
        yield from _scan_members(tree, finder, path)


def scan_text(text: str, finder: Finder, path: str) -> Iterator[SecretFinding]:
    for secret in finder.find(text):
        if PLACEHOLDER.fullmatch(text, secret.start, secret.end) is None:
            yield SecretFinding(path, secret.kind)


def _untag(tree: Any) -> Any:
    """Return tuples as lists and bytes as text."""
    if type(tree) is not dict or len(tree) != 1:
        return tree
    if _TUPLE in tree:
        return tree[_TUPLE]
    if any(tag in tree for tag in _BYTES):
        data = bytes(decode(tree))
        return (unpack_gzip(data) or data).decode("utf-8", "surrogateescape")
    return tree


def _scan_members(tree: dict[str, Any], finder: Finder, path: str) -> Iterator[SecretFinding]:
    for name, item in tree.items():
        if any(True for _ in scan_text(name, finder, path)):
            yield SecretFinding(f"{path}/…", "name")
            inner = f"{path}/…"
        else:
            inner = f"{path}/{name[:LONGEST_NAME_SHOWN]}"
        beside = tree.get("name") if name == "value" else None
        named = holds_credential(name, item) or (type(beside) is str and is_credential_header(beside))
        if named and _is_secret(item):
            yield SecretFinding(inner, CREDENTIAL)
        else:
            yield from scan_tree(item, finder, inner)


def _is_credential_item(before: Any, item: Any) -> bool:
    """Return True for an item that is a credential: the value of the option before it, `--option=value`, or a pair."""
    item = _untag(item)
    if type(item) is list:
        return is_credential_pair(item) and _is_secret(item[1])
    if type(item) is not str:
        return False
    option, equals_sign, value = item.partition("=")
    return _is_secret(item) if is_option(before) else bool(equals_sign) and is_option(option) and _is_secret(value)


def _is_secret(value: Any) -> bool:
    return type(value) is str and bool(value) and PLACEHOLDER.fullmatch(value) is None
