"""Restore the originals of placeholders."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from onrecord.core.codec import decode, encode
from onrecord.core.lazy_regex import Pattern
from onrecord.core.redaction.placeholders import MARK, PLACEHOLDER

_QUOTED = Pattern(rf"(\\{{0,31}}[\"'])?({PLACEHOLDER.pattern})(\1)?")
_CONTENTS = frozenset({"$bytes", "$bytearray", "$text", "$artifact"})


def restore_secrets(tree: Any, originals: Mapping[str, Any], artifact: Callable[[bytes], bytes] | None = None) -> Any:
    """Return an encoded value with its placeholders replaced. `artifact` fetches the bytes stored beside it."""
    if type(tree) is str:
        if MARK not in tree:
            return tree
        if tree not in originals:
            return _QUOTED.sub(lambda match: _find_original(match, originals), tree)
        original = originals[tree]
        return encode(original).tree if type(original) is int else original  # a number may exceed JSON's range
    if type(tree) is list:
        return [restore_secrets(item, originals, artifact) for item in tree]
    if type(tree) is not dict:
        return tree
    if len(tree) == 1 and not _CONTENTS.isdisjoint(tree):
        content = decode(tree, artifact=artifact)
        if type(content) not in (bytes, bytearray):
            return encode(restore_secrets(content, originals)).tree if type(content) is str else tree
        data = str(restore_secrets(content.decode("utf-8", "surrogateescape"), originals)).encode(
            "utf-8", "surrogateescape"
        )
        tag = "$bytes" if type(content) is bytes else "$bytearray"
        return tree if data == content else {tag: b64encode(data).decode()}
    return {restore_secrets(name, originals): restore_secrets(item, originals, artifact) for name, item in tree.items()}


def _find_original(match: re.Match[str], originals: Mapping[str, Any]) -> str:
    original = originals.get(match[2])
    if original is None:
        return match[0]
    if type(original) is int and match[1] and match[5]:
        return str(original)  # the original number has no quotes
    return f"{match[1] or ''}{original}{match[5] or ''}"
