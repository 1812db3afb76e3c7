"""Keep JSON text as structure if writing it again gives the same characters (`$json`)."""

from __future__ import annotations

import json
from typing import Any

from onrecord.core.codec.encode import encode
from onrecord.core.strict_json import read_strict
from onrecord.errors import InvalidValue

_STYLES: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
    "compact-ascii": {"separators": (",", ":"), "ensure_ascii": True},
    "python": {"separators": (", ", ": "), "ensure_ascii": True},
    "python-utf8": {"separators": (", ", ": "), "ensure_ascii": False},
    "indent2": {"indent": 2, "separators": (",", ": "), "ensure_ascii": False},
}
_ENCODERS: dict[str, json.JSONEncoder] = {}


def encode_json_text(text: str | bytes) -> dict[str, Any] | None:
    """Return the `$json` tag of a text, or None if it is not JSON or no style writes exactly these characters."""
    try:
        data = text.encode() if isinstance(text, str) else bytes(text)
        value = read_strict(data) if data.startswith((b"{", b"[")) else None
        if value is None:
            return None
        written = data.decode()
        style = next((style for style in _list_possible_styles(data) if write_json_text(value, style) == written), None)
        if style is None:
            return None
        tree = encode(value).tree
    except (InvalidValue, ValueError):
        return None
    tag = {"style": style, "value": tree}
    return {"$json": {**tag, "bytes": True} if isinstance(text, bytes) else tag}


def _list_possible_styles(data: bytes) -> list[str]:
    """Return the styles that can have written these bytes, in the order of the format."""
    if b"\n" in data:
        return ["indent2"]
    return [style for style, options in _STYLES.items() if data.isascii() or not options["ensure_ascii"]]


def write_json_text(value: Any, style: str, limit: int | None = None) -> str:
    """Write a value as JSON text. Raise ValueError or TypeError for a value or style that no JSON text has.

    Raise ValueError too if the text is longer than `limit`: indenting and escaping can enlarge a small value.
    """
    encoder = _ENCODERS.get(style)
    if encoder is None:
        encoder = _ENCODERS[style] = json.JSONEncoder(allow_nan=False, check_circular=False, **_STYLES[style])
    try:
        if limit is None:
            return encoder.encode(value)
        written: list[str] = []
        for piece in encoder.iterencode(value, _one_shot=True):
            written.append(piece)
            limit -= len(piece)
            if limit < 0:
                raise ValueError("too long")
        return "".join(written)
    except RecursionError:
        raise ValueError("too deep to be written as text") from None
