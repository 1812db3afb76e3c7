"""Read hostile JSON in linear time and memory, with one clear refusal.

1. Size, byte order mark and UTF-8 are checked on the bytes.
2. orjson parses. If writing the result gives the same bytes, nothing was lost: no duplicate key, no rounded number.
   Everything that Onrecord wrote passes here.
3. Otherwise Python's C scanner parses again, with hooks that see duplicate keys and the digits of each number.
4. Nesting too deep for the C scanner, which recurses, is parsed by a loop, which also names offsets.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any, NoReturn

import orjson

from onrecord.core.canonical import path_step
from onrecord.core.lazy_regex import Pattern
from onrecord.errors import InvalidValue

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 1000
MAX_DIGITS = 4300

_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
# Escapes are matched from left to right, so an escaped backslash never begins another escape.
_ESCAPES = Pattern(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_WORTH_AN_OFFSET = 1024 * 1024  # characters; the loop takes about a second for this many
_ORJSON_DEPTH = 254  # orjson writes at most this deep


def read_strict(
    data: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH, max_digits: int = MAX_DIGITS
) -> Any:
    """Parse hostile bytes. `InvalidValue.code` names the broken rule, the message the position."""
    if len(data) > max_bytes:
        _refuse("too_large", f"{len(data)} bytes, the limit is {max_bytes}")
    if data.startswith(_BOMS):
        _refuse("bom", "begins with a byte order mark")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse("not_utf8", f"not UTF-8 at byte {error.start}")
    try:
        tree = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        # A long integer overflows orjson's float; only an exact parse distinguishes it from 1e400.
        if "infinity" not in str(error):
            _refuse_as_orjson(error, text, max_depth)
    else:
        if max_depth >= _ORJSON_DEPTH and _writes_back(tree, data):
            return tree
    return _read_exactly(text, max_depth, max_digits)


def _writes_back(tree: Any, data: bytes) -> bool:
    try:
        return orjson.dumps(tree) == data
    except orjson.JSONEncodeError:  # deeper than orjson writes
        return False


def _refuse(code: str, message: str) -> NoReturn:
    raise InvalidValue(f"JSON refused: {message}", code=code)


def _refuse_at(code: str, message: str, text: str, position: int) -> NoReturn:
    _refuse(code, f"{message} at byte {len(text[:position].encode('utf-8', 'surrogatepass'))}")


def _refuse_as_orjson(error: orjson.JSONDecodeError, text: str, max_depth: int) -> NoReturn:
    """Refuse at the position that orjson names. The rule is read from the text there, else from orjson's message."""
    reason = str(error)
    near = text[max(error.pos - 1, 0) : error.pos + 9]
    if "depth" in reason or "ecursion" in reason:
        _refuse_at("too_deep", f"nested deeper than {max_depth}", text, error.pos)
    if "surrogate" in reason:
        _refuse_at("lone_surrogate", "an escape of a lone surrogate", text, error.pos)
    if "after document" in reason:
        _refuse_at("trailing_bytes", "something follows the value", text, error.pos)
    if near[1:].startswith(("NaN", "Infinity")) or near.startswith(("NaN", "-Infinity")):
        _refuse_at("nan", "NaN or an infinity", text, error.pos)
    _refuse_at("syntax", "not JSON", text, error.pos)


class _DuplicateError(Exception):
    pass


def _read_exactly(text: str, max_depth: int, max_digits: int) -> Any:
    numbers = _Numbers(max_digits)
    decoder = json.JSONDecoder(
        object_pairs_hook=_build_object,
        parse_float=numbers.parse_real,
        parse_int=numbers.parse_integer,
        parse_constant=_refuse_constant,
    )
    lone = next((found for found in _ESCAPES.finditer(text) if found[1]), None) if "\\u" in text else None
    if lone is not None:  # the C scanner accepts them
        _refuse_at("lone_surrogate", "an escape of a lone surrogate", text, lone.start())
    try:
        tree = decoder.decode(text)
    except _DuplicateError as error:
        if len(text) > _WORTH_AN_OFFSET:
            _refuse("duplicate_key", f"the key {path_step(error.args[0])} occurs twice in one object")
        return _LoopParser(text, max_depth, numbers).read()
    except RecursionError:
        return _LoopParser(text, max_depth, numbers).read()
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            _refuse_at("trailing_bytes", "something follows the value", text, error.pos)
        _refuse_at("syntax", "not JSON", text, error.pos)
    if text.count("[") + text.count("{") > max_depth and _deeper_than(tree, max_depth):
        _refuse("too_deep", f"nested deeper than {max_depth}")
    return tree


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = sorted(key for key, _ in pairs)
        raise _DuplicateError(next(key for key, after in pairwise(keys) if key == after))
    return made


