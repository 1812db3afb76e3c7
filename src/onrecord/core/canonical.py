"""Write a plain JSON tree as canonical bytes (RFC 8785, for digests) or as stored bytes (as the agent saw it).

A *plain tree* is made of exactly ``dict`` with ``str`` keys, ``list``, ``str``, ``int``, ``float``, ``bool`` and
``None``: no subclass, no tuple. orjson writes such a tree fast, but it does not check it: it turns NaN into null,
accepts enums and UUIDs, crashes the process on deeply nested tuples, writes ``1.0`` where RFC 8785 requires ``1``,
sorts keys by code point where RFC 8785 requires UTF-16 order, and stops at 254 levels. So:

1. One pass over the containers checks that all types are plain and finds the floats that RFC 8785 writes differently.
2. Only the containers that hold such floats are copied, with the floats replaced by their text.
3. orjson writes. What it refuses goes to the slow writer, which names the path of the error or writes the deep tree.

The slow writer is exact for every tree. Property tests compare the fast path with it and with ``rfc8785``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, NoReturn, TypeAlias

import orjson

from onrecord.errors import Damaged, InvalidValue

Tree: TypeAlias = "dict[str, Any] | list[Any] | str | int | float | bool | None"

MAX_DEPTH = 1000
MAX_INTEGER = 2**53 - 1

# Passes subclasses, dataclasses and dates to a default function that does not exist, so orjson refuses them.
_STRICT = (
    orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)
_SORTED = _STRICT | orjson.OPT_SORT_KEYS
_FEW = 4096  # containers to read before checking for a cycle
_ASTRAL_LEADS = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")


OddFloats = list[Any]
"""Containers of a plain tree whose floats RFC 8785 writes unlike orjson, one entry for each such float."""


def canonical_bytes(tree: Tree, *, odd: OddFloats | None = None) -> bytes:
    """Return the tree as RFC 8785 writes it. `InvalidValue` names the path of an invalid value, never the value.

    The pairs of a `$dict` tag are sorted: equal dicts have equal canonical bytes. `odd`, the second result of
    `plain_text` for this tree, saves the pass over the tree.
    """
    data = _write_canonical(tree, odd)
    if b"$" in data and b'{"$dict":[' in data:
        return _write_canonical(_sort_pairs(tree), None)
    return data


def _write_canonical(tree: Tree, odd: OddFloats | None) -> bytes:
    if odd is None:
        odd = _find_odd_floats(tree)
    if odd is None:
        return _write(tree, canonical=True)
    try:
        data = orjson.dumps(_write_odd_floats(tree, odd) if odd else tree, None, _SORTED)
    except (orjson.JSONEncodeError, RecursionError):
        return _write(tree, canonical=True)
    return data if data.isascii() or _has_same_order(tree, data) else _write(tree, canonical=True)


def _sort_pairs(tree: Any) -> Any:
    """Return the tree with the pairs of each `$dict` tag sorted. The tree was written before, so it is valid."""
    containers: list[Any] = [tree]
    for container in containers:
        values = container.values() if type(container) is dict else container
        containers += [value for value in values if type(value) in (dict, list)]
    done: dict[int, Any] = {}
    for container in reversed(containers):  # a container comes after all that it holds
        if type(container) is dict:
            copy: Any = {name: done.get(id(value), value) for name, value in container.items()}
            if len(copy) == 1 and _holds_pairs(copy.get("$dict")):
                copy = {"$dict": _in_order(copy["$dict"])}
        else:
            copy = [done.get(id(value), value) for value in container]
        done[id(container)] = copy
    return done[id(tree)]


def _holds_pairs(value: Any) -> bool:
    return type(value) is list and all(type(pair) is list and len(pair) == 2 for pair in value)


def _in_order(pairs: list[list[Any]]) -> list[list[Any]]:
    """Sort pairs by the canonical bytes of their keys; keys that look alike (two NaN) by those of their values."""
    keys = [(_write_canonical(key, None), b"") for key, _ in pairs]
    if len(set(keys)) < len(keys):
        keys = [(key, _write_canonical(pair[1], None)) for (key, _), pair in zip(keys, pairs, strict=True)]
    return [pairs[at] for at in sorted(range(len(pairs)), key=keys.__getitem__)]


def stored_bytes(tree: Tree, *, trusted: bool = False) -> bytes:
    """Return the tree as compact JSON that keeps the order of keys and the difference between 1 and 1.0.

    `trusted` skips the check of types. Use it for an unchanged tree from `parse_stored` or the codec.
    """
    if trusted or _find_odd_floats(tree) is not None:
        try:
            return orjson.dumps(tree, None, _STRICT)
        except orjson.JSONEncodeError:
            pass
    return _write(tree, canonical=False)


def parse_stored(data: bytes) -> Any:
    """Parse stored bytes whose hash was checked. For bytes of unknown origin use `read_strict`."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Damaged(f"stored bytes are not JSON (at character {error.pos})", code="not_json") from None


