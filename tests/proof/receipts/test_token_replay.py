"""Effects of receipts done again: what matches, what parts, what cannot be told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kit.receipts import FixedSources, built, chained, recorded_run
from onrecord import NotReplayable
from onrecord.core.events import ActionRequested, ActionSucceeded
from onrecord.errors import InvalidInput, NotFound
from onrecord.journal.erasure import erase_value
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.proof.receipts import (
    FlowBroken,
    InMemoryReplayLog,
    JournalReplayLog,
    ReplayToken,
    ReplayTokenBuilder,
    SamplingParams,
    Verdict,
    check_chain,
    mint,
    replay_flow,
    replay_flow_async,
    replay_token,
    replay_token_async,
)
from onrecord.store.memory import MemoryStore


class Invoker:
    """Answers with a function of the call; keeps the calls."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        self.answer = answer
        self.calls: list[tuple[Any, ...]] = []

    def invoke(self, effect_name: str, inputs: Any, model_version: str, sampling: SamplingParams) -> Any:
        self.calls.append((effect_name, inputs, model_version, sampling))
        return self.answer(effect_name, inputs)


class AsyncInvoker(Invoker):
    async def invoke(self, effect_name: str, inputs: Any, model_version: str, sampling: SamplingParams) -> Any:
        await asyncio.sleep(0)
        return super().invoke(effect_name, inputs, model_version, sampling)


def fail(error: Exception) -> Any:
    raise error


def log_of(*outputs: Any, **more: Any) -> InMemoryReplayLog:
    log = InMemoryReplayLog()
    for token in chained(*outputs, **more):
        log.append(token)
    return log


def by_step(*outputs: Any) -> Invoker:
    return Invoker(lambda name, _: outputs[int(name.removeprefix("step"))])


# One receipt


def test_the_invoker_is_given_what_was_recorded() -> None:
    sampling = SamplingParams(temperature=0.25, seed=2**60)
    token = built("ask", "4", inputs=("2+2?", 1.0), model_version="small-1", sampling=sampling)
    invoker = Invoker(lambda *_: "4")
    assert replay_token(token, invoker).matches
    assert invoker.calls == [("ask", ("2+2?", 1.0), "small-1", sampling)]


def test_a_divergence_carries_both_hashes_and_the_value() -> None:
    token = built("ask", {"answer": 4})
    result = replay_token(token, Invoker(lambda *_: {"answer": 5}))
    assert (result.verdict, result.reason) == (Verdict.DIVERGED, "output_differs")
    assert result.expected_hash == token.outputs_hash
    assert result.actual_hash == built("x", {"answer": 5}).outputs_hash
    assert result.actual == {"answer": 5}


def test_order_of_keys_does_not_matter_and_order_of_items_does() -> None:
    token = built("ask", {"a": [1, 2], "b": 2})
    assert replay_token(token, Invoker(lambda *_: {"b": 2.0, "a": [1, 2]})).matches
    assert not replay_token(token, Invoker(lambda *_: {"a": [2, 1], "b": 2})).matches


def test_a_receipt_with_edited_inputs_is_never_carried_out() -> None:
    edited = ReplayToken.from_json(built("ask", "4").to_json().replace(b"2+2?", b"3+3?"))
    invoker = Invoker(lambda *_: "4")
    result = replay_token(edited, invoker)
    assert (result.verdict, result.reason) == (Verdict.INVALID_TOKEN, "bad_inputs_hash")
    assert not result.matches
    assert invoker.calls == []


def test_errors_are_outcomes() -> None:
    token = ReplayTokenBuilder().effect_name("pay").inputs({}).error(ValueError("no", 5)).mint()
    assert replay_token(token, Invoker(lambda *_: fail(ValueError("no", 5)))).matches
    other = replay_token(token, Invoker(lambda *_: fail(ValueError("no", 6))))
    assert (other.verdict, other.reason) == (Verdict.DIVERGED, "error_differs")
    assert repr(other.actual) == "ValueError('no', 6)"
    better = replay_token(token, Invoker(lambda *_: "ok"))
    assert (better.reason, better.actual, better.actual_status) == ("effect_succeeded", "ok", "succeeded")
    worse = replay_token(built("ask", "4"), Invoker(lambda *_: fail(OSError("down"))))
    assert (worse.verdict, worse.reason) == (Verdict.DIVERGED, "effect_failed")
    assert isinstance(worse.actual, OSError)


