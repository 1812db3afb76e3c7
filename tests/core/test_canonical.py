"""The canonical and stored forms: equal to the definition, and refusing by path what they cannot hold."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import math
import sys
import uuid
from decimal import Decimal
from typing import Any

import orjson
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.chance import examples
from onrecord.core import canonical
from onrecord.core.canonical import canonical_bytes, ecmascript_number, parse_stored, stored_bytes
from onrecord.errors import Damaged, InvalidValue

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# Keys from both sides of the surrogates, where UTF-16 order and code point order part.
ODD_KEYS = st.text(st.sampled_from("aé\ue000\ufb33\uffff\U00010000\U0001f600"), max_size=3)
NUMBERS = st.one_of(
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**70), 2**70).map(float),
    st.sampled_from([0.0, -0.0, 1.0, 1e16, 1e21, 1e-5, 1e-6, 1e-7, 5e-324, 0.1, 1.5e300]),
)
TREES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(st.one_of(TEXT, ODD_KEYS), inner, max_size=5)),
    max_leaves=20,
)


@settings(max_examples=examples(800))
@given(TREES)
def test_canonical_bytes_are_those_of_the_definition(tree: Any) -> None:
    assert canonical_bytes(tree) == rfc8785.dumps(tree)


@settings(max_examples=examples(300))
@given(TREES)
def test_the_slow_writer_agrees_with_the_fast_one(tree: Any) -> None:
    assert canonical._write(tree, canonical=True) == canonical_bytes(tree)
    assert canonical._write(tree, canonical=False) == stored_bytes(tree) == stored_bytes(tree, trusted=True)


@settings(max_examples=examples(500))
@given(TREES)
def test_stored_bytes_keep_what_repr_shows(tree: Any) -> None:
    read = parse_stored(stored_bytes(tree))
    assert repr(read) == repr(tree)  # order of keys, 1 and 1.0, -0.0
    assert b"\n" not in stored_bytes(tree)


@settings(max_examples=examples(300))
@given(TREES)
def test_writing_leaves_the_tree_alone(tree: Any) -> None:
    before = repr(tree)
    canonical_bytes(tree)
    assert repr(tree) == before


def test_keys_sort_by_utf16_units() -> None:
    tree = {"\ufb33": 1, "\U0001f600": 2, "é": 3, "a": 4}
    assert canonical_bytes(tree) == '{"a":4,"é":3,"😀":2,"\ufb33":1}'.encode()
    assert canonical_bytes([{"x": [tree]}]) == rfc8785.dumps([{"x": [tree]}])


def test_numbers_have_one_form() -> None:
    assert canonical_bytes([-0.0, 1.0, 1e2, 1, 1e21, 1e-7, 123456789012345680000.0]) == (
        b"[0,1,100,1,1e+21,1e-7,123456789012345680000]"
    )
    assert stored_bytes([-0.0, 1.0, 1, 1e16]) == b"[-0.0,1.0,1,1e+16]"
    assert ecmascript_number(-1.5e-10) == "-1.5e-10"


def test_nfc_and_nfd_stay_two_values() -> None:
    tree = {"\u00e9": "\u00e9", "e\u0301": "e\u0301"}
    assert canonical_bytes(tree) == rfc8785.dumps(tree)
    assert parse_stored(stored_bytes(tree)) == tree
    assert len(parse_stored(canonical_bytes(tree))) == 2


@pytest.mark.parametrize("key", ["", "__proto__", "constructor", "\0", "\x1f\t\n", '"\\'])
def test_awkward_keys_are_plain_data(key: str) -> None:
    assert parse_stored(canonical_bytes({key: key})) == {key: key}


class Text(str):
    pass


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Point:
    x: int


REFUSED = {
    "NaN": (math.nan, "nan"),
    "infinity": (math.inf, "nan"),
    "-infinity": (-math.inf, "nan"),
    "lone surrogate": ("a\ud800", "lone_surrogate"),
    "2**53": (2**53, "integer_too_large"),
    "-2**53": (-(2**53), "integer_too_large"),
    "huge": (10**10_000, "integer_too_large"),
    "tuple": ((1,), "not_json_type"),
    "set": ({1}, "not_json_type"),
    "bytes": (b"x", "not_json_type"),
    "datetime": (datetime.datetime(2024, 1, 1), "not_json_type"),
    "uuid": (uuid.UUID(int=1), "not_json_type"),
    "Decimal": (Decimal(1), "not_json_type"),
    "enum": (Level.LOW, "not_json_type"),
    "str subclass": (Text("secret"), "not_json_type"),
    "dataclass": (Point(1), "not_json_type"),
    "fragment": (orjson.Fragment(b"1"), "not_json_type"),
    "object": (object(), "not_json_type"),
}


@pytest.mark.parametrize("write", [canonical_bytes, stored_bytes])
@pytest.mark.parametrize(("value", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_plain_is_refused_by_path(value: Any, code: str, write: Any) -> None:
    tree = {"messages": [{}, {}, {}, {"content": "fine", "other": {"a key": value}}]}
    with pytest.raises(InvalidValue) as caught:
        write(tree)
    assert caught.value.code == code
    assert str(caught.value).startswith('$.messages[3].other["a key"]: ')
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("write", [canonical_bytes, stored_bytes])
@pytest.mark.parametrize(
    ("key", "code"),
    [(1, "key_not_text"), (None, "key_not_text"), (Text("k"), "key_not_text"), ("\udc00", "lone_surrogate")],
)
def test_odd_keys_are_refused_by_path(key: Any, code: str, write: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        write({"a": [{key: 1, "1": 2}]})
    assert caught.value.code == code
    assert str(caught.value).startswith("$.a[0]")


@pytest.mark.parametrize("write", [canonical_bytes, stored_bytes])
def test_cycles_are_refused(write: Any) -> None:
    ring: list[Any] = [1]
    ring.append({"again": ring, "more": ring})
    with pytest.raises(InvalidValue, match="contains itself") as caught:
        write({"ring": ring})
    assert caught.value.code == "cycle"


@pytest.mark.parametrize("write", [canonical_bytes, stored_bytes])
def test_cycles_of_many_containers_end_too(write: Any) -> None:
    wide: dict[str, Any] = {str(i): {"x": [i]} for i in range(10_000)}
    assert write(wide) == write(parse_stored(stored_bytes(wide)))
    wide["again"] = {"a": wide, "b": wide}
    with pytest.raises(InvalidValue, match="contains itself") as caught:
        write(wide)
    assert str(caught.value).startswith("$.again.")


def test_nested_tuples_are_refused_before_they_reach_orjson() -> None:
    value: Any = 1  # orjson does not bound their depth: this many of them end the process
    for _ in range(100_000):
        value = (value,)
    for write in (canonical_bytes, stored_bytes):
        with pytest.raises(InvalidValue, match="a value of type tuple"):
            write(value)


def nested(depth: int) -> Any:
    tree: Any = 1.0
    for level in range(depth):
        tree = [tree] if level % 2 else {"k": tree}
    return tree


def test_the_same_list_twice_is_no_cycle() -> None:
    shared = [1.0]
    assert canonical_bytes([shared, shared]) == b"[[1],[1]]"


@pytest.mark.parametrize("depth", [253, 254, 255, 256, 999, 1000])
def test_nesting_up_to_the_limit_is_written(depth: int) -> None:
    tree = nested(depth)
    assert canonical_bytes(tree).count(b"[") == depth // 2
    assert b"1.0" in stored_bytes(tree)
    assert b"1.0" not in canonical_bytes(tree)
    assert canonical_bytes(parse_stored(stored_bytes(tree))) == canonical_bytes(tree)


@pytest.mark.parametrize("depth", [1001, 5000, 100_000])
def test_nesting_beyond_the_limit_is_refused(depth: int) -> None:
    for write in (canonical_bytes, stored_bytes):
        with pytest.raises(InvalidValue, match="nested deeper") as caught:
            write(nested(depth))
        assert caught.value.code == "too_deep"


def test_a_nearly_full_stack_changes_nothing() -> None:
    tree = nested(250)
    expected = canonical_bytes(tree)

    def down(levels: int) -> bytes:
        return canonical_bytes(tree) if levels == 0 else down(levels - 1)

    used = len(_frames())
    assert down(sys.getrecursionlimit() - used - 60) == expected


def _frames() -> list[Any]:
    found, frame = [], sys._getframe()
    while frame:
        found.append(frame)
        frame = frame.f_back  # type: ignore[assignment]
    return found


def test_a_message_is_one_short_line_whatever_the_key() -> None:
    with pytest.raises(InvalidValue) as caught:
        canonical_bytes({"\x1b[31m\n" + "k" * 10_000: math.nan})
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("data", [b"", b"{", b"nonsense", b"\xff"])
def test_stored_bytes_that_are_not_json_are_damage(data: bytes) -> None:
    with pytest.raises(Damaged) as caught:
        parse_stored(data)
    assert caught.value.code == "not_json"
