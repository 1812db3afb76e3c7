"""Names of lanes: `<parent>><label>`, and `#n` for the n-th equal label in that parent after the first.
The root lane is `main`, and `main@n` after its n-th checkpoint.

A name is given at birth and never changes. Two lanes of a run never share one: the characters that separate are escaped
in a label, and what is too long ends in a part of its digest.
"""

from __future__ import annotations

import functools
import hashlib
import re
from typing import Any

ROOT = "main"
LABEL_BYTES = 64
LANE_BYTES = 512
_DIGITS = 16
_ESCAPED = re.compile(r"[%>#/~\x00-\x1f\x7f]|[\ud800-\udfff]")
"""Separators, the mark of a digest, control characters, and halves of characters, which cannot be encoded."""


def child_lane(parent: str, label: str, ordinal: int) -> str:
    """Return the name of a lane. `ordinal` counts the equal labels in that parent, from 0."""
    name = f"{parent}>{_shorten(_escape(label), LABEL_BYTES)}" + (f"#{ordinal}" if ordinal else "")
    return _shorten(name, LANE_BYTES)


def next_root(root: str) -> str:
    """Return the name under which the root lane continues after a checkpoint: `main@1`, `main@2` and so on."""
    name, _, number = root.partition("@")
    return f"{name}@{int(number or 0) + 1}"


def label_of(function: Any) -> str:
    """Return the label of a coroutine, a thread's target or a job: its qualified name, without wrappers."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(name).replace("<locals>.", "")


def _escape(label: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{'u' * (ord(found[0]) > 0xFF)}{ord(found[0]):02X}", label)


def _shorten(text: str, most: int) -> str:
    data = text.encode()
    if len(data) <= most:
        return text
    digest = hashlib.sha256(data).hexdigest()[:_DIGITS]
    kept = data[: most - _DIGITS - 1].decode("utf-8", "ignore")
    return f"{kept}~{digest}"