def test_what_cannot_be_replayed_has_its_own_verdict() -> None:
    told = replay_token(built("mail", "sent"), Invoker(lambda *_: fail(NotReplayable("a mail goes out once"))))
    assert (told.verdict, told.reason, told.message) == (
        Verdict.NOT_REPLAYABLE,
        "not_replayable",
        "a mail goes out once",
    )
    invoker = Invoker(lambda *_: None)
    assert replay_token(built("open", object()), invoker).reason == "outputs_without_value"
    assert replay_token(built("use", 1, inputs=object()), invoker).reason == "inputs_without_value"
    assert invoker.calls == []
    assert replay_token(built("ask", 1), Invoker(lambda *_: object())).reason == "actual_without_value"
    endless: list[Any] = []
    endless.append(endless)
    assert replay_token(built("ask", 1), Invoker(lambda *_: endless)).verdict is Verdict.NOT_REPLAYABLE


def test_erased_and_denied_effects_are_not_carried_out(memory: MemoryStore) -> None:
    recorded_run(memory)
    denied = next(token for token in mint(JournalReader(memory, "r1")) if token.status == "denied")
    journal = Journal.create(memory, "r2")
    journal.append([ActionRequested("a", {}, "ask"), ActionSucceeded("a", "Ada Lovelace")])
    journal.release()
    erase_value(memory, "Ada Lovelace", reason="asked for")
    (erased,) = mint(JournalReader(memory, "r2"))
    invoker = Invoker(lambda *_: None)
    assert replay_token(denied, invoker).reason == "effect_denied"
    assert replay_token(erased, invoker).reason == "outputs_without_value"
    assert invoker.calls == []


def test_the_invoker_cannot_change_the_receipt() -> None:
    token = built("ask", 1, inputs={"messages": ["a"]})

    def grow(_: str, inputs: Any) -> int:
        inputs["messages"].append("b")
        return 1

    assert replay_token(token, Invoker(grow)).matches
    assert replay_token(token, Invoker(grow)).matches
    assert token.verifies


def test_a_hash_is_looked_up() -> None:
    log = log_of("a")
    (token,) = log.query()
    assert replay_token(token.token_hash, Invoker(lambda *_: "a"), log=log).matches
    with pytest.raises(NotFound) as refused:
        replay_token("sha256:" + "0" * 64, Invoker(lambda *_: "a"), log=log)
    assert refused.value.code == "unknown_token"
    with pytest.raises(InvalidInput):
        replay_token(token.token_hash, Invoker(lambda *_: "a"))


def test_large_inputs_come_from_the_log(memory: MemoryStore) -> None:
    with JournalReplayLog(memory) as log:
        log.append(built("size", 70_000, inputs=bytes(70_000), flow="f"))
        (kept,) = log.tokens_for_flow("f")
        assert kept.artifacts == {}
        assert replay_token(kept, Invoker(lambda _, inputs: len(inputs)), log=log).matches
        assert replay_token(kept, Invoker(lambda _, inputs: 0)).reason == "missing_artifact"


# Flows


def test_a_flow_that_comes_to_the_same_passes() -> None:
    result = replay_flow(log_of(1, 2, 3), "default", by_step(1, 2, 3))
    assert result.passed
    assert str(result) == "Replay of flow default: 3/3 effects match - MATCH"
    result.raise_if_broken()


def test_a_flow_stops_at_the_first_divergence() -> None:
    invoker = by_step(1, "other", 3)
    result = replay_flow(log_of(1, 2, 3), "default", invoker)
    assert [call[0] for call in invoker.calls] == ["step0", "step1"], "the third is never tried"
    assert [one.verdict for one in result.results] == [Verdict.MATCH, Verdict.DIVERGED]
    assert result.stopped
    assert not result.passed
    with pytest.raises(FlowBroken) as broken:
        result.raise_if_broken()
    assert (broken.value.code, broken.value.exit_status) == ("flow_diverged", 1)


def test_all_divergences_are_collected_when_asked_for() -> None:
    result = replay_flow(log_of(1, 2, 3, 4), "default", by_step(1, "x", 3, "y"), collect_all=True)
    assert [one.verdict for one in result.results] == [Verdict.MATCH, Verdict.DIVERGED, Verdict.MATCH, Verdict.DIVERGED]
    assert [one.effect_name for one in result.divergences] == ["step1", "step3"]
    assert not result.stopped


def test_one_that_cannot_be_replayed_loses_nobody_elses_result() -> None:
    answers = {"step0": lambda: 1, "step1": lambda: fail(NotReplayable("no seed")), "step2": lambda: 3}
    result = replay_flow(log_of(1, 2, 3), "default", Invoker(lambda name, _: answers[name]()))
    assert [one.verdict for one in result.results] == [Verdict.MATCH, Verdict.NOT_REPLAYABLE, Verdict.MATCH]
    assert not result.passed
    assert result.verdict == "not_replayable"
    with pytest.raises(FlowBroken) as broken:
        result.raise_if_broken()
    assert broken.value.exit_status == 7


def test_the_order_of_a_flow_is_kept_with_equal_times() -> None:
    invoker = by_step(*range(6))
    assert replay_flow(log_of(*range(6), time=5), "default", invoker).passed
    assert [call[0] for call in invoker.calls] == [f"step{n}" for n in range(6)]


