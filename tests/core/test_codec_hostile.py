"""Decoding what a stranger wrote: a value or `Damaged`, and soon."""

from __future__ import annotations

import time
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.chance import examples
from onrecord.core.codec import Registry, decode, encode
from onrecord.errors import Damaged

DIGEST = "sha256:" + "0" * 64
# One of every row of docs/format.md, section 3.1, and what stands inside.
TAGS: dict[str, Any] = {
    "$int": "9" * 20,
    "$float": "nan",
    "$complex": [1.0, {"$float": "inf"}],
    "$text": "7aCA",
    "$bytes": "AAA=",
    "$bytearray": "AAA=",
    "$artifact": {"digest": DIGEST, "size": 3, "type": "bytes"},
    "$tuple": [1],
    "$set": [1],
    "$frozenset": [1],
    "$dict": [[1, 2]],
    "$datetime": ["2025-01-01T00:00:00", {"zone": "Europe/Paris", "fold": 0}],
    "$date": "2025-01-01",
    "$time": ["10:00:00", {"zone": None, "fold": 1}],
    "$timedelta": [1, 2, 3],
    "$zone": {"offset": [0, 3600, 0], "name": "x"},
    "$decimal": "1.5",
    "$fraction": [1, 2],
    "$uuid": "12345678123456781234567812345678",
    "$path": ["PurePosixPath", "a"],
    "$range": [0, 1, 1],
    "$enum": {"type": "m:E", "name": "A", "value": 1},
    "$object": {"type": "types:SimpleNamespace", "form": "registered", "fields": {"value": {"a": 1}}},
    "$error": {
        "type": "builtins:ValueError",
        "message": "m",
        "args": [1],
        "attributes": {"a": 1},
        "cause": {"$error": {"type": "builtins:KeyError"}},
        "context": None,
        "suppress_context": True,
        "notes": ["n"],
        "members": [],
        "bases": ["builtins:Exception"],
    },
    "$opaque": {"type": "m:T", "note": "n"},
    "$json": {"style": "compact", "value": {"a": 1}},
    "$secret": {"kind": "k", "seq": 1, "ordinal": 1},
    "$erased": {},
    "$node": DIGEST,
    "$list": [DIGEST],
    "$string": [DIGEST],
}
LABELS = [
    "types:SimpleNamespace",
    "builtins:ExceptionGroup",
    "builtins:OSError",
    "builtins:UnicodeDecodeError",
    "collections:deque",
    "collections:defaultdict",
    "collections:OrderedDict",
    "collections:Counter",
]
FORMS = ["registered", "subclass", "dataclass", "pydantic", "attrs", "namedtuple", "msgspec"]

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from([*LABELS, *FORMS, "bytes", "compact", "indent2", "sNaN", "1E+999999999", DIGEST, "value", "$set"])
    | st.sampled_from([{name: content} for name, content in TAGS.items()])
)
names = st.sampled_from(
    ["type", "form", "fields", "value", "name", "style", "bytes", "args", "zone", "fold", "offset", "maxlen", "notes"]
) | st.text(max_size=5)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(names, inner, max_size=4)
        | st.builds(lambda tag, content: {tag: content}, st.sampled_from(list(TAGS)), inner)
    ),
    max_leaves=12,
)


@st.composite
def damaged_tags(draw: st.DrawFn) -> Any:
    """A tag with something else inside, or with one part of it replaced."""
    tag = draw(st.sampled_from(list(TAGS)))
    content = TAGS[tag]
    if not content or type(content) is str or draw(st.booleans()):
        return {tag: draw(trees)}
    if type(content) is list:
        at = draw(st.integers(0, len(content) - 1))
        return {tag: [*content[:at], draw(trees), *content[at + 1 :]]}
    members = {**content, draw(st.sampled_from(list(content)) | names): draw(trees)}
    if "type" in members and draw(st.booleans()):
        members["type"] = draw(st.sampled_from(LABELS))
    return {tag: members}


@settings(max_examples=examples(1500))
@given(damaged_tags(), st.booleans(), st.booleans())
def test_a_tag_with_anything_inside_is_decoded_or_refused_as_damage(tree: Any, loaded: bool, artifacts: bool) -> None:
    with suppress(Damaged):
        decode(tree, loaded_classes=loaded, artifact=(lambda _: b"abc") if artifacts else None)


@pytest.mark.parametrize("tag", TAGS)
def test_the_examples_are_well_formed(tag: str) -> None:
    decode({tag: TAGS[tag]})


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_strangers_integer_has_at_most_4300_digits(sign: str) -> None:
    assert decode({"$int": sign + "9" * 4300}) == int(sign + "9" * 4300)
    began = time.process_time()
    for digits in (4301, 10**6):
        with pytest.raises(Damaged, match=r"\$int holds .* digits, the limit is 4,300"):
            decode([{"$int": sign + "9" * digits}])
    assert time.process_time() - began < 1


def test_ones_own_integer_may_be_longer() -> None:
    value = 7**12_000
    assert decode(encode(value).tree, loaded_classes=True) == value


def nested_json(levels: int) -> Any:
    tree: Any = ['"']
    for _ in range(levels):
        tree = [{"$json": {"style": "compact", "value": tree}}]
    return tree


def test_text_in_text_has_an_end() -> None:
    assert type(decode(nested_json(8))[0]) is str
    assert len(decode([nested_json(8)] * 3)) == 3  # beside one another they do not count
    began = time.process_time()
    for levels in (9, 40, 300):
        with pytest.raises(Damaged, match=r"\$json is nested in itself more than 8 times"):
            decode(nested_json(levels))
    assert time.process_time() - began < 1


def test_text_from_little_data_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("onrecord.core.codec.decode"), "MAX_JSON_CHARACTERS", 10_000)
    tree: Any = [1] * 100
    for _ in range(100):
        tree = [tree]
    with pytest.raises(Damaged, match=r"\$json"):
        decode({"$json": {"style": "indent2", "value": tree}})
    one = {"$json": {"style": "compact", "value": ["x" * 4000]}}
    assert len(decode([one, one])) == 2
    with pytest.raises(Damaged, match=r"\$json"):
        decode([one, one, one])


@pytest.mark.parametrize("value", [3, None, [1], "text", {"$dict": [[1, 2]]}])
def test_data_that_a_registered_type_cannot_take(value: Any) -> None:
    tree = {"$object": {"type": "types:SimpleNamespace", "form": "registered", "fields": {"value": value}}}
    with pytest.raises(Damaged, match=r"\$object .* types:SimpleNamespace"):
        decode(tree)


def test_any_failure_of_a_registered_function_is_damage() -> None:
    class Failure(Exception):
        pass

    def fail(data: Any) -> Any:
        raise Failure("quotes the data")

    registry = Registry()
    registry.register_type(Failure, "failing", lambda value: None, fail)
    with pytest.raises(Damaged, match="failing") as caught:
        decode({"$object": {"type": "failing", "form": "registered", "fields": {"value": 1}}}, registry=registry)
    assert "quotes" not in str(caught.value)


@pytest.mark.parametrize(
    "tree", [{"$dict": ""}, {"$dict": {"ab": 1}}, {"$dict": ["ab"]}, {"$error": {"type": "m:E", "message": 3}}]
)
def test_malformed_tags_are_not_taken_for_something_else(tree: Any) -> None:
    with pytest.raises(Damaged):
        decode(tree)
