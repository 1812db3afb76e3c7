"""A run and the run that replayed it live: every effect paired and judged, and nothing that passes by default."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest

from kit.live_replays import UNANSWERED, UNENDED, Done, asked, mailed, readers, write
from onrecord.analysis.compare.tolerance import DriftTolerance, PathRule
from onrecord.analysis.compare.trees import tree_digest
from onrecord.analysis.live import ReplayBroken, RunReplay, judge_runs, keep_differences
from onrecord.core.events import ActionDenied, Completed
from onrecord.core.hashing import artifact_address, render
from onrecord.errors import InvalidInput, NotFound
from onrecord.journal.chain import Draft
from onrecord.journal.erasure import erase_value
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.proof.evidence import fetch_difference
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

EFFECTS = [asked("one", "first"), asked("two", "second"), mailed("ann")]


def judged(
    store: Store,
    expected: list[Done],
    actual: list[Done],
    *,
    ends: tuple[Any, Any] = ("fine", "fine"),
    tolerance: DriftTolerance | None = None,
    stop_at_first: bool = False,
) -> RunReplay:
    write(store, "a", expected, end=ends[0])
    write(store, "c", actual, end=ends[1], replays="a")
    a, c = readers(store, "a", "c")
    return judge_runs(a, c, tolerance or DriftTolerance(), stop_at_first=stop_at_first)


def one(answer: Any, other: Any, tolerance: DriftTolerance | None = None) -> RunReplay:
    return judged(MemoryStore(), [asked("one", answer)], [asked("one", other)], tolerance=tolerance)


def test_the_same_again_is_a_pass(store: Store) -> None:
    replay = judged(store, EFFECTS, EFFECTS)
    assert replay.verdict == "pass"
    assert replay.codes == ()
    assert [step.verdict for step in replay.steps] == ["pass"] * 4
    assert replay.counts["live"] == 3
    assert replay.steps[-1].name == "(end)"
    assert replay.exit_status == 0
    replay.raise_if_broken()


def test_the_report_is_plain_json(memory: MemoryStore) -> None:
    replay = judged(memory, EFFECTS, [asked("one", {"odd": (1, math.inf)}), *EFFECTS[1:]])
    data = json.loads(json.dumps(replay.to_data()))
    assert data["verdict"] == "broken"
    assert data["tolerance"]["tokens"] == 0.0
    assert data["steps"][0]["expected_digest"] != data["steps"][0]["actual_digest"]
    assert data["steps"][0]["actual"] == {"odd": {"$tuple": [1, {"$float": "inf"}]}}


def test_one_bad_step_keeps_the_others(memory: MemoryStore) -> None:
    replay = judged(memory, EFFECTS, [EFFECTS[0], asked("two", "another"), EFFECTS[2]])
    assert [step.verdict for step in replay.steps] == ["pass", "broken", "pass", "pass"]
    assert replay.codes == ("replay_content_diff",)
    assert replay.exit_status == 1
    with pytest.raises(ReplayBroken) as broken:
        replay.raise_if_broken()
    assert broken.value.code == "replay_content_diff"
    assert "seq 3" in broken.value.hint


def test_stop_at_first_keeps_the_steps_so_far_and_says_so(memory: MemoryStore) -> None:
    replay = judged(memory, EFFECTS, [EFFECTS[0], asked("two", "another"), EFFECTS[2]], stop_at_first=True)
    assert [step.verdict for step in replay.steps] == ["pass", "broken"]
    assert replay.stopped
    assert "stopped" in replay.message


def test_numbers_may_drift_within_the_tolerance_and_text_may_not(memory: MemoryStore) -> None:
    answer = {"text": "fine", "usage": {"total_tokens": 1000}}
    tolerance = DriftTolerance(tokens=0.01)
    near = one(answer, {**answer, "usage": {"total_tokens": 1005}}, tolerance)
    assert (near.verdict, near.exit_status) == ("drift", 0)
    near.raise_if_broken()
    far = one(answer, {**answer, "usage": {"total_tokens": 1050}}, tolerance)
    assert (far.verdict, far.codes) == ("broken", ("replay_token_drift",))
    assert one(answer, {**answer, "text": "fin"}, tolerance).codes == ("replay_content_diff",)


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"tokens": 5, "inner": {"tokens": 5000}}, "replay_token_drift"),
        ({"tokens": 5}, "replay_counter_missing"),
        ({"tokens": 5, "inner": {}}, "replay_counter_missing"),
        ({"tokens": 5, "inner": {"tokens": "many"}}, "replay_counter_missing"),
    ],
)
def test_a_second_counter_does_not_pass_unseen(other: Any, code: str) -> None:
    replay = one({"tokens": 5, "inner": {"tokens": 5}}, other, DriftTolerance(tokens=0.5))
    assert replay.verdict == "broken"
    assert code in replay.codes


def test_zero_to_something_is_beyond_any_relative_tolerance() -> None:
    assert one({"cost": 0}, {"cost": 0}).verdict == "pass"
    assert one({"cost": 0}, {"cost": 0.01}, DriftTolerance(cost=100.0)).verdict == "broken"


def test_another_input_is_named_by_its_path(memory: MemoryStore) -> None:
    replay = judged(memory, EFFECTS, [asked("one", "first"), asked("too", "second"), mailed("ann")])
    step = replay.steps[1]
    assert step.verdict == "broken"
    assert [(reason.code, reason.path) for reason in step.reasons] == [("replay_input_diff", "/input/question")]
    assert (step.reasons[0].expected, step.reasons[0].actual) == ("two", "too")


def test_what_may_drift_in_an_answer_may_drift_where_the_conversation_repeats_it(memory: MemoryStore) -> None:
    def talk(said: str) -> list[Done]:
        return [asked("one", said), Done("ask", {"messages": [{"role": "assistant", "content": said}]}, "fine")]

    replay = judged(memory, talk("It is 1,000."), talk("it is  1000."), tolerance=DriftTolerance(content="normalised"))
    assert [step.verdict for step in replay.steps] == ["drift", "drift", "pass"]
    assert replay.verdict == "drift"


def test_ids_that_a_model_draws_anew_do_not_break_the_conversation(memory: MemoryStore) -> None:
    def talk(drawn: str) -> list[Done]:
        call = {"id": drawn, "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
        said = {"role": "assistant", "tool_calls": [call]}
        answer = {"id": f"chatcmpl-{drawn}", "choices": [{"message": said}]}
        messages = [said, {"role": "tool", "tool_call_id": drawn, "content": "42"}]
        return [asked("one", answer), Done("ask", {"request": {"messages": messages}}, "fine")]

    assert judged(memory, talk("call_1"), talk("call_2")).verdict == "pass"


@dataclasses.dataclass
class Usage:
    total_tokens: int


@dataclasses.dataclass
class Answer:
    id: str
    text: str
    usage: Usage


@dataclasses.dataclass
class OtherAnswer(Answer):
    pass


def test_answers_that_are_objects_are_compared_by_their_fields() -> None:
    recorded = Answer("drawn-1", "fine", Usage(1000))
    assert one(recorded, Answer("drawn-2", "fine", Usage(1000))).verdict == "pass"
    near = one(recorded, Answer("drawn-2", "fine", Usage(1005)), DriftTolerance(tokens=0.01))
    assert (near.verdict, near.steps[0].reasons[0].path) == ("drift", "/usage/total_tokens")
    assert one(recorded, Answer("drawn-1", "fin", Usage(1000))).codes == ("replay_content_diff",)
    other = one(recorded, OtherAnswer("drawn-1", "fine", Usage(1000)))
    assert (other.verdict, other.codes) == ("broken", ("replay_structure_diff",))


def test_the_digests_are_those_of_what_was_recorded() -> None:
    step = one({"id": "drawn-1"}, {"id": "drawn-2"}).steps[0]
    assert step.verdict == "pass"
    assert step.expected_digest == tree_digest({"id": "drawn-1"})
    assert step.actual_digest == tree_digest({"id": "drawn-2"})


def test_missing_and_unexpected_effects_are_told(memory: MemoryStore) -> None:
    replay = judged(memory, EFFECTS, [EFFECTS[0], Done("search", {"q": 1}, "found", kind="tool_call"), EFFECTS[2]])
    assert [(step.name, step.verdict, step.how) for step in replay.steps] == [
        ("ask", "pass", "live"),
        ("search", "unexpected", "live"),
        ("ask", "missing", "none"),
        ("mail", "pass", "live"),
        ("(end)", "pass", "live"),
    ]
    assert set(replay.codes) == {"replay_effect_unexpected", "replay_effect_missing"}


def test_a_call_put_in_between_is_one_unexpected_call(memory: MemoryStore) -> None:
    questions = [asked(name, name) for name in ("a", "b", "c")]
    replay = judged(memory, questions, [questions[0], asked("x", "x"), *questions[1:]])
    assert [step.verdict for step in replay.steps] == ["pass", "unexpected", "pass", "pass", "pass"]


@pytest.mark.parametrize("ends", [("fine", "fine"), (UNENDED, UNENDED)])
def test_nothing_of_nothing_is_no_pass(ends: tuple[Any, Any]) -> None:
    replay = judged(MemoryStore(), [], [], ends=ends)
    assert replay.verdict == "broken"
    assert replay.codes == ("replay_empty",)
    assert replay.exit_status == 1
    with pytest.raises(ReplayBroken):
        replay.raise_if_broken()


def test_a_live_replay_that_was_served_from_the_record_is_no_pass(memory: MemoryStore) -> None:
    served = [effect._replace(stood_in=1 + 2 * number) for number, effect in enumerate(EFFECTS)]
    replay = judged(memory, EFFECTS, served)
    assert [step.how for step in replay.steps[:-1]] == ["recorded"] * 3
    assert [step.verdict for step in replay.steps[:-1]] == ["recorded"] * 3
    assert (replay.verdict, replay.codes) == ("broken", ("replay_nothing_live",))


def test_a_sleep_alone_is_no_evidence(memory: MemoryStore) -> None:
    nap = Done("sleep", {"seconds": 1}, None, kind="sleep")
    served = [asked("one", "first", stood_in=1), nap]
    assert judged(memory, [asked("one", "first"), nap], served).codes == ("replay_nothing_live",)


def test_what_was_served_and_what_was_carried_out_are_told_apart(memory: MemoryStore) -> None:
    replay = judged(memory, EFFECTS, [*EFFECTS[:2], mailed("ann", stood_in=5)])
    assert [step.how for step in replay.steps] == ["live", "live", "recorded", "live"]
    assert (replay.verdict, replay.counts["live"], replay.counts["recorded"]) == ("pass", 2, 1)


def test_something_else_cannot_pass_as_served_from_the_record(memory: MemoryStore) -> None:
    replay = judged(memory, EFFECTS, [*EFFECTS[:2], mailed("ann", "lost", stood_in=5)])
    assert replay.codes == ("replay_stand_in_diff",)


def test_served_to_another_input_is_broken(memory: MemoryStore) -> None:
    replay = judged(memory, EFFECTS, [*EFFECTS[:2], mailed("bob", stood_in=5)])
    assert (replay.steps[2].verdict, replay.codes) == ("broken", ("replay_input_diff",))


def test_an_unknown_run_is_not_found(memory: MemoryStore) -> None:
    write(memory, "a", EFFECTS)
    with pytest.raises(NotFound) as unknown:
        judge_runs(*readers(memory, "a", "nobody"))
    assert unknown.value.code == "unknown_run"
    with pytest.raises(InvalidInput) as same:
        judge_runs(*readers(memory, "a", "a"))
    assert same.value.code == "same_run"


def test_an_erased_answer_is_not_replayable(store: Store) -> None:
    write(store, "a", [asked("one", "a secret answer"), asked("two", "second")])
    write(store, "c", [asked("one", "another answer"), asked("two", "second")], replays="a")
    erase_value(store, "a secret answer", reason="asked for")
    replay = judge_runs(*readers(store, "a", "c"))
    assert [step.verdict for step in replay.steps] == ["not_replayable", "pass", "pass"]
    assert replay.codes == ("replay_not_replayable",)
    assert replay.steps[0].reasons[0].what == "erased"
    assert replay.exit_status == 7


def test_what_was_recorded_as_its_type_only_is_not_replayable() -> None:
    replay = one({"client": object()}, {"client": object()})
    assert replay.steps[0].verdict == "not_replayable"
    assert (replay.verdict, replay.exit_status) == ("broken", 7)


def test_a_real_difference_is_broken_though_something_else_has_no_value() -> None:
    replay = one({"client": object(), "text": "a"}, {"client": object(), "text": "b"})
    assert replay.steps[0].verdict == "broken"
    assert replay.exit_status == 1


def test_how_the_runs_ended_is_judged(memory: MemoryStore) -> None:
    replay = judged(memory, EFFECTS, EFFECTS, ends=({"answer": "yes"}, {"answer": "no"}))
    end = replay.steps[-1]
    assert (end.name, end.verdict, end.reasons[0].path) == ("(end)", "broken", "/answer")


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        (("fine", UNENDED), "replay_end_missing"),
        ((UNENDED, "fine"), "replay_end_unexpected"),
        (("fine", ValueError("no")), "replay_status_diff"),
        ((ValueError("no"), ValueError("never")), "replay_content_diff"),
    ],
)
def test_ends_that_are_not_the_same(ends: tuple[Any, Any], code: str) -> None:
    replay = judged(MemoryStore(), EFFECTS, EFFECTS, ends=ends)
    assert (replay.verdict, replay.codes) == ("broken", (code,))


def test_an_effect_that_was_never_answered(memory: MemoryStore) -> None:
    replay = judged(memory, EFFECTS[:1], [asked("one", UNANSWERED)], ends=("fine", UNENDED))
    assert replay.codes == ("replay_nothing_live", "replay_no_answer", "replay_end_missing")
    other = judged(MemoryStore(), [asked("one", UNANSWERED)], EFFECTS[:1], ends=(UNENDED, UNENDED))
    assert other.steps[0].verdict == "not_replayable"
    assert other.steps[0].reasons[0].what == "no_recorded_answer"


def test_a_failure_is_an_outcome() -> None:
    assert one(ValueError("no"), ValueError("no")).verdict == "pass"
    assert one(ValueError("no"), KeyError("no")).codes == ("replay_structure_diff", "replay_content_diff")
    assert one(ValueError("no"), "yes").codes == ("replay_status_diff",)
    assert one("yes", ValueError("no")).codes == ("replay_status_diff",)


def test_an_error_is_its_class_and_its_message_whatever_hangs_on_it() -> None:
    error, other = ConnectionError("refused"), ConnectionError("refused")
    error.request, other.request = object(), "another"  # type: ignore[attr-defined]
    assert one(error, other).verdict == "pass"


def test_calls_in_another_order_never_differ_without_a_reason(memory: MemoryStore) -> None:
    calls = [mailed("ann"), mailed("bob"), asked("one", "first")]
    swapped = [calls[1], calls[0], calls[2]]
    replay = judged(memory, calls, swapped)
    assert (replay.verdict, replay.codes) == ("broken", ("replay_order_diff",))
    assert replay.reasons[0].path == "main/mail/1"
    allowed = judged(MemoryStore(), calls, swapped, tolerance=DriftTolerance(tools="same_calls"))
    assert (allowed.verdict, allowed.codes) == ("drift", ("replay_order_diff",))


def test_lanes_that_began_in_another_order_are_still_themselves(memory: MemoryStore) -> None:
    first, second = asked("one", "first", lane="main>a"), asked("two", "second", lane="main>a#1")
    replay = judged(memory, [first, second], [second._replace(lane="main>a"), first._replace(lane="main>a#1")])
    assert replay.verdict == "pass"


def test_lanes_in_another_order_are_told_where_they_really_differ(memory: MemoryStore) -> None:
    def lane(number: int, first: str, second: str) -> list[Done]:
        return [asked(first, "x", lane=f"main>a#{number}"), asked(second, "x", lane=f"main>a#{number}")]

    recorded = [*lane(1, "one", "p"), *lane(2, "two", "q")]
    replay = judged(memory, recorded, [*lane(1, "two", "q"), *lane(2, "one", "other")])
    assert [step.verdict for step in replay.steps] == ["pass", "broken", "pass", "pass", "pass"]
    assert (replay.steps[1].reasons[0].expected, replay.steps[1].reasons[0].actual) == ("p", "other")


def test_attestations_in_another_order_say_which() -> None:
    replay = one({"attestation_ids": ["a", "b"]}, {"attestation_ids": ["b", "a"]})
    assert replay.codes == ("replay_attestation_diff",)
    assert [reason.what for reason in replay.steps[0].reasons] == ["reordered"]


def test_tool_events_are_judged_without_their_volatile_ids() -> None:
    def events(span: str, said: str) -> dict[str, Any]:
        return {"text": "done", "tool_events": [{"name": "sh", "span_id": span, "output": said}]}

    assert one(events("s1", "ok"), events("s2", "ok")).verdict == "pass"
    assert one(events("s1", "ok"), events("s2", "not ok")).codes == ("replay_tool_diff",)


def test_tools_may_be_left_out_or_given_something_else(memory: MemoryStore) -> None:
    other = [*EFFECTS[:2], mailed("bob", "bounced")]
    same_tools = judged(memory, EFFECTS, other, tolerance=DriftTolerance(tools="same_tools"))
    assert same_tools.verdict == "drift"
    ignored = judged(MemoryStore(), EFFECTS, EFFECTS[:2], tolerance=DriftTolerance(tools="ignore"))
    assert (ignored.verdict, ignored.steps[2].verdict) == ("pass", "ignored")
    assert judged(MemoryStore(), EFFECTS, EFFECTS[:2]).codes == ("replay_effect_missing",)


def test_another_tool_under_the_same_explicit_key(memory: MemoryStore) -> None:
    replay = judged(memory, [mailed("ann", key="k")], [Done("fax", {"to": "ann"}, "sent", "tool_call", key="k")])
    assert replay.codes == ("replay_effect_diff",)


def test_a_path_may_be_ignored_in_inputs_and_outputs_apart() -> None:
    rules = (PathRule.ignore("/nonce"),)
    assert one({"nonce": 1}, {"nonce": 2}, DriftTolerance(rules=rules)).verdict == "pass"
    asked_with = [Done("ask", {"nonce": 1}, "x")], [Done("ask", {"nonce": 2}, "x")]
    assert judged(MemoryStore(), *asked_with, tolerance=DriftTolerance(rules=rules)).verdict == "broken"
    both = (PathRule.ignore("/input/nonce"),)
    assert judged(MemoryStore(), *asked_with, tolerance=DriftTolerance(rules=both)).verdict == "pass"


def test_a_judge_of_content_that_fails_loses_nothing_else(memory: MemoryStore) -> None:
    def judge(expected: str, actual: str) -> bool:
        raise RuntimeError("out of tokens")

    tolerance = DriftTolerance(content=judge)
    replay = judged(memory, EFFECTS, [EFFECTS[0], asked("two", "other"), EFFECTS[2]], tolerance=tolerance)
    assert [step.verdict for step in replay.steps] == ["pass", "broken", "pass", "pass"]
    assert replay.codes == ("replay_judge_failed",)


@pytest.mark.parametrize("number", [math.nan, -0.1, math.inf])
def test_tolerances_that_mean_nothing_are_refused(number: float) -> None:
    with pytest.raises(InvalidInput) as refused:
        DriftTolerance(tokens=number)
    assert refused.value.code == "bad_tolerance"


def test_differences_are_kept_under_their_digest(store: Store) -> None:
    replay = judged(store, EFFECTS, [EFFECTS[0], asked("two", "another"), EFFECTS[2]])
    kept = keep_differences(store, replay)
    assert [step.difference is not None for step in kept.steps] == [False, True, False, False]
    digest = kept.steps[1].difference
    assert digest is not None
    data = fetch_difference(store, "default", digest)
    assert render(artifact_address(data)) == digest
    assert json.loads(data)["reasons"][0]["code"] == "replay_content_diff"
    assert kept.to_data()["steps"][1]["difference"] == digest


def test_what_policy_denied_in_both_runs_is_no_evidence(memory: MemoryStore) -> None:
    for run in ("a", "c"):
        with Journal.create(memory, run) as journal:
            reason = {"code": "denied", "message": "no", "name": "ask", "effect": "model_call"}
            journal.append([Draft(ActionDenied("k", reason, {"q": 1}), key="main/ask/0"), Completed("fine")])
    replay = judge_runs(*readers(memory, "a", "c"))
    assert (replay.steps[0].how, replay.codes) == ("none", ("replay_nothing_live",))


def test_neither_run_is_changed(store: Store) -> None:
    judged(store, EFFECTS, EFFECTS[:2])
    heads = [JournalReader(store, run).head() for run in ("a", "c")]
    judge_runs(*readers(store, "a", "c"))
    assert [JournalReader(store, run).head() for run in ("a", "c")] == heads
