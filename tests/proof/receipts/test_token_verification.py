"""A receipt by itself: what it says, and that none of it can be altered unseen."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.receipts import FixedSources, built
from onrecord.core.canonical import MAX_INTEGER, canonical_bytes
from onrecord.errors import Damaged, InvalidInput
from onrecord.proof.receipts import ReplayToken, ReplayTokenBuilder, SamplingParams

SAMPLING = SamplingParams(temperature=0.5, seed=7, other={"logit_bias": {"50256": -100}})


def full() -> ReplayToken:
    return built(
        "ask",
        {"text": "4", "ratio": 1.0},
        after="sha256:" + "a" * 64,
        inputs={"question": "2+2?", "n": [1, 2.5]},
        effect_kind="model_call",
        model_version="small-1",
        sampling=SAMPLING,
        time=1_763_236_044_123_456,
        nonce=bytes(range(16)),
        tags={"legal_basis": "contract", "purpose": "support"},
        flow="f1",
        namespace="shop",
    )


def test_a_receipt_holds_name_inputs_outputs_and_both_hashes() -> None:
    token = full()
    assert (token.effect_name, token.inputs, token.outputs) == (
        "ask",
        {"question": "2+2?", "n": [1, 2.5]},
        {"text": "4", "ratio": 1.0},
    )
    by_hand = sha256(b"onrecord.value/1\0" + b'{"n":[1,2.5],"question":"2+2?"}').hexdigest()
    assert token.inputs_hash == f"sha256:{by_hand}"
    by_hand = sha256(b"onrecord.value/1\0" + b'{"ratio":1,"text":"4"}').hexdigest()
    assert token.outputs_hash == f"sha256:{by_hand}"
    assert token.verifies


def test_the_own_hash_is_as_pinned() -> None:
    """A change here is a new version of receipts: issued ones must go on verifying."""
    assert full().token_hash == "sha256:5b41e75e6b7316c7ef2116293930481f526f17f2b63610f394d4db97dc2f54fb"


def test_the_own_hash_can_be_derived_by_a_stranger() -> None:
    members = json.loads(full().to_json())
    claimed = members.pop("token_hash")
    written = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False).replace("1.0", "1")
    assert claimed == "sha256:" + sha256(b"onrecord.token/1\0" + written.encode()).hexdigest()


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("model_version", "small-2"),
        ("sampling", SamplingParams(temperature=0.6)),
        ("time", 1_763_236_044_123_457),
        ("nonce", bytes(16)),
        ("tags", {"legal_basis": "consent"}),
        ("flow", "f2"),
        ("namespace", "other"),
        ("effect_kind", "http"),
        ("replaces", "sha256:" + "b" * 64),
        ("after", None),
    ],
)
def test_every_member_is_in_the_own_hash(method: str, value: Any) -> None:
    kwargs: dict[str, Any] = {
        "sampling": SAMPLING,
        "model_version": "small-1",
        "time": 1_763_236_044_123_456,
        "nonce": bytes(range(16)),
        "tags": {"legal_basis": "contract"},
        "flow": "f1",
        "namespace": "shop",
        "effect_kind": "model_call",
        "after": "sha256:" + "a" * 64,
    }
    assert built(**kwargs).token_hash == built(**kwargs).token_hash
    assert built(**kwargs).token_hash != built(**(kwargs | {method: value})).token_hash


def test_two_equal_calls_have_two_receipts() -> None:
    one, two = (ReplayTokenBuilder().effect_name("now").inputs(None).outputs(1).time(5).mint() for _ in range(2))
    assert one.nonce != two.nonce
    assert one.token_hash != two.token_hash
    assert (one.inputs_hash, one.outputs_hash) == (two.inputs_hash, two.outputs_hash)


def test_the_time_is_hashed_at_the_precision_it_is_stored_at() -> None:
    token = built(time=1_763_236_044_123_456)
    again = ReplayToken.from_json(token.to_json())
    assert json.loads(token.to_json())["time"] == again.time == 1_763_236_044_123_456
    assert again.verifies
    with pytest.raises(InvalidInput) as refused:
        built(time=1.5)
    assert refused.value.code == "bad_time"


def test_moving_text_between_members_changes_the_hash() -> None:
    """No separator to smuggle: not 0x1E, not a quote."""
    splits = [("a\x1eb", "c"), ("a", "b\x1ec"), ('a","model_version":"b', "c"), ("a", 'b","x":"c')]
    kwargs: dict[str, Any] = {"time": 1, "nonce": bytes(16)}
    assert len({built(name, model_version=model, **kwargs).token_hash for name, model in splits}) == len(splits)


def test_a_round_trip_derives_every_hash_again() -> None:
    token = full()
    again = ReplayToken.from_json(token.to_json())
    assert again == token
    assert again.to_json() == token.to_json()
    assert again.problems() == []
    assert again.sampling_params == SAMPLING


def test_a_round_trip_through_another_json_tool_keeps_the_receipt() -> None:
    tree = json.loads(full().to_json())
    shuffled = json.dumps(dict(reversed(tree.items())), indent=2, ensure_ascii=True).replace("1.0", "1")
    assert ReplayToken.from_json(shuffled).verifies


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(json_values, json_values)
def test_any_value_survives_the_round_trip(inputs: Any, outputs: Any) -> None:
    token = built(inputs=inputs, outputs=outputs)
    again = ReplayToken.from_json(token.to_json())
    assert again.verifies
    assert again.token_hash == token.token_hash
    assert canonical_bytes(again.inputs) == canonical_bytes(token.inputs)


def test_values_json_lacks_survive_the_round_trip() -> None:
    value = {"when": (1, 2), "big": 2**70, "raw": b"\0\xff", "nan": float("inf"), 3: {4}}
    again = ReplayToken.from_json(built(inputs=value, outputs=value).to_json())
    assert again.verifies
    assert again.decoded(again.inputs) == value
    assert again.decoded(again.outputs) == value


def test_large_bytes_come_along_and_are_checked() -> None:
    token = built(inputs={"image": bytes(70_000)})
    again = ReplayToken.from_json(token.to_json())
    assert again.decoded(again.inputs) == {"image": bytes(70_000)}
    tree = json.loads(token.to_json())
    (digest,) = tree["artifacts"]
    tree["artifacts"][digest] = "AAAA"
    assert [p.code for p in ReplayToken.from_json(json.dumps(tree)).problems()] == ["bad_artifact"]
    tree["artifacts"] = {"sha256:" + "0" * 64: "AAAA"}
    assert [p.code for p in ReplayToken.from_json(json.dumps(tree)).problems()] == ["bad_artifact"]
    del tree["artifacts"]
    without = ReplayToken.from_json(json.dumps(tree))
    assert without.verifies
    with pytest.raises(Damaged) as missing:
        without.decoded(without.inputs)
    assert missing.value.code == "missing_artifact"


# Altered receipts

EDITS: dict[str, tuple[Any, str]] = {
    "inputs": ({"question": "3+3?"}, "bad_inputs_hash"),
    "outputs": ("5", "bad_outputs_hash"),
    "inputs_hash": ("sha256:" + "0" * 64, "bad_inputs_hash"),
    "outputs_hash": ("sha256:" + "0" * 64, "bad_outputs_hash"),
    "status": ("failed", "bad_token_hash"),
    "effect_name": ("other", "bad_token_hash"),
    "effect_kind": (None, "bad_token_hash"),
    "model_version": ("small-2", "bad_token_hash"),
    "sampling": ({"temperature": 0.9}, "bad_token_hash"),
    "time": (1, "bad_token_hash"),
    "nonce": ("0" * 32, "bad_token_hash"),
    "previous": (None, "bad_token_hash"),
    "replaces": ("sha256:" + "0" * 64, "bad_token_hash"),
    "tags": ({"legal_basis": "consent"}, "bad_token_hash"),
    "flow": ("f9", "bad_token_hash"),
    "namespace": ("n9", "bad_token_hash"),
    "token_hash": ("sha256:" + "0" * 64, "bad_token_hash"),
}


@pytest.mark.parametrize("member", EDITS)
def test_an_edited_member_is_named(member: str) -> None:
    value, code = EDITS[member]
    tree = json.loads(full().to_json())
    assert tree[member] != value
    tree[member] = value
    token = ReplayToken.from_json(json.dumps(tree))
    assert code in [problem.code for problem in token.problems()]
    with pytest.raises(Damaged):
        token.raise_if_invalid()


def test_edited_inputs_do_not_verify_although_the_outputs_are_right() -> None:
    """Also with the inputs' hash made to fit: the receipt as a whole does not."""
    token = full()
    tree = json.loads(token.to_json())
    tree["inputs"] = {"question": "3+3?"}
    edited = ReplayToken.from_json(json.dumps(tree))
    assert edited.outputs_hash == token.outputs_hash
    assert [problem.code for problem in edited.problems()] == ["bad_inputs_hash", "bad_token_hash"]
    tree["inputs_hash"] = built(inputs={"question": "3+3?"}).inputs_hash
    assert [problem.code for problem in ReplayToken.from_json(json.dumps(tree)).problems()] == ["bad_token_hash"]