def _refuse_constant(_: str) -> NoReturn:
    _refuse("nan", "NaN or an infinity")


def _deeper_than(tree: Any, max_depth: int) -> bool:
    level = [tree]
    for _ in range(max_depth + 1):
        containers = [item for item in level if type(item) is dict or type(item) is list]
        if not containers:
            return False
        level = [v for c in containers for v in (c.values() if type(c) is dict else c)]
    return True


class _Numbers:
    """Convert the digits of numbers. Too many digits are refused before the conversion."""

    def __init__(self, max_digits: int) -> None:
        self.max_digits = max_digits

    def parse_integer(self, digits: str) -> int:
        if len(digits) - (digits[0] == "-") > self.max_digits:
            self.refuse(digits)
        return int(digits)

    def parse_real(self, digits: str) -> float:
        if len(digits) > self.max_digits:
            self.refuse(digits)
        value = float(digits)
        if value - value != 0.0:
            _refuse("number_overflow", "a number too large for a float")
        return value

    def refuse(self, digits: str) -> NoReturn:
        _refuse("number_too_long", f"a number of {len(digits)} digits, the limit is {self.max_digits}")


# --- the loop ---

_SPACE = Pattern(r"[ \t\n\r]*+")
_STRING = Pattern(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_NUMBER = Pattern(r"-?(?:0|[1-9][0-9]*+)((?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)")
_WORDS = {"true": True, "false": False, "null": None}
_WORD = Pattern(r"true|false|null")
_NOTHING: Any = object()


class _LoopParser:
    """A parser with its own stack: any depth, and an offset for every refusal."""

    def __init__(self, text: str, max_depth: int, numbers: _Numbers) -> None:
        self.text = text
        self.at = 0
        self.max_depth = max_depth
        self.numbers = numbers
        self.open: list[Any] = []  # the enclosing containers, outermost first
        self.keys: list[Any] = []  # for each of them the key of the next value, None in a list

    def read(self) -> Any:
        value = _NOTHING
        while value is _NOTHING:
            value = self.read_value()
            while value is not _NOTHING and self.open:
                value = self.attach(value)
        self.skip_space()
        if self.at < len(self.text):
            self.refuse("trailing_bytes", "something follows the value")
        return value

    def read_value(self) -> Any:
        """Read a scalar or an empty container, or enter a container."""
        opener = self.skip_space()
        if opener == "{" or opener == "[":
            if len(self.open) >= self.max_depth:
                self.refuse("too_deep", f"nested deeper than {self.max_depth}")
            self.at += 1
            made: Any = {} if opener == "{" else []
            if self.skip_space() == ("}" if opener == "{" else "]"):
                self.at += 1
                return made
            self.open.append(made)
            self.keys.append(self.read_key(made) if opener == "{" else None)
            return _NOTHING
        return self.read_string() if opener == '"' else self.read_scalar()

    def attach(self, value: Any) -> Any:
        """Put a value into its container. Return the container if it ends here, else `_NOTHING`."""
        container = self.open[-1]
        is_object = type(container) is dict
        if is_object:
            container[self.keys[-1]] = value
        else:
            container.append(value)
        follows = self.skip_space()
        if follows == ",":
            self.at += 1
            if is_object:
                self.keys[-1] = self.read_key(container)
            return _NOTHING
        if follows != ("}" if is_object else "]"):
            self.refuse("syntax", "not JSON")
        self.at += 1
        self.keys.pop()
        return self.open.pop()

    def read_key(self, container: dict[str, Any]) -> str:
        if self.skip_space() != '"':
            self.refuse("syntax", "not JSON")
        start = self.at
        key = self.read_string()
        if key in container:
            _refuse_at("duplicate_key", f"the key {path_step(key)} occurs twice", self.text, start)
        if self.skip_space() != ":":
            self.refuse("syntax", "not JSON")
        self.at += 1
        return key

    def read_string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            self.refuse("syntax", "not JSON")
        self.at = found.end()
        text: str = json.loads(found[0])
        return text

    def read_scalar(self) -> Any:
        found = _NUMBER.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            return self.numbers.parse_real(found[0]) if found[1] else self.numbers.parse_integer(found[0])
        found = _WORD.match(self.text, self.at)
        if found is None:
            if self.text.startswith(("NaN", "Infinity", "-Infinity"), self.at):
                self.refuse("nan", "NaN or an infinity")
            self.refuse("syntax", "not JSON")
        self.at = found.end()
        return _WORDS[found[0]]

    def skip_space(self) -> str:
        """Skip white space and return the next character, empty at the end."""
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.text[self.at : self.at + 1]

    def refuse(self, code: str, message: str) -> NoReturn:
        _refuse_at(code, message, self.text, self.at)
