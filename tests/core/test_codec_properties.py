"""The codec over generated values: nothing is lost, and what is seen after the first decoding never changes again."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections import Counter, OrderedDict, deque
from pathlib import PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

from codec_examples import (
    AppError,
    Colour,
    Crate,
    Level,
    Line,
    Number,
    Packet,
    Pair,
    Person,
    Receipt,
    Right,
    Table,
    Text,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.chance import examples
from onrecord.core.canonical import canonical_bytes, parse_stored, stored_bytes
from onrecord.core.codec import decode, encode
from onrecord.core.strict_json import read_strict
from onrecord.errors import Damaged

ANY_TEXT = st.text(st.characters(), max_size=8)  # lone surrogates included
KEYS = st.one_of(ANY_TEXT, st.sampled_from(["$", "$ref", "$$ref", "$tuple", "$object"]))
ZONES = st.sampled_from([None, dt.UTC, dt.timezone(dt.timedelta(hours=2), "T"), ZoneInfo("Europe/Paris")])
FOLDS = st.sampled_from([0, 1])
HASHABLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.complex_numbers(allow_nan=False),
    ANY_TEXT,
    st.binary(max_size=8),
    st.datetimes(timezones=ZONES).flatmap(lambda when: FOLDS.map(lambda fold: when.replace(fold=fold))),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.fractions(),
    st.uuids(),
    ANY_TEXT.map(lambda text: PurePosixPath("/x" + text.replace("\0", ""))),
    st.sampled_from([*Colour, *Level, *Right, Right.READ | Right.WRITE]),
    st.builds(range, st.integers(-9, 9), st.integers(-9, 9)),
    ANY_TEXT.map(Text),
    st.integers().map(Number),
    ANY_TEXT.map(Line),
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        st.dictionaries(HASHABLE, inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=3).map(OrderedDict),
        st.dictionaries(HASHABLE, inner, max_size=3).map(Table),
        st.sets(HASHABLE, max_size=4),
        st.frozensets(HASHABLE, max_size=4),
        lists.map(deque),
        st.lists(HASHABLE, max_size=4).map(Counter),
        st.builds(Pair, inner, inner),
        st.builds(Receipt, st.integers(), lists),
        st.builds(Crate, st.integers(), lists),
        st.builds(Packet, st.integers(), inner),
        st.builds(lambda name, extra: Person(name=name, extra=extra), st.text(max_size=3), inner),
        st.binary(max_size=8).map(bytearray),
    )


VALUES = st.recursive(HASHABLE, containers, max_leaves=12)


def types_of(value: Any) -> Any:
    """The type of a value and of all inside it that equality does not tell apart."""
    if isinstance(value, dict):
        return (type(value), [(types_of(key), types_of(item)) for key, item in value.items()])
    if isinstance(value, list | tuple | deque):
        return (type(value), [types_of(item) for item in value])
    return type(value)


@settings(max_examples=examples(700))
@given(VALUES)
def test_decoding_gives_the_value_and_its_types_again(value: Any) -> None:
    encoded = encode(value)
    found = decode(parse_stored(stored_bytes(encoded.tree)), loaded_classes=True)
    assert encoded.replayable
    assert found == value
    assert types_of(found) == types_of(value)


@settings(max_examples=examples(700))
@given(VALUES, st.booleans())
def test_what_is_seen_is_stable_from_the_first_decoding_on(value: Any, loaded: bool) -> None:
    tree = encode(value).tree
    once = decode(tree, loaded_classes=loaded)
    again = encode(once)
    assert again.tree == tree
    assert stored_bytes(again.tree) == stored_bytes(tree)
    assert repr(decode(again.tree, loaded_classes=loaded)) == repr(once)


@settings(max_examples=examples(300))
@given(VALUES)
def test_an_encoded_value_can_always_be_written_and_read(value: Any) -> None:
    tree = encode(value).tree
    assert read_strict(stored_bytes(tree)) == tree
    assert canonical_bytes(read_strict(stored_bytes(tree))) == canonical_bytes(tree)


@settings(max_examples=examples(200))
@given(VALUES, st.integers())
def test_errors_carry_any_value(value: Any, code: int) -> None:
    found = decode(encode(AppError(code, detail=value)).tree, loaded_classes=True)
    assert type(found) is AppError
    assert (found.code, found.detail) == (code, value)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), ANY_TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
TAGS = st.sampled_from(
    ["$int", "$bytes", "$tuple", "$set", "$dict", "$datetime", "$zone", "$enum", "$object", "$error", "$json", "$path"]
)
LABELS = st.sampled_from(
    ["codec_examples:Line", "codec_examples:Colour", "builtins:OSError", "builtins:BaseExceptionGroup"]
)
MEMBERS = ("form", "fields", "args", "attributes", "cause", "members", "value", "name")
HOSTILE = st.recursive(
    st.one_of(JSON, LABELS),
    lambda inner: st.one_of(
        st.builds(lambda tag, content: {tag: content}, TAGS, inner),
        st.fixed_dictionaries({"type": LABELS}, optional=dict.fromkeys(MEMBERS, inner)),
        st.lists(inner, max_size=3),
    ),
    max_leaves=8,
)


@settings(max_examples=examples(700))
@given(HOSTILE)
def test_any_tree_is_decoded_or_refused_as_damage(tree: Any) -> None:
    for loaded in (False, True):
        with contextlib.suppress(Damaged):
            decode(tree, loaded_classes=loaded)
