"""Vectors that others made: RFC 8785's own, 100,000 ECMAScript numbers, JSONTestSuite, naughty strings."""

from __future__ import annotations

import dataclasses
import gzip
import json
import struct
from pathlib import Path
from typing import Any

import orjson
import pytest

from onrecord.core.canonical import canonical_bytes, ecmascript_number, parse_stored, stored_bytes
from onrecord.core.codec import decode, encode
from onrecord.core.strict_json import read_strict
from onrecord.errors import InvalidValue

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
VERDICTS = ROOT / "docs" / "reference" / "json.md"


def folder(*names: str) -> Path:
    found = DATA.joinpath(*names)
    if not found.exists():
        pytest.skip(f"test data is missing: {found}")
    return found


def names(*parts: str) -> list[str]:
    """File names at collection time; one placeholder when the folder is missing, so that its test shows as skipped."""
    found = DATA.joinpath(*parts)
    return sorted(path.name for path in found.iterdir()) if found.exists() else ["missing"]


# --- RFC 8785 ---


@pytest.mark.parametrize("name", names("rfc8785", "testdata", "input"))
def test_rfc8785_vector(name: str) -> None:
    inputs = folder("rfc8785", "testdata", "input")
    expected = (folder("rfc8785", "testdata", "output") / name).read_bytes()
    outhex = (folder("rfc8785", "testdata", "outhex") / name).with_suffix(".txt").read_text()
    assert canonical_bytes(read_strict((inputs / name).read_bytes())) == expected == bytes.fromhex(outhex)


def test_rfc8785_has_six_vectors() -> None:
    assert len(list(folder("rfc8785", "testdata", "input").iterdir())) == 6


def test_100_000_ecmascript_numbers() -> None:
    count = 0
    with gzip.open(folder("rfc8785", "es6-numbers-100k.txt.gz"), "rt", encoding="ascii") as lines:
        for line in lines:
            bits, expected = line.rstrip("\n").split(",")
            (value,) = struct.unpack(">d", bytes.fromhex(bits.zfill(16)))
            assert canonical_bytes(value) == expected.encode(), bits
            assert ecmascript_number(value) == expected, bits
            assert orjson.loads(stored_bytes([value]))[0] == value, bits
            count += 1
    assert count == 100_000


# --- JSONTestSuite ---

# Where the suite leaves the choice to us, and the two files that it accepts and we do not.
ACCEPTED = {
    "i_number_double_huge_neg_exp.json": "underflows to 0.0, as every float reader does",
    "i_number_real_underflow.json": "underflows to 0.0",
    "i_number_too_big_neg_int.json": "kept exactly as an integer",
    "i_number_too_big_pos_int.json": "kept exactly as an integer",
    "i_number_very_big_negative_int.json": "kept exactly as an integer",
    "i_structure_500_nested_arrays.json": "within 1,000 levels",
}
REFUSED = {
    "i_number_huge_exp.json": "number_overflow",
    "i_number_neg_int_huge_exp.json": "number_overflow",
    "i_number_pos_double_huge_exp.json": "number_overflow",
    "i_number_real_neg_overflow.json": "number_overflow",
    "i_number_real_pos_overflow.json": "number_overflow",
    "i_object_key_lone_2nd_surrogate.json": "lone_surrogate",
    "i_string_1st_surrogate_but_2nd_missing.json": "lone_surrogate",
    "i_string_1st_valid_surrogate_2nd_invalid.json": "lone_surrogate",
    "i_string_UTF-16LE_with_BOM.json": "bom",
    "i_string_UTF-8_invalid_sequence.json": "not_utf8",
    "i_string_UTF8_surrogate_U+D800.json": "not_utf8",
    "i_string_incomplete_surrogate_and_escape_valid.json": "lone_surrogate",
    "i_string_incomplete_surrogate_pair.json": "lone_surrogate",
    "i_string_incomplete_surrogates_escape_valid.json": "lone_surrogate",
    "i_string_invalid_lonely_surrogate.json": "lone_surrogate",
    "i_string_invalid_surrogate.json": "lone_surrogate",
    "i_string_invalid_utf-8.json": "not_utf8",
    "i_string_inverted_surrogates_U+1D11E.json": "lone_surrogate",
    "i_string_iso_latin_1.json": "not_utf8",
    "i_string_lone_second_surrogate.json": "lone_surrogate",
    "i_string_lone_utf8_continuation_byte.json": "not_utf8",
    "i_string_not_in_unicode_range.json": "not_utf8",
    "i_string_overlong_sequence_2_bytes.json": "not_utf8",
    "i_string_overlong_sequence_6_bytes.json": "not_utf8",
    "i_string_overlong_sequence_6_bytes_null.json": "not_utf8",
    "i_string_truncated-utf-8.json": "not_utf8",
    "i_string_utf16BE_no_BOM.json": "not_utf8",
    "i_string_utf16LE_no_BOM.json": "not_utf8",
    "i_structure_UTF-8_BOM_empty_object.json": "bom",
    "y_object_duplicated_key.json": "duplicate_key",
    "y_object_duplicated_key_and_value.json": "duplicate_key",
}