def test_every_bit_of_a_receipt_counts() -> None:
    """A flipped bit is refused, found out, or leaves the very same receipt (spelled differently)."""
    original = full()
    written = original.to_json()
    for at in range(len(written)):
        for bit in (0x01, 0x20):
            data = bytearray(written)
            data[at] ^= bit
            try:
                token = ReplayToken.from_json(bytes(data))
            except Damaged:
                continue
            assert not token.verifies or token == original


# Hostile text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "syntax"),
        (b"[]", "bad_token"),
        (b"{}", "bad_token"),
        (b'{"format":"onrecord.token/1","format":"onrecord.token/1"}', "duplicate_key"),
        (b"\xef\xbb\xbf{}", "bom"),
        (b"[" * 5000 + b"]" * 5000, "too_deep"),
        (b"{} x", "trailing_bytes"),
    ],
)
def test_what_is_not_a_receipt_is_refused(text: bytes, code: str) -> None:
    with pytest.raises(Damaged) as refused:
        ReplayToken.from_json(text)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "edit",
    [
        {"format": "onrecord.token/2"},
        {"namespace": "../x"},
        {"flow": ""},
        {"effect_name": " "},
        {"time": -1},
        {"time": 2**53},
        {"time": "1"},
        {"nonce": "00"},
        {"nonce": "A" * 32},
        {"previous": "sha256:xyz"},
        {"token_hash": "none"},
        {"status": "maybe"},
        {"tags": {"a": 1}},
        {"tags": {str(n): "" for n in range(100)}},
        {"sampling": []},
        {"inputs": 2**60},
        {"inputs": {"$node": "sha256:" + "0" * 64}},
        {"outputs": [{"$list": []}]},
        {"outputs": {"$string": []}},
        {"place": {"run": "r"}},
        {"more": 1},
    ],
    ids=repr,
)
def test_members_that_cannot_be_are_refused(edit: dict[str, Any]) -> None:
    tree = json.loads(full().to_json())
    tree.update(edit)
    with pytest.raises(Damaged):
        ReplayToken.from_json(json.dumps(tree))


