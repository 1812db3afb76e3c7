"""The effects of a run carried out again by an invoker: what is called, what is not, and what is said of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kit.journals import Altered
from kit.live_replays import Done, Invoker, asked, mailed, readers, write
from onrecord import NotReplayable
from onrecord.analysis.compare.tolerance import DriftTolerance
from onrecord.analysis.live import CameOfIt, LiveCall, RunReplay, replay_with_invoker, replay_with_invoker_async
from onrecord.errors import Damaged, InvalidInput
from onrecord.journal.erasure import erase_value
from onrecord.journal.reader import JournalReader
from onrecord.proof.receipts import ReplayTokenBuilder, SamplingParams
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

EFFECTS = [asked("one", "first"), asked("two", "second"), mailed("ann")]
SAME = {"one": "first", "two": "second"}


def answering(inputs: dict[str, Any]) -> str:
    return SAME[inputs["question"]]


def replayed(effects: list[Done], invoker: Invoker, **options: Any) -> RunReplay:
    store = MemoryStore()
    write(store, "a", effects)
    return replay_with_invoker(JournalReader(store, "a"), invoker, **options)


def test_only_what_may_be_repeated_is_called(store: Store) -> None:
    write(store, "a", EFFECTS)
    invoker = Invoker(ask=answering)
    replay = replay_with_invoker(JournalReader(store, "a"), invoker)
    assert invoker.calls == ["ask", "ask"]
    assert [(step.name, step.how, step.verdict) for step in replay.steps] == [
        ("ask", "live", "pass"),
        ("ask", "live", "pass"),
        ("mail", "recorded", "recorded"),
    ]
    assert replay.verdict == "pass"
    assert replay.replay is None


def test_a_tool_is_called_when_it_is_named() -> None:
    invoker = Invoker(ask=answering, mail="sent")
    replay = replayed(EFFECTS, invoker, live_tools=["mail"])
    assert invoker.calls == ["ask", "ask", "mail"]
    assert replay.counts["live"] == 3


def test_a_tool_that_the_run_never_called_is_told() -> None:
    replay = replayed(EFFECTS, Invoker(ask=answering), live_tools=["mial"])
    assert replay.unused_live_tools == ("mial",)
    assert replay.steps[2].how == "recorded"


def test_a_list_of_names_is_not_a_text() -> None:
    with pytest.raises(InvalidInput) as refused:
        replayed(EFFECTS, Invoker(), live_tools="mail")
    assert refused.value.code == "bad_names"


@pytest.mark.parametrize(("effects", "code"), [([mailed("ann")], "replay_nothing_live"), ([], "replay_empty")])
def test_nothing_carried_out_is_no_pass(effects: list[Done], code: str) -> None:
    replay = replayed(effects, Invoker())
    assert (replay.verdict, replay.codes, replay.exit_status) == ("broken", (code,), 1)


def test_effects_come_in_their_recorded_order() -> None:
    effects = [asked(str(number), number) for number in range(20)]
    invoker = Invoker(ask=lambda inputs: int(inputs["question"]))
    assert replayed(effects, invoker).passed
    assert [inputs["question"] for inputs, _, _ in invoker.asked] == [str(number) for number in range(20)]


def test_one_bad_step_keeps_the_others() -> None:
    invoker = Invoker(ask=[RuntimeError("down"), "second"])
    replay = replayed(EFFECTS, invoker)
    assert [step.verdict for step in replay.steps] == ["broken", "pass", "recorded"]
    assert replay.codes == ("replay_status_diff",)
    assert replay.steps[0].actual["$error"]["message"] == "down"


def test_behind_the_first_that_breaks_nothing_is_called() -> None:
    effects = [asked(name, name) for name in ("a", "b", "c")]
    invoker = Invoker(ask=["a", "x", "c"])
    replay = replayed(effects, invoker, stop_at_first=True)
    assert invoker.calls == ["ask", "ask"]
    assert [step.verdict for step in replay.steps] == ["pass", "broken"]
    assert replay.stopped
    assert replay.effects == 3


@pytest.mark.parametrize("raises", [True, False])
def test_the_recorded_error_again_matches(raises: bool) -> None:
    effects = [asked("one", ValueError("no such order"))]
    error = ValueError("no such order")
    assert replayed(effects, Invoker(ask=error if raises else lambda _: error)).verdict == "pass"
    assert replayed(effects, Invoker(ask=ValueError("other"))).codes == ("replay_content_diff",)
    assert replayed(effects, Invoker(ask="fine")).codes == ("replay_status_diff",)


@pytest.mark.parametrize(
    ("effects", "options", "answer", "why"),
    [
        ([asked("one", "first")], {"non_replayable": ["ask"]}, "first", "declared"),
        ([asked("one", {"client": object()})], {}, "first", "output_without_value"),
        ([Done("ask", {"client": object()}, "first")], {}, "first", "input_without_value"),
    ],
)
def test_what_cannot_be_replayed_is_not_called(effects: list[Done], options: Any, answer: Any, why: str) -> None:
    invoker = Invoker(ask=answer)
    replay = replayed(effects, invoker, **options)
    assert invoker.calls == []
    assert replay.steps[0].verdict == "not_replayable"
    assert (replay.steps[0].reasons[0].code, replay.steps[0].reasons[0].what) == ("replay_not_replayable", why)
    assert (replay.verdict, replay.exit_status) == ("broken", 7)


def test_an_invoker_may_say_that_it_cannot() -> None:
    replay = replayed(EFFECTS[:2], Invoker(ask=[NotReplayable("no seeds here"), "second"]))
    assert [step.verdict for step in replay.steps] == ["not_replayable", "pass"]
    assert replay.exit_status == 7


def test_an_erased_answer_is_not_called_for() -> None:
    store = MemoryStore()
    write(store, "a", [asked("one", "the erased answer"), asked("two", "second")])
    erase_value(store, "the erased answer", reason="asked for")
    invoker = Invoker(ask="second")
    replay = replay_with_invoker(JournalReader(store, "a"), invoker)
    assert [step.verdict for step in replay.steps] == ["not_replayable", "pass"]
    assert len(invoker.calls) == 1


def test_damage_is_found_before_anything_is_carried_out() -> None:
    store = MemoryStore()
    write(store, "a", EFFECTS)
    rows = list(store.scan("default", "a"))
    content = rows[3].content
    assert content is not None
    rows[3] = rows[3]._replace(content=content[:-3] + b"!" + content[-2:])
    altered: Any = Altered(store, "a", rows=rows)
    invoker = Invoker(ask=answering)
    with pytest.raises(Damaged):
        replay_with_invoker(JournalReader(altered, "a"), invoker)
    assert invoker.calls == []


def test_what_an_invoker_does_to_its_inputs_changes_nothing() -> None:
    def spoil(inputs: dict[str, Any]) -> str:
        inputs["question"] = "spoiled"
        return "first"

    replay = replayed([asked("one", "first")], Invoker(ask=spoil))
    assert replay.verdict == "pass"


def test_a_result_that_contains_itself_keeps_the_others() -> None:
    endless: list[Any] = []
    endless.append(endless)
    replay = replayed(EFFECTS[:2], Invoker(ask=[endless, "second"]))
    assert [step.verdict for step in replay.steps] == ["not_replayable", "pass"]


def test_the_invoker_is_told_how_the_model_was_asked() -> None:
    inputs = {"request": {"model": "small", "temperature": 0.5, "max_completion_tokens": 7}}
    invoker = Invoker(ask="x")
    assert replayed([Done("ask", inputs, "x")], invoker).passed
    _, model, sampling = invoker.asked[0]
    assert (model, sampling.temperature, sampling.max_tokens, sampling.seed) == ("small", 0.5, 7, None)
    assert dict(sampling) == {"temperature": 0.5, "max_tokens": 7}


def test_another_model_is_asked_on_purpose_and_said_so() -> None:
    minted: list[Any] = []

    def mint(call: LiveCall, came: CameOfIt) -> str:
        builder = ReplayTokenBuilder().effect_name(call.name).effect_kind(call.kind).inputs(call.inputs)
        builder = builder.model_version(call.model).sampling(SamplingParams.from_data(call.sampling.to_data()))
        minted.append((builder.outputs(came.value) if came.error is None else builder.error(came.error)).mint())
        return str(minted[-1].token_hash)

    invoker = Invoker(ask=answering, mail="sent")
    replay = replayed(EFFECTS, invoker, model="large", minted=mint, live_tools=["mail"])
    assert [model for _, model, _ in invoker.asked] == ["large", "large", ""]
    assert [inputs.get("model") for inputs, _, _ in invoker.asked] == ["large", "large", None]
    assert (replay.verdict, replay.model) == ("pass", "large")
    assert [step.model for step in replay.steps] == ["large", "large", None]
    assert [step.receipt for step in replay.steps] == [*(token.token_hash for token in minted), None]
    assert [token.model_version for token in minted] == ["large", "large"]
    assert all(token.problems() == [] for token in minted)
    assert replay.to_data()["model"] == "large"


def test_a_receipt_that_cannot_be_made_loses_no_result() -> None:
    def fail(call: LiveCall, came: CameOfIt) -> str:
        raise OSError("no space")

    replay = replayed(EFFECTS[:2], Invoker(ask=answering), model="large", minted=fail)
    assert [step.verdict for step in replay.steps] == ["broken", "broken"]
    assert replay.codes == ("replay_receipt_failed",)


def test_another_model_than_none_is_a_mistake() -> None:
    invoker = Invoker(mail="sent")
    with pytest.raises(InvalidInput) as refused:
        replayed([mailed("ann")], invoker, live_tools=["mail"], model="large")
    assert refused.value.code == "no_model"
    assert invoker.calls == []


def test_awaited_invokers_are_judged_by_the_same_rules() -> None:
    store = MemoryStore()
    write(store, "a", EFFECTS)

    class Awaited:
        async def invoke(self, effect_name: str, inputs: Any, model_version: str, sampling: Any) -> Any:
            await asyncio.sleep(0)
            if inputs["question"] == "two":
                raise RuntimeError("down")
            return "first"

    (reader,) = readers(store, "a")
    replay = asyncio.run(replay_with_invoker_async(reader, Awaited()))
    assert [step.verdict for step in replay.steps] == ["pass", "broken", "recorded"]
    with pytest.raises(InvalidInput) as refused:
        replay_with_invoker(reader, Awaited())
    assert refused.value.code == "async_invoker"


def test_the_tolerance_is_part_of_the_result() -> None:
    answer, other = {"usage": {"tokens": 100}}, {"usage": {"tokens": 101}}
    replay = replayed([asked("one", answer)], Invoker(ask=other), tolerance=DriftTolerance(tokens=0.01))
    assert replay.verdict == "drift"
    assert replay.to_data()["tolerance"]["tokens"] == 0.01