def verdict(data: bytes) -> str:
    try:
        read_strict(data)
    except InvalidValue as refusal:
        return refusal.code
    return "accepted"


@pytest.mark.parametrize("name", names("jsontestsuite", "test_parsing"))
def test_jsontestsuite_file(name: str) -> None:
    found = verdict((folder("jsontestsuite", "test_parsing") / name).read_bytes())
    if name in REFUSED:
        assert found == REFUSED[name]
    elif name.startswith("n_"):
        assert found != "accepted"
    else:
        assert name.startswith("y_") or name in ACCEPTED, "a file without a verdict"
        assert found == "accepted"


def test_jsontestsuite_is_whole_and_judged() -> None:
    found = {path.name for path in folder("jsontestsuite", "test_parsing").iterdir()}
    assert len(found) == 318
    assert {name for name in found if name.startswith("i_")} <= ACCEPTED.keys() | REFUSED.keys()
    assert ACCEPTED.keys() | REFUSED.keys() <= found


def test_the_documented_verdicts_are_these() -> None:
    rows = [line.split("|")[1:-1] for line in VERDICTS.read_text().splitlines() if line.startswith("| `")]
    documented = {row[0].strip(" `"): (row[1].strip(), row[2].strip(" `")) for row in rows}
    expected = {name: ("accepted", reason) for name, reason in ACCEPTED.items()}
    expected |= {name: ("refused", code) for name, code in REFUSED.items()}
    assert documented == expected


# --- naughty strings ---


@dataclasses.dataclass(frozen=True)
class Holder:
    text: str
    more: tuple[str, ...]


def naughty() -> list[str]:
    strings: list[str] = json.loads((folder("naughty-strings") / "blns.json").read_text("utf-8"))
    assert len(strings) > 500
    return strings


def through(value: Any) -> Any:
    encoded = encode(value)
    assert encoded.replayable
    return decode(parse_stored(stored_bytes(encoded.tree)), loaded_classes=True)


def test_naughty_strings_come_back_as_values_and_keys() -> None:
    for text in naughty():
        for value in (text, {text: text}, [text], {text: [text, {text: None}]}):
            assert through(value) == value
            assert read_strict(canonical_bytes(encode(value).tree)) == encode(value).tree


def test_naughty_strings_come_back_from_within_other_values() -> None:
    for text in naughty():
        data = text.encode()
        for value in ((text,), data, bytearray(data), {data: text}, {text}, Holder(text, (text,)), {(text,): text}):
            found = through(value)
            assert found == value
            assert type(found) is type(value)


def test_naughty_strings_come_back_with_a_lone_surrogate_added() -> None:
    for text in naughty():
        odd = "\ud800" + text
        assert through({odd: [odd, (odd,)], text: 1}) == {odd: [odd, (odd,)], text: 1}
