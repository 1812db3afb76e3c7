"""Recordings within a page: one element each, line by line, with nothing in it that could end the element.

A `<` stands there as `\\u003c`, which no recording has by itself (docs/format.md, section 3: stored text escapes only
what it must) and which reads the same to whoever takes the lines for the JSON that they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from onrecord.errors import BadRecording

RECORDING_TYPE = "application/x-onrecord-recording"
COMPARISON_TYPE = "application/x-onrecord-comparison"
MOST_RECORDINGS = 2
CLOSING = b"</script>\n"
LINE_BYTES = 160 * 1024 * 1024
"""What a line of an export may be, with some room for what is escaped."""

_OPENING = re.compile(
    rf'<script type="({re.escape(RECORDING_TYPE)}|{re.escape(COMPARISON_TYPE)})" id="([a-z]+-?[0-9]?)">\n'.encode()
)
_ESCAPE = re.compile(rb"\\(u003c|.)", re.DOTALL)


def opening(kind: str, name: str) -> bytes:
    return f'<script type="{kind}" id="{name}">\n'.encode()


def escaped(line: bytes) -> bytes:
    return line.replace(b"<", b"\\u003c")


def unescaped(line: bytes) -> bytes:
    """Escapes are taken from left to right: a backslash that is itself escaped begins none."""
    if b"\\u003c" not in line:
        return line
    return _ESCAPE.sub(lambda found: b"<" if found[1] == b"u003c" else found[0], line)


def block(kind: str, name: str, lines: Iterable[bytes]) -> Iterator[bytes]:
    yield opening(kind, name)
    for line in lines:
        yield escaped(line) + b"\n"
    yield CLOSING


class PageLine:
    """A line of a page: of a block, or of the page around them."""

    __slots__ = ("kind", "name", "text")

    def __init__(self, text: bytes, kind: str | None, name: str | None) -> None:
        self.text = text
        """As it stands, its line feed included."""
        self.kind = kind
        """The type of the element that it stands in; None: it is part of the page."""
        self.name = name


def lines_of(file: BinaryIO) -> Iterator[PageLine]:
    kind: str | None = None
    name: str | None = None
    while text := file.readline(LINE_BYTES + 1):
        if text.endswith(b"\r\n"):  # what mail makes of it; a recording has no carriage return of its own
            text = text[:-2] + b"\n"
        if len(text) > LINE_BYTES:
            raise BadRecording(f"a line of the page is longer than {LINE_BYTES} bytes", code="too_large")
        if kind is not None and text != CLOSING:
            yield PageLine(text, kind, name)
            continue
        found = _OPENING.fullmatch(text) if kind is None else None
        yield PageLine(text, None, None)
        kind, name = (found[1].decode(), found[2].decode()) if found else (None, None)
