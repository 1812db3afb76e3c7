"""Putting back what placeholders stand for."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from reenact.core.codec import decode, encode
from reenact.core.lazy_patterns import Pattern
from reenact.core.redaction.placeholders import MARK, PLACEHOLDER

_QUOTED = Pattern(rf"(\\{{0,31}}[\"'])?({PLACEHOLDER.pattern})(\1)?")
_CONTENTS = frozenset({"$bytes", "$bytearray", "$text", "$artifact"})


def restored(tree: Any, originals: Mapping[str, Any], artifact: Callable[[bytes], bytes] | None = None) -> Any:
    """An encoded value with what its placeholders stand for. `artifact` fetches what is kept beside it."""
    if type(tree) is str:
        if MARK not in tree:
            return tree
        if tree not in originals:
            return _QUOTED.sub(lambda match: _original(match, originals), tree)
        original = originals[tree]
        return encode(original).tree if type(original) is int else original  # a number may be too large for JSON
    if type(tree) is list:
        return [restored(item, originals, artifact) for item in tree]
    if type(tree) is not dict:
        return tree
    if len(tree) == 1 and not _CONTENTS.isdisjoint(tree):
        content = decode(tree, artifact=artifact)
        if type(content) not in (bytes, bytearray):
            return encode(restored(content, originals)).tree if type(content) is str else tree
        data = str(restored(content.decode("utf-8", "surrogateescape"), originals)).encode("utf-8", "surrogateescape")
        return tree if data == content else {_tag_of(content): b64encode(data).decode()}
    return {restored(name, originals): restored(item, originals, artifact) for name, item in tree.items()}


def _tag_of(content: bytes | bytearray) -> str:
    return "$bytes" if type(content) is bytes else "$bytearray"


def _original(match: re.Match[str], originals: Mapping[str, Any]) -> str:
    original = originals.get(match[2])
    if original is None:
        return match[0]
    if type(original) is int and match[1] and match[5]:
        return str(original)  # a number, which has no quotes
    return f"{match[1] or ''}{original}{match[5] or ''}"
