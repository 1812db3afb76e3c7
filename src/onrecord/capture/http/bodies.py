"""Bodies as recorded: JSON as structure, text as text, anything else as bytes, and each of them back as the same bytes.

A conversation repeats itself with every turn. As structure its messages are shared with those of the turn before; as
one long text they would be kept again and again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from reenact.core.codec.json_text import write_json_text
from reenact.core.lazy_patterns import Pattern
from reenact.core.strict_json import MAX_BYTES, read_strict
from reenact.errors import InvalidValue

BOUNDARY = "boundary"
"""In place of the one that a client draws for every multipart body."""
_STYLES = ("compact", "python", "indent2", "compact-ascii", "python-utf8")
_FEW_CONTAINERS = 250
"""No nesting is too deep with so few."""
_SHORTEST_WITH_BOUNDARY = len("x/x;boundary=")
_BOUNDARY = Pattern(r'(boundary=)("?)([^";,\s]+)\2', re.IGNORECASE)


def request_body(body: bytes) -> dict[str, Any]:
    """What a request says. Spaces and escapes between the same values are the same request."""
    value = _json(body)
    if value is not None:
        return {"json": value}
    return _text_or_bytes(body)


def response_body(body: bytes) -> dict[str, Any]:
    """What came, byte for byte: as structure only where writing it again gives the same bytes."""
    form = _usual_form(body)
    if form is not None:
        return form
    value = _json(body)
    for style in _STYLES if value is not None else ():
        form = {"json": value, "style": style}
        if _is_written_as(form, body):
            return form
    return _text_or_bytes(body)


def _usual_form(body: bytes) -> dict[str, Any] | None:
    """As servers mostly write JSON. Nothing is lost where the same bytes are written again, so that nobody has to read
    them with more care."""
    if body[:1] not in (b"{", b"[") or body.count(b"{") + body.count(b"[") > _FEW_CONTAINERS or len(body) > MAX_BYTES:
        return None
    try:
        value = orjson.loads(body)
    except ValueError:
        return None
    for style in _likely_styles(body):
        form = {"json": value, "style": style}
        if _is_written_as(form, body):
            return form
    return None


def _likely_styles(body: bytes) -> tuple[str, ...]:
    """Those that can have written what the body begins with; never one behind another that would write the same."""
    if body.startswith((b"{\n", b"[\n")):
        return ("indent2",)
    if body.startswith(b'{"'):
        return ("python",) if body.startswith(b'": ', body.find(b'":')) else ("compact",)
    return ("compact", "python")


def body_bytes(form: Mapping[str, Any] | None) -> bytes:
    """The bytes that a form stands for. JSON without a style, that of a request, is written as clients do."""
    if not form:
        return b""
    if "json" in form:
        style = form.get("style", "compact")
        if style == "compact":
            try:
                return orjson.dumps(form["json"])
            except TypeError:  # an integer beyond 64 bits
                pass
        return write_json_text(form["json"], style).encode()
    if "text" in form:
        return str(form["text"]).encode()
    return bytes(form.get("bytes", b""))


def part_form(part: bytes) -> str | bytes:
    """A part of a stream. Where a character is cut in two it is bytes."""
    try:
        return part.decode()
    except UnicodeDecodeError:
        return part


def part_bytes(form: str | bytes) -> bytes:
    return form.encode() if isinstance(form, str) else form


def with_one_boundary(content_type: str, body: bytes) -> tuple[str, bytes]:
    """A multipart body as if its client had taken the same boundary as every other."""
    found = _BOUNDARY.search(content_type) if len(content_type) > _SHORTEST_WITH_BOUNDARY else None
    if found is None:
        return content_type, body
    drawn = found.group(3)
    normal = f"{content_type[: found.start()]}boundary={BOUNDARY}{content_type[found.end() :]}"
    return normal, body.replace(b"--" + drawn.encode("latin-1", "replace"), b"--" + BOUNDARY.encode())


def _json(body: bytes) -> Any:
    """None: it is no object or list, or none that could be written again."""
    if body.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return read_strict(body)
    except (InvalidValue, ValueError):
        return None


def _is_written_as(form: Mapping[str, Any], body: bytes) -> bool:
    try:
        return body_bytes(form) == body
    except (TypeError, ValueError):
        return False


def _text_or_bytes(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"bytes": body}
