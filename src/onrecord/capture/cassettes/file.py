"""Read a cassette file as plain data: YAML or JSON, optionally compressed, within hard limits.

A cassette is a foreign file. Before any value is built, the YAML is checked as a sequence of events: its depth, its
number of nodes with every alias expanded, that no alias is inside the node it names, and that every tag is a plain
value's. Only then a safe loader builds the values.
"""

from __future__ import annotations

import os
import stat
import zlib
from pathlib import Path
from typing import Any

from onrecord.core.strict_json import read_strict
from onrecord.errors import BadRecording, InvalidInput, InvalidValue, NotFound
from onrecord.extras import install_command

MOST_BYTES = 64 * 1024 * 1024
MOST_NODES = 500_000
DEEPEST = 100
_PLAIN = "tag:yaml.org,2002:"
_TAGS = frozenset(f"{_PLAIN}{name}" for name in ("binary", "bool", "float", "int", "map", "null", "seq", "str"))
_COMPRESSED = b"\x1f\x8b"
_HINT = "The file was not read. Record it again, or get an undamaged copy."


def read_cassette(path: Path) -> Any:
    return parse_cassette(_read_bytes(path), path.name)


def parse_cassette(data: bytes, name: str) -> Any:
    """Return the values of a cassette. Raise BadRecording for anything but plain data within the limits."""
    if data.startswith(_COMPRESSED):
        data = _decompress(data, name)
    if len(data) > MOST_BYTES:
        raise _too_large(name)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise _bad_cassette(
            f"{name} is not UTF-8: the byte at {error.start:,} is invalid", "cassette_encoding"
        ) from None
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            return read_strict(data)
        except InvalidValue as error:
            if name.removesuffix(".gz").endswith(".json"):
                raise _bad_cassette(f"{name} is not plain JSON: {error.message}", "cassette_syntax") from None
    return _parse_yaml(data, name)


def _read_bytes(path: Path) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise InvalidInput(f"{path} is not a regular file", hint="Name a cassette file.", code="not_a_file")
            if found.st_size > MOST_BYTES:
                raise _too_large(path.name)
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"there is no cassette {path}", hint="Check the path of the cassette.", code="no_file") from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}", code="no_file") from None


def _decompress(data: bytes, name: str) -> bytes:
    try:
        unpacker = zlib.decompressobj(wbits=31)
        plain = unpacker.decompress(data, MOST_BYTES + 1)
    except zlib.error:
        raise _bad_cassette(f"{name} is damaged: it cannot be decompressed", "cassette_syntax") from None
    if len(plain) > MOST_BYTES:
        raise _too_large(name)
    if not unpacker.eof or unpacker.unused_data:
        raise _bad_cassette(f"{name} is damaged: its compressed data ends too early or too late", "cassette_syntax")
    return plain


# YAML


def _parse_yaml(data: bytes, name: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise InvalidInput(
            f"{name} is YAML, and no YAML reader is installed", hint=install_command("vcr"), code="missing_extra"
        ) from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _YamlWalk(name).check_events(yaml.parse(data, Loader=loader))
        return yaml.load(data, Loader=loader)  # noqa: S506  (a safe loader: it builds only plain values)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1:,}" if mark is not None else ""
        problem = str(getattr(error, "problem", None) or type(error).__name__)
        raise _bad_cassette(f"{name}{where}: not readable YAML ({problem[:100]})", "cassette_syntax") from None
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise _bad_cassette(f"{name} has a value that cannot be read", "cassette_syntax") from None


class _YamlWalk:
    """Check of the events of a YAML document against the limits."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes = 0
        """Nodes so far, with every alias expanded."""
        self._open: list[tuple[str | None, int]] = []
        """Enclosing collections: the anchor, and the number of nodes before the collection."""
        self._sizes: dict[str, int] = {}

    def check_events(self, events: Any) -> None:
        import yaml

        for event in events:
            if isinstance(event, yaml.AliasEvent):
                self._count_alias(event)
            elif isinstance(event, (yaml.CollectionStartEvent, yaml.ScalarEvent)):
                self._count_node(event, is_open=isinstance(event, yaml.CollectionStartEvent))
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, before = self._open.pop()
                if anchor is not None:
                    self._sizes[anchor] = self._nodes - before
            if self._nodes > MOST_NODES:
                raise _bad_cassette(
                    f"{self._name}, line {_line_number(event)}: more than {MOST_NODES:,} values, with aliases expanded",
                    "cassette_too_many_values",
                )

    def _count_node(self, event: Any, *, is_open: bool) -> None:
        tag = event.tag
        if tag is not None and tag != "!" and tag not in _TAGS:
            raise _bad_cassette(
                f"{self._name}, line {_line_number(event)}: the tag {tag[:60]!r} is not a plain value's", "cassette_tag"
            )
        if is_open:
            self._open.append((event.anchor, self._nodes))
            if len(self._open) > DEEPEST:
                raise _bad_cassette(
                    f"{self._name}, line {_line_number(event)}: nested deeper than {DEEPEST}", "cassette_too_deep"
                )
        elif event.anchor is not None:
            self._sizes[event.anchor] = 1
        self._nodes += 1

    def _count_alias(self, event: Any) -> None:
        if any(anchor == event.anchor for anchor, _ in self._open):
            raise _bad_cassette(
                f"{self._name}, line {_line_number(event)}: an alias is inside the value it names", "cassette_cyclic"
            )
        self._nodes += self._sizes.get(event.anchor, 1)


def _line_number(event: Any) -> str:
    return f"{event.start_mark.line + 1:,}" if event.start_mark is not None else "?"


def _too_large(name: str) -> BadRecording:
    return _bad_cassette(f"{name} is larger than {MOST_BYTES // 2**20} MiB", "cassette_too_large")


def _bad_cassette(message: str, code: str) -> BadRecording:
    return BadRecording(message, hint=_HINT, code=code)
