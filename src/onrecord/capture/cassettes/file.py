"""A cassette file as plain data: YAML or JSON, perhaps compressed, within hard limits.

A cassette is somebody else's file. Before anything is built of it, its YAML is walked through as events: how deep it
goes, how many nodes it has, how many it would have once every alias is written out, that no alias is inside of what it
names, and that no tag asks for more than plain values. Only then a safe loader makes values of it.
"""

from __future__ import annotations

import os
import stat
import zlib
from pathlib import Path
from typing import Any

from reenact.core.strict_json import read_strict
from reenact.errors import BadRecording, InvalidInput, InvalidValue, NotFound

MOST_BYTES = 64 * 1024 * 1024
MOST_NODES = 500_000
DEEPEST = 100
_PLAIN = "tag:yaml.org,2002:"
_TAGS = frozenset(f"{_PLAIN}{name}" for name in ("binary", "bool", "float", "int", "map", "null", "seq", "str"))
_COMPRESSED = b"\x1f\x8b"
_HINT = "It is not read. Record again what it was to show, or get the file from where it was made."


def read_cassette(path: Path) -> Any:
    return parse_cassette(_bytes_of(path), path.name)


def parse_cassette(data: bytes, name: str) -> Any:
    """The values of a cassette. Anything that is not plainly one is refused."""
    if data.startswith(_COMPRESSED):
        data = _decompressed(data, name)
    if len(data) > MOST_BYTES:
        raise _too_large(name)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise _bad(f"{name} is not UTF-8: the byte at {error.start:,} cannot be", "cassette_encoding") from None
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            return read_strict(data)
        except InvalidValue as error:
            if name.removesuffix(".gz").endswith(".json"):
                raise _bad(f"{name} is not plain JSON: {error.message}", "cassette_syntax") from None
    return _yaml(data, name)


def _bytes_of(path: Path) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise InvalidInput(f"{path} is no regular file", hint="Name a cassette.", code="not_a_file")
            if found.st_size > MOST_BYTES:
                raise _too_large(path.name)
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"there is no cassette {path}", hint="Name one that exists.", code="no_file") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}", code="no_file") from None


def _decompressed(data: bytes, name: str) -> bytes:
    try:
        unpacker = zlib.decompressobj(wbits=31)
        plain = unpacker.decompress(data, MOST_BYTES + 1)
    except zlib.error:
        raise _bad(f"{name} is damaged: it cannot be decompressed", "cassette_syntax") from None
    if len(plain) > MOST_BYTES:
        raise _too_large(name)
    if not unpacker.eof or unpacker.unused_data:
        raise _bad(f"{name} is damaged: its compressed data ends too early or too late", "cassette_syntax")
    return plain


# YAML


def _yaml(data: bytes, name: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise InvalidInput(
            f"{name} is YAML, and nothing is installed that reads it",
            hint="Install the reader: pip install 'reenact[vcr]'",
            code="missing_extra",
        ) from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _Walk(name).through(yaml.parse(data, Loader=loader))
        return yaml.load(data, Loader=loader)  # noqa: S506  (a safe one; it makes plain values alone)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1:,}" if mark is not None else ""
        problem = str(getattr(error, "problem", None) or type(error).__name__)
        raise _bad(f"{name}{where}: not YAML that could be read ({problem[:100]})", "cassette_syntax") from None
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise _bad(f"{name} has a value that cannot be read", "cassette_syntax") from None


class _Walk:
    """Over the events of a document."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes = 0
        """With every alias written out."""
        self._open: list[tuple[str | None, int]] = []
        """What we are inside of: its anchor, and how many nodes came before it."""
        self._sizes: dict[str, int] = {}

    def through(self, events: Any) -> None:
        import yaml

        for event in events:
            if isinstance(event, yaml.AliasEvent):
                self._alias(event)
            elif isinstance(event, (yaml.CollectionStartEvent, yaml.ScalarEvent)):
                self._node(event, is_open=isinstance(event, yaml.CollectionStartEvent))
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, before = self._open.pop()
                if anchor is not None:
                    self._sizes[anchor] = self._nodes - before
            if self._nodes > MOST_NODES:
                raise _bad(
                    f"{self._name}, line {_line(event)}: more than {MOST_NODES:,} values, aliases written out",
                    "cassette_too_many_values",
                )

    def _node(self, event: Any, *, is_open: bool) -> None:
        tag = event.tag
        if tag is not None and tag != "!" and tag not in _TAGS:
            raise _bad(
                f"{self._name}, line {_line(event)}: the tag {tag[:60]!r} asks for something else than a plain value",
                "cassette_tag",
            )
        if is_open:
            self._open.append((event.anchor, self._nodes))
            if len(self._open) > DEEPEST:
                raise _bad(f"{self._name}, line {_line(event)}: nested deeper than {DEEPEST}", "cassette_too_deep")
        elif event.anchor is not None:
            self._sizes[event.anchor] = 1
        self._nodes += 1

    def _alias(self, event: Any) -> None:
        if any(anchor == event.anchor for anchor, _ in self._open):
            raise _bad(f"{self._name}, line {_line(event)}: an alias stands inside of what it names", "cassette_cyclic")
        self._nodes += self._sizes.get(event.anchor, 1)


def _line(event: Any) -> str:
    return f"{event.start_mark.line + 1:,}" if event.start_mark is not None else "?"


def _too_large(name: str) -> BadRecording:
    return _bad(f"{name} is larger than {MOST_BYTES // 2**20} MiB", "cassette_too_large")


def _bad(message: str, code: str) -> BadRecording:
    return BadRecording(message, hint=_HINT, code=code)
