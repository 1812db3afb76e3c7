"""The verdict of one step, cell by cell of the table in `onrecord.analysis.compare.drift`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onrecord.analysis.compare.attestations import Attestation
from onrecord.analysis.compare.drift import MissingOutcome, Outcome, StepDrift, compare_outcomes
from onrecord.analysis.compare.masks import MaskRule, Masks
from onrecord.analysis.compare.tolerance import DriftTolerance, PathRule
from onrecord.analysis.compare.trees import tree_digest
from onrecord.core.codec import encode
from onrecord.errors import InvalidInput, InvalidValue

ONE_PERCENT = DriftTolerance(tokens=0.01, cost=0.01)
NORMALISED = DriftTolerance(content="normalised")


def drift(expected: Any, actual: Any, tolerance: DriftTolerance | None = None, **more: Any) -> StepDrift:
    return compare_outcomes(Outcome(expected), Outcome(actual), tolerance or DriftTolerance(), **more)


def told(found: StepDrift) -> tuple[str, list[tuple[str, str]]]:
    return found.verdict, [(reason.code, reason.path) for reason in found.reasons]


CELLS: list[tuple[Any, Any, DriftTolerance, str, list[tuple[str, str]]]] = [
    # equal, and equal but for how it is written
    ({"a": 1, "tokens": 5}, {"tokens": 5.0, "a": 1.0}, DriftTolerance(), "pass", []),
    # a counter moved
    ({"tokens": 100}, {"tokens": 101}, DriftTolerance(), "broken", [("replay_token_drift", "/tokens")]),
    ({"tokens": 100}, {"tokens": 101}, ONE_PERCENT, "drift", [("replay_token_drift", "/tokens")]),
    ({"tokens": 100}, {"tokens": 102}, ONE_PERCENT, "broken", [("replay_token_drift", "/tokens")]),
    ({"cost": 1.0}, {"cost": 1.01}, ONE_PERCENT, "drift", [("replay_cost_drift", "/cost")]),
    ({"cost": 1.0}, {"cost": 1.02}, ONE_PERCENT, "broken", [("replay_cost_drift", "/cost")]),
    ({"tokens": 9}, {"tokens": 12}, DriftTolerance(tokens_absolute=3), "drift", [("replay_token_drift", "/tokens")]),
    ({"cost": 9}, {"cost": 12}, DriftTolerance(tokens_absolute=3), "broken", [("replay_cost_drift", "/cost")]),
    ({"cost": 9}, {"cost": 12}, DriftTolerance(cost_absolute=3), "drift", [("replay_cost_drift", "/cost")]),
    # a counter on one side only
    ({"tokens": 5, "a": {"cost": 0}}, {"tokens": 5, "a": {}}, DriftTolerance(cost=9, cost_absolute=9), "broken",
     [("replay_counter_missing", "/a/cost")]),
    ({}, {"tokens": 0}, DriftTolerance(tokens=9, tokens_absolute=9), "broken", [("replay_counter_missing", "/tokens")]),
    # text
    ({"text": "Hello  World"}, {"text": "hello world"}, DriftTolerance(), "broken", [("replay_content_diff", "/text")]),
    ({"text": "Hello  World"}, {"text": "hello world"}, NORMALISED, "drift", [("replay_content_diff", "/text")]),
    ({"text": "Hello"}, {"text": "Goodbye"}, NORMALISED, "broken", [("replay_content_diff", "/text")]),
    ("Hello", "hello", NORMALISED, "drift", [("replay_content_diff", "")]),
    ({"role": "user"}, {"role": "USER"}, NORMALISED, "broken", [("replay_structure_diff", "/role")]),
    ({"role": "a"}, {"role": "b"}, DriftTolerance(content=lambda *_: True), "broken",
     [("replay_structure_diff", "/role")]),
    # structure
    ({"n": 1}, {"n": 2}, DriftTolerance(tokens=9, cost=9, content=lambda *_: True), "broken",
     [("replay_structure_diff", "/n")]),
    ({"n": 1}, {"n": "1"}, NORMALISED, "broken", [("replay_structure_diff", "/n")]),
    ({"n": 1}, {"n": True}, NORMALISED, "broken", [("replay_structure_diff", "/n")]),
    ({"l": ["a", "b"]}, {"l": ["b", "a"]}, NORMALISED, "broken", [("replay_structure_diff", "/l/0")]),
    ({"l": [1]}, {"l": [1, 2]}, NORMALISED, "broken", [("replay_structure_diff", "/l/1")]),
    ({"max_tokens": 100}, {"max_tokens": 101}, ONE_PERCENT, "broken", [("replay_structure_diff", "/max_tokens")]),
    # drift and breakage together: broken, and what breaks comes first
    ({"tokens": 100, "n": 1}, {"tokens": 101, "n": 2}, ONE_PERCENT, "broken",
     [("replay_structure_diff", "/n"), ("replay_token_drift", "/tokens")]),
    # rules for paths
    ({"n": 1, "m": 1}, {"n": 5, "m": 1}, DriftTolerance(rules=(PathRule.ignore("/n"),)), "pass", []),
    ({"n": 1, "m": 1}, {"n": 5, "m": 2}, DriftTolerance(rules=(PathRule.ignore("/n"),)), "broken",
     [("replay_structure_diff", "/m")]),
    ({"n": 1}, {}, DriftTolerance(rules=(PathRule.ignore("/n"),)), "pass", []),
    ({"a": [{"s": 10}]}, {"a": [{"s": 11}]}, DriftTolerance(rules=(PathRule.numeric("/a/*/s", absolute=1),)), "drift",
     [("replay_number_drift", "/a/0/s")]),
    ({"s": 10}, {"s": 12}, DriftTolerance(rules=(PathRule.numeric("/s", absolute=1),)), "broken",
     [("replay_number_drift", "/s")]),
    ({"s": 0}, {"s": 1}, DriftTolerance(rules=(PathRule.numeric("/s", relative=50),)), "broken",
     [("replay_number_drift", "/s")]),
    ({"s": 10}, {}, DriftTolerance(rules=(PathRule.numeric("/s", absolute=99),)), "broken",
     [("replay_counter_missing", "/s")]),
    ({"tokens": 100}, {"tokens": 101}, DriftTolerance(tokens=0.5, rules=(PathRule.exact("/tokens"),)), "broken",
     [("replay_structure_diff", "/tokens")]),
    ({"x": {"y": "A "}}, {"x": {"y": "a"}}, DriftTolerance(rules=(PathRule.normalised("/**/y"),)), "drift",
     [("replay_content_diff", "/x/y")]),
    ({"x": "A", "y": "A"}, {"x": "a", "y": "a"}, DriftTolerance(rules=(PathRule.normalised("/x"),)), "broken",
     [("replay_content_diff", "/y"), ("replay_content_diff", "/x")]),
    ({"role": "A"}, {"role": "a"}, DriftTolerance(rules=(PathRule.normalised("/role"),)), "drift",
     [("replay_content_diff", "/role")]),
    ({"x": "A"}, {"x": "a"}, DriftTolerance(content="normalised", rules=(PathRule.exact("/x"),)), "broken",
     [("replay_content_diff", "/x")]),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "actual", "tolerance", "verdict", "reasons"), CELLS)
def test_each_cell_of_the_verdict(
    expected: Any, actual: Any, tolerance: DriftTolerance, verdict: str, reasons: list[tuple[str, str]]
) -> None:
    found = drift(expected, actual, tolerance)
    assert told(found) == (verdict, reasons)
    assert found.within_tolerance == (verdict != "broken")
    assert found.reason_count == len(reasons)
    assert json.loads(json.dumps(found.to_data()))["verdict"] == verdict


def test_a_reason_says_what_was_what_came_and_what_is_allowed() -> None:
    [reason] = drift({"usage": {"input_tokens": 100}}, {"usage": {"input_tokens": 150}}, ONE_PERCENT).reasons
    assert reason.to_data() == {
        "code": "replay_token_drift",
        "path": "/usage/input_tokens",
        "what": "moved",
        "expected": 100,
        "actual": 150,
        "allowed": {"relative": 0.01, "absolute": 0.0},
        "tolerated": False,
    }


def test_the_result_holds_counters_of_both_sides_digests_and_differences() -> None:
    expected, actual = {"tokens": 5, "cost": 1, "text": "a"}, {"tokens": 5, "price": 2, "text": "b"}
    found = drift(expected, actual)
    assert [(each.path, each.status, each.expected, each.actual) for each in found.counters] == [
        ("/cost", "missing", 1, None),
        ("/price", "unexpected", None, 2),
        ("/tokens", "equal", 5, 5),
    ]
    assert (found.expected_digest, found.actual_digest) == (tree_digest(expected), tree_digest(actual))
    assert found.differences is not None
    assert [(each.path, each.kind) for each in found.differences.differences] == [("/text", "changed")]


@pytest.mark.parametrize(
    ("judge", "limit", "verdict"),
    [
        (lambda expected, actual: True, 0.0, "drift"),
        (lambda expected, actual: False, 9.0, "broken"),
        (lambda expected, actual: 0.2, 0.2, "drift"),
        (lambda expected, actual: 0.21, 0.2, "broken"),
        (lambda expected, actual: 0, 0.0, "drift"),
        (lambda expected, actual: float("inf"), 1.0, "broken"),
        (lambda expected, actual: (expected, actual) == ("recorded", "now"), 0.0, "drift"),
    ],
)
def test_a_judge_of_content_decides_by_word_or_by_distance(judge: Any, limit: float, verdict: str) -> None:
    tolerance = DriftTolerance(content=judge, content_limit=limit)
    assert drift({"text": "recorded"}, {"text": "now"}, tolerance).verdict == verdict
    assert drift({"text": "same"}, {"text": "same"}, tolerance).verdict == "pass"


@pytest.mark.parametrize("distance", [float("nan"), -0.1, "near", None])
def test_a_judge_that_says_nothing_usable_is_refused(distance: Any) -> None:
    with pytest.raises(InvalidInput) as refusal:
        drift("a", "b", DriftTolerance(content=lambda *_: distance))
    assert refusal.value.code == "bad_distance"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "input": arguments}


@pytest.mark.parametrize(
    ("expected", "actual", "verdicts"),
    [  # under exact, same_calls, same_tools, ignore
        ([call("a"), call("b")], [call("a"), call("b")], ["pass", "pass", "pass", "pass"]),
        ([call("a"), call("b")], [call("b"), call("a")], ["broken", "drift", "drift", "pass"]),
        ([call("pay", cents=5)], [call("pay", cents=5000)], ["broken", "broken", "drift", "pass"]),
        ([call("a")], [call("b")], ["broken", "broken", "broken", "pass"]),
        ([call("a")], [call("a"), call("a")], ["broken", "broken", "broken", "pass"]),
        ([call("a"), call("b")], [call("a")], ["broken", "broken", "broken", "pass"]),
        ([call("a")], [call("a"), call("b")], ["broken", "broken", "broken", "pass"]),
    ],
)
def test_tools_are_judged_by_their_rule(expected: Any, actual: Any, verdicts: list[str]) -> None:
    for rule, verdict in zip(("exact", "same_calls", "same_tools", "ignore"), verdicts, strict=True):
        tolerance = DriftTolerance(tools=rule)  # type: ignore[arg-type]
        found = compare_outcomes(Outcome(1, expected), Outcome(1, actual), tolerance)
        assert found.verdict == verdict
        assert {reason.code for reason in found.reasons} <= {"replay_tool_diff"}
        in_answer = drift(
            {"content": [{"type": "tool_use", "id": "x", **each} for each in expected]},
            {"content": [{"type": "tool_use", "id": "y", **each} for each in actual]},
            tolerance,
        )
        assert in_answer.verdict == verdict


def test_a_tool_event_that_moved_within_tolerance_is_drift() -> None:
    expected, actual = (
        [{"name": "ask", "usage": {"tokens": n}, "stdout": text}] for n, text in ((100, "A"), (101, "a"))
    )
    both = DriftTolerance(tokens=0.01, content="normalised")
    assert compare_outcomes(Outcome(1, expected), Outcome(1, actual), both).verdict == "drift"
    assert compare_outcomes(Outcome(1, expected), Outcome(1, actual), ONE_PERCENT).verdict == "broken"
    ignored = DriftTolerance(rules=(PathRule.ignore("/tool_events/*/usage"), PathRule.ignore("/tool_events/*/stdout")))
    assert compare_outcomes(Outcome(1, expected), Outcome(1, actual), ignored).verdict == "pass"


def test_attestations_are_never_tolerated() -> None:
    loose = DriftTolerance(tokens=9, cost=9, tools="ignore", content=lambda *_: True)
    honest = Attestation.of("a", {"n": 1})
    cases = {
        "missing": ((honest,), ()),
        "unexpected": ((), (honest,)),
        "duplicate": ((honest,), (honest, honest)),
        "reordered": ((honest, Attestation("b")), (Attestation("b"), honest)),
        "changed": ((honest,), (Attestation.of("a", {"n": 2}),)),
        "forged": ((honest,), (Attestation("a", honest.digest, {"n": 2}),)),
    }
    for kind, (expected, actual) in cases.items():
        found = compare_outcomes(Outcome(1, None, expected), Outcome(1, None, actual), loose)
        code = "replay_attestation_forged" if kind == "forged" else "replay_attestation_diff"
        assert [(reason.code, reason.what) for reason in found.reasons] == [(code, kind)]
        assert found.verdict == "broken"


def test_nothing_to_compare_is_never_a_pass() -> None:
    for expected, actual in (
        (MissingOutcome("no answer on record"), Outcome(1)),
        (Outcome(1), MissingOutcome("the model refused")),
        (MissingOutcome("a"), MissingOutcome("a")),
    ):
        found = compare_outcomes(expected, actual)
        assert found.verdict == "broken"
        assert not found.replayable
        assert {reason.code for reason in found.reasons} == {"replay_not_replayable"}
        assert found.to_data()["differences"] is None


def test_values_recorded_as_their_type_only_are_not_replayable_even_when_they_look_alike() -> None:
    tree = encode({"client": open, "n": 1}).tree
    found = drift(tree, tree)
    assert found.verdict == "broken"
    assert {(reason.code, reason.path) for reason in found.reasons} == {("replay_not_replayable", "/client")}
    assert drift(tree, tree, DriftTolerance(rules=(PathRule.ignore("/client"),))).verdict == "pass"


def test_masked_fields_take_no_part_and_their_neighbours_do() -> None:
    masks = Masks([MaskRule("/meta/nonce")])
    assert drift({"meta": {"nonce": 1, "n": 1}}, {"meta": {"nonce": 2, "n": 1}}, masks=masks).verdict == "pass"
    assert drift({"meta": {"nonce": 1, "n": 1}}, {"meta": {"nonce": 2, "n": 2}}, masks=masks).verdict == "broken"
    assert drift({"meta": {"nonce": 1}}, {"meta": {"nonce": 2}}, masks=Masks(())).verdict == "broken"


def test_two_answers_of_a_model_are_equal_but_for_what_is_drawn_anew() -> None:
    def answer(unique: str, text: str) -> Outcome:
        message = {"role": "assistant", "content": text, "tool_calls": None}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        usage = {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}
        return Outcome(
            {"id": unique, "created": len(unique), "choices": choices, "usage": usage}, kind="model_response"
        )

    assert compare_outcomes(answer("chatcmpl-1", "yes"), answer("chatcmpl-22", "yes")).verdict == "pass"
    found = compare_outcomes(answer("chatcmpl-1", "yes"), answer("chatcmpl-22", "no"))
    assert told(found) == ("broken", [("replay_content_diff", "/choices/0/message/content")])


def test_many_differences_are_counted_and_the_first_are_kept() -> None:
    found = drift({"tokens": 1, **{f"k{n}": n for n in range(500)}}, {"tokens": 1.001}, ONE_PERCENT)
    assert found.reason_count == 501
    assert len(found.reasons) == 65
    assert found.reasons[-1].tolerated


def test_what_has_no_end_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for expected, actual in ((Outcome(endless), Outcome(1)), (Outcome(1, endless), Outcome(1))):
        with pytest.raises(InvalidValue):
            compare_outcomes(expected, actual)


def test_a_large_outcome_is_judged() -> None:
    rows = [{"id": n, "usage": {"tokens": 100}, "text": f"row {n}"} for n in range(20_000)]
    moved = [row | {"usage": {"tokens": 101}} for row in rows]
    assert drift(rows, moved, ONE_PERCENT).verdict == "drift"
    assert drift(rows, moved[1:], ONE_PERCENT).verdict == "broken"
