"""Reading hostile JSON: one verdict, in linear time, with a code and a place."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.chance import examples
from onrecord.core import strict_json
from onrecord.core.strict_json import read_strict
from onrecord.errors import InvalidValue

LONG = b"1" + b"0" * 400  # valid, but more than a float holds: leaves the fast way

A_HANG_SECONDS = 60
"""What is quadratic or recursive takes minutes or never ends; how long the rest takes is not a test's business."""

REFUSED: dict[str, tuple[bytes, str]] = {
    "duplicate key": (b'{"a":1,"b":[{"x":1,"x":1}]}', "duplicate_key"),
    "duplicate key, escaped": (b'{"a":1,"\\u0061":2}', "duplicate_key"),
    "NaN": (b"[NaN]", "nan"),
    "Infinity": (b'{"a":Infinity}', "nan"),
    "-Infinity": (b"-Infinity", "nan"),
    "NaN after a long number": (b"[" + LONG + b",NaN]", "nan"),
    "1e400": (b"[1e400]", "number_overflow"),
    "-1e400": (b"[-1e400]", "number_overflow"),
    "10^6 digits": (b"9" * 10**6, "number_too_long"),
    "4301 digits": (b"9" * 4301, "number_too_long"),
    "10^6 decimals": (b"0." + b"1" * 10**6, "number_too_long"),
    "lone surrogate": (b'"\\ud800"', "lone_surrogate"),
    "lone surrogate in a key": (b'{"\\udc00":1}', "lone_surrogate"),
    "lone surrogate after a long number": (b"[" + LONG + b',"\\uD800\\u0041"]', "lone_surrogate"),
    "surrogate as UTF-8": (b'"\xed\xa0\x80"', "not_utf8"),
    "overlong": (b'"\xc0\xaf"', "not_utf8"),
    "latin 1": (b'"\xe9"', "not_utf8"),
    "BOM": (b"\xef\xbb\xbf{}", "bom"),
    "UTF-16": ("{}".encode("utf-16"), "bom"),
    "trailing": (b"{} x", "trailing_bytes"),
    "two values": (b"1 2", "trailing_bytes"),
    "trailing after a long number": (LONG + b" 1", "trailing_bytes"),
    "empty": (b"", "syntax"),
    "space": (b" \n", "syntax"),
    "comma": (b"[1,]", "syntax"),
    "raw control character": (b'"a\nb"', "syntax"),
    "single quotes": (b"{'a':1}", "syntax"),
    "comment": (b"/**/1", "syntax"),
    "leading zero": (b"01", "syntax"),
    "syntax after a long number": (b"[" + LONG + b",}", "syntax"),
    "100,000 open": (b"[" * 100_000, "too_deep"),
    "100,000 objects": (b'{"a":' * 100_000, "too_deep"),
    "1001 deep": (b"[" * 1001 + b"]" * 1001, "too_deep"),
    "1001 deep, with space": (b"[ " * 1001 + b"]" * 1001, "too_deep"),
    "deep after a long number": (b"[" + LONG + b"," + b"[" * 100_000, "too_deep"),
}


@pytest.mark.parametrize(("data", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_with_a_code_and_without_hanging(data: bytes, code: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidValue) as caught:
        read_strict(data)
    assert time.process_time() - started < A_HANG_SECONDS
    assert caught.value.code == code
    assert len(str(caught.value)) < 200


def test_a_duplicate_names_key_and_offset() -> None:
    with pytest.raises(InvalidValue, match=r"the key \.x occurs twice at byte 14"):
        read_strict('{"é":[{"x":1,"x":2}]}'.encode())


def test_a_duplicate_in_a_large_text_names_the_key() -> None:
    data = b'[{"x":1,"x":2},"' + b"a" * 2_000_000 + b'"]'
    with pytest.raises(InvalidValue, match=r"key \.x occurs twice") as caught:
        read_strict(data)
    assert caught.value.code == "duplicate_key"


def test_sizes_are_refused_before_anything_is_read() -> None:
    with pytest.raises(InvalidValue) as caught:
        read_strict(b"[1,2,3]", max_bytes=6)
    assert caught.value.code == "too_large"
    assert read_strict(b"[1,2,3]", max_bytes=7) == [1, 2, 3]


@pytest.mark.parametrize("depth", [1, 5, 255, 300, 600, 999, 1000])
def test_depth_is_counted_exactly(depth: int) -> None:
    for data in (b"[" * depth + b"]" * depth, b'{"a": ' * depth + b"1" + b"}" * depth):
        read_strict(data)
        read_strict(data, max_depth=depth)
        with pytest.raises(InvalidValue) as caught:
            read_strict(data, max_depth=depth - 1)
        assert caught.value.code == "too_deep"


def test_numbers_keep_their_kind() -> None:
    tree = read_strict(b"[1, 1.0, 1E2, -0, -0.0, 12345678901234567890123, 1e-400, 18446744073709551616]")
    assert repr(tree) == "[1, 1.0, 100.0, 0, -0.0, 12345678901234567890123, 0.0, 18446744073709551616]"
    assert read_strict(b"-" + b"9" * 4300) == 1 - 10**4300
    assert read_strict(b"[18446744073709551615]") == [2**64 - 1]


def test_escapes_that_only_look_like_surrogates() -> None:
    assert read_strict(b'["\\\\ud800", "\\ud83d\\ude00", 1]') == ["\\ud800", "\U0001f600", 1]


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    ),
    max_leaves=15,
)


@settings(max_examples=examples(400))
@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_every_way_reads_what_json_wrote(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    loop = strict_json._LoopParser(text, 1000, strict_json._Numbers(4300))
    assert repr(read_strict(text.encode())) == repr(loop.read()) == repr(value)


@settings(max_examples=examples(600))
@given(st.text(st.sampled_from('[]{},:"\\u0d8a1.eE+- \ntruefalsn'), max_size=25))
def test_the_loop_and_the_fast_way_judge_alike(text: str) -> None:
    def verdict(read: Any) -> str:
        try:
            return repr(read())
        except InvalidValue:
            return "refused"

    loop = strict_json._LoopParser(text, 1000, strict_json._Numbers(4300))
    if "\\u" not in text:  # lone surrogates are judged before the loop
        assert verdict(lambda: read_strict(text.encode())) == verdict(loop.read)


@settings(max_examples=examples(400))
@given(st.binary(max_size=30))
def test_any_bytes_give_a_tree_or_a_refusal(data: bytes) -> None:
    with contextlib.suppress(InvalidValue):
        read_strict(data)


def test_no_input_of_moderate_size_hangs() -> None:
    def seconds(data: bytes) -> float:
        started = time.process_time()
        with contextlib.suppress(InvalidValue):
            read_strict(data)
        return time.process_time() - started

    for unit in (b'"' + b"\\n" * 1000, b"[1, " * 900, b'{"a":1, "b":2, ', b'["\\u00e9", '):
        large = b"[" + b'"x", ' * 10 + unit * 200
        assert seconds(large) < A_HANG_SECONDS
    assert seconds(b"[" + b'{"k": 1}, ' * 100_000 + b"0]") < A_HANG_SECONDS