def plain_text(value: Any) -> tuple[bytes, OddFloats] | None:
    """Return the stored bytes of a plain tree without tags, and its odd floats.

    Return None for any other value, which the codec must encode, and for a tree too deep for orjson.
    """
    odd = _find_odd_floats(value)
    if odd is None:
        return None
    try:
        data = orjson.dumps(value, None, _STRICT)
    except orjson.JSONEncodeError:
        return None
    # In written JSON `{"$` occurs only where the first key of an object begins with `$`: strings escape the quote.
    # The search for the single character comes first: it is several times faster in a long text.
    if b"$" in data and b'{"$' in data:
        return None
    return data, odd


def canonical_of_plain(value: Any) -> bytes | None:
    """Return the canonical bytes of a plain tree in which no key and no text begins with `$`, else None.

    None means that the codec must encode the value.
    """
    odd = _find_odd_floats(value)
    if odd is None:
        return None
    try:
        data = orjson.dumps(_write_odd_floats(value, odd) if odd else value, None, _SORTED)
    except (orjson.JSONEncodeError, RecursionError):
        return None
    if (b"$" in data and b'"$' in data) or not (data.isascii() or _has_same_order(value, data)):
        return None
    return data


def _find_odd_floats(tree: Any) -> OddFloats | None:
    """Return the containers with odd floats, or None if a value is not plain.

    This loop is most of the cost of a digest; the order of its branches was measured. Keys, integers and surrogates are
    left to orjson, which refuses invalid ones itself.
    """
    odd: list[Any] = []
    todo: list[Any] = [(tree,)]
    push = todo.append
    for chunk in (islice(todo, _FEW), islice(todo, _FEW, None)):
        for container in chunk:
            for value in container.values() if type(container) is dict else container:
                kind = type(value)
                if kind is str:
                    continue
                if kind is dict or kind is list:
                    push(value)
                elif kind is int or value is None or kind is bool:
                    continue
                elif kind is float:
                    if value % 1.0 == 0.0 or -1e-4 < value < 1e-4:
                        odd.append(container)
                    elif value - value != 0.0:  # NaN and the infinities
                        return None
                else:
                    return None
        # A value that contains itself never ends: check for a cycle before reading many containers.
        if len(todo) <= _FEW:
            return odd
        if not _is_acyclic(tree):
            return None
    return odd


def _is_acyclic(tree: Any) -> bool:
    """Return True if the tree does not contain itself and is no deeper than MAX_DEPTH."""
    inside: list[Iterator[Any]] = [iter((tree,))]
    around: dict[int, None] = {}  # ids of the enclosing containers, outermost first
    while inside:
        for value in inside[-1]:
            kind = type(value)
            if kind is dict or kind is list:
                if id(value) in around or len(around) >= MAX_DEPTH:
                    return False
                around[id(value)] = None
                inside.append(iter(value.values() if kind is dict else value))
                break
        else:
            inside.pop()
            if around:
                around.popitem()
    return True


def _write_odd_floats(tree: Any, odd: list[Any]) -> Any:
    if type(tree) is float:
        return orjson.Fragment(ecmascript_number(tree))
    return _copy_with_text(tree, {id(container) for container in odd}, [len(odd)])


def _copy_with_text(value: Any, odd: set[int], left: list[int]) -> Any:
    """Return a copy of the container with odd floats as finished text, or the container itself if it has none.

    Direct members come first, and the search stops when `left` is 0: temperature and top_p are mostly found before the
    long list of messages. A container that occurs twice in the tree is counted twice and replaced twice.
    """
    copy: Any = None
    if id(value) in odd:
        for name, item in value.items() if type(value) is dict else enumerate(value):
            if type(item) is float and (item % 1.0 == 0.0 or -1e-4 < item < 1e-4):
                if copy is None:
                    copy = value.copy()
                copy[name] = orjson.Fragment(ecmascript_number(item))
                left[0] -= 1
    if left[0] <= 0:
        return value if copy is None else copy
    for name, item in value.items() if type(value) is dict else enumerate(value):
        kind = type(item)
        if kind is dict or kind is list:
            written = _copy_with_text(item, odd, left)
            if written is not item:
                if copy is None:
                    copy = value.copy()
                copy[name] = written
            if left[0] <= 0:
                break
    return value if copy is None else copy


def _has_same_order(tree: Any, data: bytes) -> bool:
    """Return True if code point order, which orjson uses, equals UTF-16 order for the keys of every object."""
    # The orders differ only between astral characters (UTF-8 leads F0-F4) and U+E000-U+FFFF (EE, EF).
    if not (b"\xee" in data or b"\xef" in data) or not any(lead in data for lead in _ASTRAL_LEADS):
        return True
    objects = []
    todo: list[Any] = [[tree]]
    push = todo.append
    for container in todo:
        items = container
        if type(container) is dict:
            objects.append(container)
            items = container.values()
        for item in items:
            kind = type(item)
            if kind is str:
                continue
            if kind is dict or kind is list:
                push(item)
    if "".join(chain.from_iterable(objects)).isascii():
        return True
    return all(sorted(each) == sorted(each, key=_encode_utf16) for each in objects)


