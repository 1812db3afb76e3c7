"""Names of lanes (docs/format.md, section 4.1).

The root lane is `main`, and `main@n` after its n-th checkpoint. A child is `<parent>><label>`, and `#n` for the n-th
equal label in that parent after the first: `main>fetch`, `main>fetch#1`, `main>fetch#1>ask`.

A name is given at birth and never changes. Two lanes of a run never share one: the characters that separate are escaped
in a label, and what is too long ends in a part of its digest.
"""

from __future__ import annotations

import hashlib

from onrecord.core.lazy_regex import Pattern

ROOT_LANE = "main"
LABEL_BYTES = 64
LANE_BYTES = 512
LANE_PATTERN = r"main(?:@[1-9][0-9]{0,8})?(?:>[^>/\x00-\x1f\x7f\ud800-\udfff]*)*"
"""The grammar, together with `LANE_BYTES`. It says nothing about escapes and ordinals: a cut may go through either."""

_DIGITS = 16
_LANE = Pattern(LANE_PATTERN + r"\Z")
_ROOT = Pattern(r"main(?:@[1-9][0-9]{0,8})?\Z")
_ORDINAL = Pattern(r"(.*)#([1-9][0-9]{0,8})\Z")
_ESCAPED = Pattern(r"[%>#/~\x00-\x1f\x7f]|[\ud800-\udfff]")
"""Separators, the mark of a digest, control characters, and halves of characters, which cannot be encoded."""
_ESCAPE = Pattern(r"%([0-9A-F]{2})")


def is_lane(lane: str) -> bool:
    """Return True for a name that a lane may have."""
    return lane == ROOT_LANE or (
        len(lane) <= LANE_BYTES
        and _LANE.match(lane) is not None
        and (lane.isascii() or len(lane.encode()) <= LANE_BYTES)
    )


def child_lane(parent: str, label: str, ordinal: int) -> str:
    """Return the name of a lane. `ordinal` counts the equal labels in that parent, from 0."""
    name = f"{parent}>{_shorten(_escape(label), LABEL_BYTES)}" + (f"#{ordinal}" if ordinal else "")
    return _shorten(name, LANE_BYTES)


def next_root(root: str) -> str:
    """Return the name under which the root lane continues after a checkpoint: `main@1`, `main@2` and so on."""
    name, _, number = root.partition("@")
    return f"{name}@{int(number or 0) + 1}"


def is_root_lane(lane: str) -> bool:
    """Return True for the root lane, also after a checkpoint."""
    return lane == ROOT_LANE or _ROOT.match(lane) is not None


def parent_lane(lane: str) -> str | None:
    """Return the lane that `lane` is a child of; None for `main`. `main@n` is a child of `main`.

    The parent of a name that was cut is the text up to its last `>`. There may be no lane of that name.
    """
    above, found, _ = lane.rpartition(">")
    if found:
        return above
    return None if lane == ROOT_LANE else ROOT_LANE


def sibling_name(lane: str) -> tuple[str, int]:
    """Return the label of a lane as it is written, and its ordinal: `fetch` and 1 for `main>fetch#1`."""
    name = lane.rpartition(">")[2]
    numbered = _ORDINAL.match(name)
    return (name, 0) if numbered is None else (numbered[1], int(numbered[2]))


def shown_lane(lane: str) -> str:
    """Return a lane for people: `visit#2 › fetch` for `main>visit#2>fetch`. It holds no control characters."""
    if not lane:
        return ""
    names = lane.split(">")
    if len(names) > 1 and names[0] == ROOT_LANE:
        del names[0]
    return " › ".join(_show(name) or '""' for name in names)


def _show(name: str) -> str:
    decoded = name if "%" not in name else _ESCAPE.sub(lambda found: chr(int(found[1], 16)), name)
    if decoded.isprintable():
        return decoded
    return "".join(one if one.isprintable() else _write_escape(one) for one in decoded)


def _escape(label: str) -> str:
    return _ESCAPED.sub(lambda found: _write_escape(found[0]), label)


def _write_escape(character: str) -> str:
    return f"%{'u' * (ord(character) > 0xFF)}{ord(character):02X}"


def _shorten(text: str, most: int) -> str:
    data = text.encode()
    if len(data) <= most:
        return text
    digest = hashlib.sha256(data).hexdigest()[:_DIGITS]
    kept = data[: most - _DIGITS - 1].decode("utf-8", "ignore")
    return f"{kept}~{digest}"
