"""Envelopes: validation, hash, and the way to JSON and back."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.effect_commands import COMMAND_EXAMPLES
from onrecord.core.canonical import canonical_bytes
from onrecord.errors import InvalidValue, OnrecordError
from onrecord.hosts.envelopes import (
    COMMANDS,
    AwaitEvent,
    Clock,
    DurableStep,
    EffectKind,
    ExecCode,
    HttpRequest,
    ModelCall,
    RuntimeEffectCommand,
    RuntimeEffectControllerError,
    RuntimeEffectEnvelope,
    RuntimeEffectOutcome,
    RuntimeInvocation,
    Sleep,
    ToolCall,
)
from onrecord.hosts.outcomes import CONFLICT, IN_DOUBT
from onrecord.hosts.scopes import RuntimeScope


def envelope(
    command: RuntimeEffectCommand, key: str | None = "key", effect_id: str = "effect"
) -> RuntimeEffectEnvelope:
    scope = RuntimeScope.for_turn("session", "turn", 7, 0)
    return RuntimeEffectEnvelope(RuntimeInvocation.effect(scope, effect_id, command.kind, key), command)


def code_of(broken: RuntimeEffectEnvelope) -> str:
    with pytest.raises(RuntimeEffectControllerError) as caught:
        broken.validate()
    return caught.value.code


def test_every_kind_has_a_command_and_an_example() -> None:
    assert {kind.value for kind in EffectKind} == set(COMMANDS)
    assert {command.kind for command in COMMAND_EXAMPLES} == set(EffectKind)


@pytest.mark.parametrize("command", COMMAND_EXAMPLES, ids=lambda command: command.kind.value)
def test_round_trip(command: RuntimeEffectCommand) -> None:
    original = envelope(command).validate()
    read = RuntimeEffectEnvelope.from_json(original.to_json())
    assert read == original
    assert read.stable_hash() == original.stable_hash()
    assert read.to_json() == original.to_json()


@pytest.mark.parametrize(
    "value",
    [
        (1, 2),
        {3, 4},
        {1: "one"},
        {"$ref": 1},
        {"$tuple": [1]},
        2**80,
        float("inf"),
        b"bytes",
        decimal.Decimal("1.10"),
        datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        "\ud800",
    ],
    ids=repr,
)
def test_values_that_json_lacks_come_back_equal(value: Any) -> None:
    original = envelope(DurableStep(step_id="s", input={"value": value, "again": [value]}))
    read = RuntimeEffectEnvelope.from_json(original.to_json())
    assert read.command == original.command
    assert read.stable_hash() == original.stable_hash()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_any_input_round_trips(value: Any) -> None:
    original = envelope(ToolCall(tool="t", arguments=value))
    read = RuntimeEffectEnvelope.from_json(original.to_json())
    assert read.to_json() == original.to_json()
    assert read.stable_hash() == original.stable_hash()


@given(JSON, JSON)
def test_hashes_are_equal_exactly_when_the_inputs_are(one: Any, two: Any) -> None:
    first, second = (envelope(DurableStep(step_id="s", input=value)) for value in (one, two))
    assert (first.stable_hash() == second.stable_hash()) == (canonical_bytes_of(one) == canonical_bytes_of(two))


def canonical_bytes_of(value: Any) -> bytes:
    from onrecord.core.codec import encode

    return canonical_bytes(encode(value).tree)


def test_hash_does_not_depend_on_the_order_of_keys() -> None:
    one, two = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    hashes = {envelope(DurableStep(step_id="s", input=value)).stable_hash() for value in (one, two)}
    assert len(hashes) == 1


def test_everything_takes_part_in_the_hash() -> None:
    command = DurableStep(step_id="s", input={"x": 1})
    base = envelope(command)
    scope = RuntimeScope.for_turn("session", "turn", 7, 1)
    others = [
        envelope(DurableStep(step_id="s", input={"x": 2})),
        envelope(DurableStep(step_id="t", input={"x": 1})),
        envelope(command, key="other"),
        envelope(command, effect_id="other"),
        RuntimeEffectEnvelope(RuntimeInvocation.effect(scope, "effect", command.kind, "key"), command),
        envelope(ToolCall(tool="s", arguments={"x": 1})),
    ]
    hashes = [each.stable_hash() for each in (base, *others)]
    assert len(set(hashes)) == len(hashes)


def test_hashes_are_pinned() -> None:
    assert {command.kind.value: envelope(command).stable_hash() for command in COMMAND_EXAMPLES} == PINNED


PINNED = {
    "model_call": "sha256:8a7b20f174c5937fdaa3bb5f92b068e04c814a0e56b8cf3740f25ab408b55ebf",
    "tool_call": "sha256:6165cf02ff02850c9e772fe75d09df8b551ab1c6dafa58cad2d7331c452a1a96",
    "http": "sha256:ce7e6088854d6a723f1673faabedb18897bd9d53e5176e51f34242a771c0469e",
    "exec_code": "sha256:e4ed563fb271f463a84c5dd40d30bead0652dacc84f476920b56311f05ba1ef6",
    "sleep": "sha256:e1114d7cfea2d25250fe56d58e5d0123956ea11e3d556266ef1b7cf28babc9f6",
    "durable_step": "sha256:9687abd26b2f7fc8385662919ebdcd2b34abdab27b63c78a75a767c225fbc928",
    "await_event": "sha256:b5b695dc9212aa377395335d987198c687160534853a349e1bc8b2d2812b0a86",
    "process": "sha256:c74f1777de63128eeb643bb4161e3d33eafb15188009a2bfb9fbfb0b1600c1c2",
    "clock": "sha256:5cf0c69cec020d509d216cb8e7e791e2fbb6da42f80f752e083fc885c524afb0",
    "random": "sha256:3a2e04cee5c8e4aed8c35fe172f7c57f316b1bbb17f371557046af6f028d4839",
}


# Validation


def test_kind_mismatch_is_refused() -> None:
    scope = RuntimeScope.for_turn("s", "t", 0, 0)
    broken = RuntimeEffectEnvelope(RuntimeInvocation.effect(scope, "e", EffectKind.HTTP, "k"), Sleep(seconds=1))
    assert code_of(broken) == "effect_kind_mismatch"


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_blank_effect_id_is_refused(blank: str) -> None:
    assert code_of(envelope(Clock(), effect_id=blank)) == "missing_effect_id"


@pytest.mark.parametrize("blank", [None, "", "  "])
def test_missing_replay_key_is_refused(blank: str | None) -> None:
    assert code_of(envelope(Clock(), key=blank)) == "missing_replay_key"


@pytest.mark.parametrize(
    "command",
    [
        Sleep(seconds=float("nan")),
        Sleep(seconds=-1.0),
        Sleep(seconds=float("inf")),
        AwaitEvent(wait="named", name="n", timeout_seconds=-1.0),
    ],
)
def test_commands_that_nobody_can_carry_out_are_refused(command: RuntimeEffectCommand) -> None:
    assert code_of(envelope(command)) == "bad_effect_command"


def test_a_key_that_no_link_holds_is_refused() -> None:
    assert code_of(envelope(Clock(), key="k" * 1025)) == "bad_effect_command"


# Reading what a stranger wrote

GOOD = envelope(DurableStep(step_id="s", input=1)).to_json()


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[]", "$"),
        ("{}", "$"),
        (GOOD[:-1] + ',"more":1}', "$"),
        (GOOD.replace('"step_id":"s"', '"step_id":7'), "$.command.step_id"),
        (GOOD.replace('"step_id":"s"', '"step_id":"s","x y":7'), '$.command["x y"]'),
        (GOOD.replace('"step_id":"s",', ""), "$.command.step_id"),
        (GOOD.replace('"kind":"durable_step"', '"kind":"os.system"'), "$.command.kind"),
        (GOOD.replace('"kind":"durable_step"', '"kind":["x"]'), "$.command.kind"),
        (GOOD.replace('"effect_kind":"durable_step"', '"effect_kind":"x"'), "$.invocation.effect_kind"),
        (GOOD.replace('"turn_index":7', '"turn_index":"7"'), "$.invocation.scope.turn_index"),
        (GOOD.replace('"turn_index":7', '"turn_index":7,"secret":"s3cr3t"'), "$.invocation.scope.secret"),
        (GOOD.replace('"effect_id":"effect",', ""), "$.invocation.effect_id"),
        (GOOD.replace('"invocation":{', '"invocation":[{').replace('},"command', '}],"command'), "$.invocation"),
    ],
)
def test_hostile_input_is_refused_with_its_path(text: str, path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        RuntimeEffectEnvelope.from_json(text)
    assert caught.value.message.startswith(f"{path}:")
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        GOOD + "x",
        GOOD.replace('"input":1', '"input":1,"input":2'),
        GOOD.replace('"input":1', '"input":NaN'),
        GOOD.replace('"input":1', '"input":1e400'),
        GOOD.replace('"input":1', '"input":"\\ud800"'),
        GOOD.replace('"input":1', '"input":' + "[" * 5000 + "]" * 5000),
        GOOD.replace('"input":1', '"input":{"$tuple":7}'),
        GOOD.encode("utf-16"),
        "\ud800",
        b"\xff",
    ],
    ids=lambda text: repr(text[:40]),
)
def test_hostile_text_is_refused(text: str | bytes) -> None:
    with pytest.raises(OnrecordError):
        RuntimeEffectEnvelope.from_json(text)


def test_data_names_no_code() -> None:
    planted = GOOD.replace(
        '"input":1', '"input":{"$object":{"type":"subprocess:Popen","form":"dataclass","fields":{}}}'
    )
    assert type(RuntimeEffectEnvelope.from_json(planted).command.input).__name__ == "Plain"  # type: ignore[attr-defined]


def test_what_json_cannot_carry_is_said_at_once() -> None:
    for value in (b"x" * 100_000, object()):
        with pytest.raises(InvalidValue) as caught:
            envelope(DurableStep(step_id="s", input=value)).to_json()
        assert caught.value.code == "envelope_not_portable"


# Outcomes and errors


def test_an_outcome_is_only_taken_as_what_it_is() -> None:
    outcome = RuntimeEffectOutcome.durable_step({"x": 1})
    assert outcome.into_durable_step() == {"x": 1}
    with pytest.raises(RuntimeEffectControllerError) as caught:
        outcome.into_tool_call()
    assert caught.value.code == "unexpected_effect_outcome"


def test_every_kind_has_an_outcome() -> None:
    for kind in EffectKind:
        make = getattr(RuntimeEffectOutcome, kind.value)
        outcome = make() if kind is EffectKind.SLEEP else make("value")
        assert outcome.kind is kind
        assert getattr(outcome, f"into_{kind.value}")() == (None if kind is EffectKind.SLEEP else "value")


def test_errors_keep_code_and_message_when_pickled_and_when_encoded() -> None:
    import pickle

    from onrecord.core.codec import decode, encode

    error = RuntimeEffectControllerError("my_code", "my message", hint="my hint")
    for again in (pickle.loads(pickle.dumps(error)), decode(encode(error).tree, loaded_classes=True)):
        assert type(again) is RuntimeEffectControllerError
        assert (again.code, again.message, again.hint, str(again)) == ("my_code", "my message", "my hint", "my message")


def test_exit_status_tells_who_has_to_act() -> None:
    assert RuntimeEffectControllerError(CONFLICT, "").exit_status == 1
    assert RuntimeEffectControllerError(IN_DOUBT, "").exit_status == 6


# What may be done again


def test_what_may_be_repeated() -> None:
    repeated = {command.kind for command in COMMAND_EXAMPLES if command.may_repeat}
    assert repeated == set(EffectKind) - {EffectKind.TOOL_CALL, EffectKind.HTTP, EffectKind.EXEC_CODE}
    assert ToolCall(tool="t", arguments=None, idempotent=True).may_repeat
    assert HttpRequest(method="get", url="u").may_repeat
    assert HttpRequest(method="POST", url="u", idempotent=True).may_repeat
    assert ExecCode(code="c", disposable=True).may_repeat
    assert not ModelCall(provider="p", model="m", request=None, at_most_once=True).may_repeat