def _encode_utf16(key: str) -> bytes:
    return key.encode("utf-16-be")


def ecmascript_number(value: float) -> str:
    """Return a finite float as ECMAScript's Number.prototype.toString writes it (RFC 8785, 3.2.2.3)."""
    if value == 0.0:
        return "0"
    if value % 1.0 == 0.0 and -(2.0**53) <= value <= 2.0**53:
        return str(int(value))
    text = repr(value)  # the shortest digits that read back: the same digits as in ECMAScript
    sign = "-" if text[0] == "-" else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = (whole + fraction).lstrip("0")
    # The value is 0.digits * 10**point; leading zeros of a fraction have moved the point.
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        body = digits + "0" * (point - len(digits))
    elif 0 < point <= 21:
        body = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        body = "0." + "0" * -point + digits
    else:
        power = point - 1
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        body = f"{digits[0]}{rest}e{'+' if power > 0 else '-'}{abs(power)}"
    return sign + body


# --- the slow writer: exact for every tree; names the path of what it refuses ---


def path_step(name: object) -> str:
    """Return one step of a JSON path. Keys from outside are escaped and cut, so that a message stays one short line."""
    if type(name) is int:
        return f"[{name}]"
    if type(name) is str:
        if name.isascii() and name.isidentifier() and len(name) <= 40:
            return f".{name}"
        escaped = name[:40].encode("ascii", "backslashreplace").decode()
        printable = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in escaped)
        return f'["{printable}{"…" if len(name) > 40 else ""}"]'
    return f"[key of type {type(name).__name__}]"


class _Frame:
    """A container that is being written: its remaining items and the current key or index."""

    __slots__ = ("close", "container", "items", "name")

    def __init__(self, container: Any, items: Iterator[tuple[Any, Any]], close: str) -> None:
        self.container = container
        self.items = items
        self.close = close
        self.name: object = None


def _write(tree: Any, *, canonical: bool) -> bytes:
    """Write without recursion. Refuse what is not a plain tree, and name its path."""
    parts: list[str] = []
    frames: list[_Frame] = []
    number = ecmascript_number if canonical else _write_stored_number

    def refuse(rule: str, code: str) -> NoReturn:
        path = "$" + "".join(path_step(frame.name) for frame in frames)
        raise InvalidValue(f"{path}: {rule}", code=code)

    def put(value: Any) -> None:
        kind_of = type(value)
        if kind_of is dict or kind_of is list:
            _open_container(value, frames, parts, canonical, refuse)
        else:
            parts.append(_write_scalar(value, number, refuse))

    put(tree)
    while frames:
        frame = frames[-1]
        step = next(frame.items, None)
        if step is None:
            frames.pop()
            parts.append(frame.close)
            continue
        if frame.name is not None:
            parts.append(",")
        frame.name = step[0]
        if frame.close == "}":
            parts.append(_write_text(step[0], refuse) + ":")
        put(step[1])
    return "".join(parts).encode()


def _open_container(
    value: Any, frames: list[_Frame], parts: list[str], canonical: bool, refuse: Callable[[str, str], NoReturn]
) -> None:
    if any(frame.container is value for frame in frames):
        refuse("the value contains itself", "cycle")
    if len(frames) >= MAX_DEPTH:
        refuse(f"nested deeper than {MAX_DEPTH}", "too_deep")
    if type(value) is list:
        parts.append("[")
        frames.append(_Frame(value, iter(enumerate(value)), "]"))
        return
    for key in value:
        if type(key) is not str:
            refuse(f"a key of type {type(key).__name__}, where only text can be written", "key_not_text")
    try:
        items = sorted(value.items(), key=lambda item: _encode_utf16(item[0])) if canonical else value.items()
    except UnicodeEncodeError:
        refuse("a key holds a lone surrogate", "lone_surrogate")
    parts.append("{")
    frames.append(_Frame(value, iter(items), "}"))


def _write_scalar(value: Any, number: Callable[[float], str], refuse: Callable[[str, str], NoReturn]) -> str:
    kind_of = type(value)
    if kind_of is str:
        return _write_text(value, refuse)
    if value is None:
        return "null"
    if kind_of is bool:
        return "true" if value else "false"
    if kind_of is int:
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            refuse("an integer beyond ±(2^53−1)", "integer_too_large")
        return str(value)
    if kind_of is float:
        if value - value != 0.0:
            refuse("NaN or an infinity", "nan")
        return number(value)
    refuse(f"a value of type {kind_of.__name__}, which JSON does not have", "not_json_type")


def _write_text(value: str, refuse: Callable[[str, str], NoReturn]) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        refuse("text with a lone surrogate", "lone_surrogate")


def _write_stored_number(value: float) -> str:
    return orjson.dumps(value).decode()