def test_an_unknown_flow_is_an_error_and_nothing_of_nothing_no_pass(memory: MemoryStore) -> None:
    with pytest.raises(NotFound) as refused:
        replay_flow(InMemoryReplayLog(), "nothing", by_step())
    assert refused.value.code == "unknown_flow"
    Journal.create(memory, "empty").release()
    result = replay_flow(JournalReplayLog(memory), "empty", by_step())
    assert (result.passed, result.verdict) == (False, "empty")
    with pytest.raises(FlowBroken):
        result.raise_if_broken()


def test_a_broken_chain_is_no_pass_although_every_effect_matches() -> None:
    log = log_of(1, 2, 3)
    del log._flows["default"][1]
    result = replay_flow(log, "default", by_step(1, 2, 3))
    assert all(one.matches for one in result.results)
    assert (result.passed, result.verdict) == (False, "invalid")
    assert result.chain.problems[0].code == "missing_receipt"


# Another model


def test_another_model_is_asked_on_purpose_and_gives_new_receipts() -> None:
    log = log_of("a", "b", model_version="small-1", tags={"purpose": "x"})
    olds = log.tokens_for_flow("default")
    invoker = by_step("a", "B")
    result = replay_flow(
        log, "default", invoker, model="large-2", into="on-large-2", collect_all=True, sources=FixedSources("new")
    )
    assert {call[2] for call in invoker.calls} == {"large-2"}
    assert [one.verdict for one in result.results] == [Verdict.MATCH, Verdict.DIVERGED]
    assert {one.model for one in result.results} == {"large-2"}
    new = result.new_tokens
    assert [token.replaces for token in new] == [token.token_hash for token in olds]
    assert [(token.model_version, token.outputs) for token in new] == [("large-2", "a"), ("large-2", "B")]
    assert check_chain(new).whole
    for token in new:
        log.append(token)
    assert log.tokens_for_flow("on-large-2") == new
    assert log.tokens_for_flow("default") == olds, "the old ones stay"


def test_without_an_override_the_recorded_model_is_asked_and_nothing_minted() -> None:
    invoker = by_step("a")
    result = replay_flow(log_of("a", model_version="small-1"), "default", invoker)
    assert [call[2] for call in invoker.calls] == ["small-1"]
    assert result.new_tokens == []
    assert result.results[0].model is None


def test_an_override_needs_a_model_to_override() -> None:
    log = InMemoryReplayLog()
    tool = built("step0", 1)
    log.append(tool)
    with pytest.raises(InvalidInput) as refused:
        replay_flow(log, "default", by_step(1), model="large-2")
    assert refused.value.code == "no_model"
    log.append(built("step1", 2, tool, model_version="small-1"))
    invoker = by_step(1, 2)
    result = replay_flow(log, "default", invoker, model="large-2")
    assert [call[2] for call in invoker.calls] == ["", "large-2"], "a tool has no model to ask"
    assert len({token.flow for token in result.new_tokens} - {"default"}) == 1, "they have a flow of their own"


def test_an_error_under_another_model_has_a_receipt_too() -> None:
    result = replay_token(built("ask", 1, model_version="m"), Invoker(lambda *_: fail(OSError("x"))), model="n")
    assert result.new_token is not None
    assert (result.new_token.status, result.new_token.verifies) == ("failed", True)


# Asynchronous invokers


def test_asynchronous_invokers_are_awaited() -> None:
    async def all_of_it() -> None:
        log = log_of(1, 2, 3)
        token = log.tokens_for_flow("default")[0]
        assert (await replay_token_async(token, AsyncInvoker(lambda *_: 1))).matches
        failed = await replay_token_async(token, AsyncInvoker(lambda *_: fail(OSError("x"))))
        assert failed.reason == "effect_failed"
        result = await replay_flow_async(log, "default", AsyncInvoker(lambda name, _: int(name[4:]) + 1))
        assert result.passed
        assert (await replay_flow_async(log, "default", by_step(1, 2, 3))).passed, "a blocking one is taken too"

    asyncio.run(all_of_it())


def test_an_asynchronous_invoker_is_not_taken_for_a_blocking_one() -> None:
    with pytest.raises(InvalidInput) as refused:
        replay_token(built("ask", 1), AsyncInvoker(lambda *_: 1))
    assert refused.value.code == "async_invoker"


def test_a_cancellation_is_no_outcome() -> None:
    async def all_of_it() -> None:
        with pytest.raises(asyncio.CancelledError):
            await replay_token_async(built("ask", 1), AsyncInvoker(lambda *_: fail(asyncio.CancelledError())))  # type: ignore[arg-type]

    asyncio.run(all_of_it())
