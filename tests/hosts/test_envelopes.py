"""Envelopes: validation, hash, and the way to JSON and back."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.core.canonical import canonical_bytes
from reenact.core.effect_outcomes import CONFLICT, IN_DOUBT
from reenact.core.envelopes import (
    COMMANDS,
    AwaitEvent,
    Clock,
    DurableStep,
    EffectKind,
    ExecCode,
    HttpRequest,
    ModelCall,
    Process,
    Random,
    RuntimeEffectCommand,
    RuntimeEffectControllerError,
    RuntimeEffectEnvelope,
    RuntimeEffectOutcome,
    RuntimeInvocation,
    Sleep,
    ToolCall,
)
from reenact.core.scopes import RuntimeScope
from reenact.errors import InvalidValue, ReenactError

COMMAND_EXAMPLES: list[RuntimeEffectCommand] = [
    ModelCall(provider="acme", model="m-1", request={"messages": [{"role": "user", "content": "2+2?"}]}),
    ToolCall(tool="send_mail", arguments={"to": "a@example.org"}),
    HttpRequest(method="POST", url="https://example.org/", headers=[["accept", "*/*"]], body=b"\x00\xff"),
    ExecCode(code="print(1)"),
    Sleep(seconds=1.5),
    DurableStep(step_id="create", input={"x": 1}),
    AwaitEvent(wait="named", name="approval", timeout_seconds=60.0),
    Process(process_id="child", operation="start", input=[1, 2]),
    Clock(),
    Random(size=32),
]


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
    from reenact.core.codec import encode

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
    "model_call": "sha256:2a0697e4b45c5c5f858e10a0386d89702fa188828ab93af4477b53dec22c7ea8",
    "tool_call": "sha256:8e87c8bd385e7f306e53811d8819d604cbc34f775bde0c238d56e8d379694338",
    "http": "sha256:274f71ec6443ea52b937f7d9abe0489bc4e26fba9ed95c583624f9ce3258a3fe",
    "exec_code": "sha256:1c1d5bb923ffed66482fe99164a4de51abd174775434f9f364ee15aa6af65380",
    "sleep": "sha256:a1a6834c2bd5676b2b0e7685fb026f70d2c15d8c0fe2641479b71b9c71e3af60",
    "durable_step": "sha256:6099f7beeb82efc89fdcbdd3bcf1935166d581e39de21571b5f529d9cab1dc57",
    "await_event": "sha256:6bbe31a4ce76db6a109db6d227d7576c9eb900f27eeb91a61525badd37d4f27a",
    "process": "sha256:24ac36f7ca1bd8a0582195e68ab0f02a4497bfb5a9e42479c9a281c4510b158c",
    "clock": "sha256:944fc785288158f015ec0ad0da05c2d94b3cce84e12317a02478e6a570181fe9",
    "random": "sha256:82e0859afb605e9fad4298c254479a50d3108aa83d115b8ec5f8c44cd3bdc6c3",
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
    with pytest.raises(ReenactError):
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

    from reenact.core.codec import decode, encode

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