def test_data_names_no_code(tmp_path: Any) -> None:
    hostile = {"$object": {"type": "subprocess:Popen", "form": "dataclass", "fields": {"args": ["touch", "x"]}}}
    tree = json.loads(full().to_json())
    tree["inputs"] = hostile
    token = ReplayToken.from_json(json.dumps(tree))
    assert type(token.decoded(token.inputs)).__name__ == "Plain"


# The builder


@pytest.mark.parametrize(
    ("missing", "code"),
    [("effect_name", "missing_effect_name"), ("inputs", "missing_inputs"), ("outputs", "missing_outputs")],
)
def test_a_required_field_that_is_missing_is_an_error(missing: str, code: str) -> None:
    builder = ReplayTokenBuilder()
    for name in {"effect_name", "inputs", "outputs"} - {missing}:
        getattr(builder, name)("x")
    with pytest.raises(InvalidInput) as refused:
        builder.mint()
    assert refused.value.code == code


def test_defaults_are_as_stated() -> None:
    token = ReplayTokenBuilder(sources=FixedSources("x")).effect_name("e").inputs(None).outputs(None).mint()
    assert (token.model_version, token.sampling, token.tags) == ("", {}, {})
    assert (token.namespace, token.flow, token.previous, token.replaces) == ("default", "default", None, None)
    assert (token.time, token.nonce) == (FixedSources("x").now_us(), FixedSources("x").entropy(16).hex())
    assert token.place is None


def test_the_builder_refuses_what_no_receipt_can_hold() -> None:
    for more in ({"namespace": "a b"}, {"flow": ""}, {"nonce": b"short"}, {"after": "x"}, {"time": -5}):
        with pytest.raises(InvalidInput):
            built(**more)


def test_what_the_caller_does_to_its_values_later_changes_nothing() -> None:
    inputs: dict[str, Any] = {"messages": []}
    token = built(inputs=inputs)
    inputs["messages"].append("more")
    assert token.inputs == {"messages": []}
    assert token.verifies


def test_an_error_is_what_came_of_an_effect() -> None:
    token = ReplayTokenBuilder().effect_name("pay").inputs({}).error(KeyError("a")).mint()
    again = ReplayToken.from_json(token.to_json())
    assert again.status == "failed"
    assert repr(again.decoded(again.outputs)) == "KeyError('a')"
