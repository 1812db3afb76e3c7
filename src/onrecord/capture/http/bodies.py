"""Convert bodies to their recorded forms and back to the same bytes: JSON as structure, text as text, others as bytes.

A conversation repeats its messages with every turn. As structure they are stored once and shared; as one long text they
would be stored again with each turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from onrecord.core.codec.json_text import write_json_text
from onrecord.core.lazy_regex import Pattern
from onrecord.core.strict_json import MAX_BYTES, read_strict
from onrecord.errors import InvalidValue

BOUNDARY = "boundary"
"""Replaces the random boundary of a multipart body."""
_STYLES = ("compact", "python", "indent2", "compact-ascii", "python-utf8")
_FAST_CONTAINERS = 250
"""Number of containers up to which no nesting is too deep."""
_MIN_LENGTH_WITH_BOUNDARY = len("x/x;boundary=")
_BOUNDARY = Pattern(r'(boundary=)("?)([^";,\s]+)\2', re.IGNORECASE)


def request_body(body: bytes) -> dict[str, Any]:
    """Return the recorded form of a request's body. JSON texts of equal values have equal forms."""
    value = _parse_json(body)
    if value is not None:
        return {"json": value}
    return _text_or_bytes(body)


def response_body(body: bytes) -> dict[str, Any]:
    """Return the recorded form of a response's body: structure only if writing it gives the same bytes again."""
    form = _common_form(body)
    if form is not None:
        return form
    value = _parse_json(body)
    for style in _STYLES if value is not None else ():
        form = {"json": value, "style": style}
        if _is_written_as(form, body):
            return form
    return _text_or_bytes(body)


def _common_form(body: bytes) -> dict[str, Any] | None:
    """Return the form of JSON written as most servers do, or None. Since the same bytes are written again, the fast
    parser loses nothing, and no strict reading is needed."""
    if body[:1] not in (b"{", b"[") or body.count(b"{") + body.count(b"[") > _FAST_CONTAINERS or len(body) > MAX_BYTES:
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
    """Return the styles that can have written the body's beginning. No two of them write the same bytes."""
    if body.startswith((b"{\n", b"[\n")):
        return ("indent2",)
    if body.startswith(b'{"'):
        return ("python",) if body.startswith(b'": ', body.find(b'":')) else ("compact",)
    return ("compact", "python")


def body_bytes(form: Mapping[str, Any] | None) -> bytes:
    """Return the bytes of a recorded form. JSON without a style (of a request) is written compactly, as clients do."""
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
    """Return a part of a stream as text, or as bytes if it cuts a character in two."""
    try:
        return part.decode()
    except UnicodeDecodeError:
        return part


def part_bytes(form: str | bytes) -> bytes:
    return form.encode() if isinstance(form, str) else form


def normalize_boundary(content_type: str, body: bytes) -> tuple[str, bytes]:
    """Return the content type and the body of a multipart request with a constant boundary."""
    found = _BOUNDARY.search(content_type) if len(content_type) > _MIN_LENGTH_WITH_BOUNDARY else None
    if found is None:
        return content_type, body
    boundary = found.group(3)
    normalized = f"{content_type[: found.start()]}boundary={BOUNDARY}{content_type[found.end() :]}"
    return normalized, body.replace(b"--" + boundary.encode("latin-1", "replace"), b"--" + BOUNDARY.encode())


def _parse_json(body: bytes) -> Any:
    """Return the parsed object or list, or None if the body is neither or cannot be recorded as structure."""
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
