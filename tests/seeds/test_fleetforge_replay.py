"""Seed: FleetForge's replay of steps within a tolerance. Its test cases under their own names, as far as they compare.

Finding the attempts of a run in a store and keeping a diff as an artifact is done elsewhere. Below them, each hole that
the seed had in comparing, by name.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from onrecord.analysis.compare.attestations import Attestation
from onrecord.analysis.compare.drift import MissingOutcome, Outcome, StepDrift, compare_outcomes
from onrecord.analysis.compare.tolerance import DriftTolerance
from onrecord.errors import InvalidInput

ONE_PERCENT = DriftTolerance(tokens=0.01, cost=0.01)


def replayed(baseline: Any, latest: Any, tolerance: DriftTolerance | None = None) -> StepDrift:
    return compare_outcomes(Outcome(baseline), Outcome(latest), tolerance or DriftTolerance())


def codes(drift: StepDrift) -> list[str]:
    return [reason.code for reason in drift.reasons]


def test_mocked_replay_parity() -> None:
    output = {"message": "Weather summary", "metrics": {"tokens": 600, "cost": 0.002}}
    drift = replayed(output, dict(output))
    assert drift.verdict == "pass"
    assert drift.within_tolerance
    assert [(counter.path, counter.status) for counter in drift.counters] == [
        ("/metrics/cost", "equal"),
        ("/metrics/tokens", "equal"),
    ]


def test_mocked_replay_within_one_percent() -> None:
    recorded = {"message": "Original output", "metrics": {"tokens": 100, "cost": 1.00}}
    actual = {"message": "Original output", "metrics": {"tokens": 100.5, "cost": 1.009}}
    drift = replayed(recorded, actual, ONE_PERCENT)
    assert drift.within_tolerance
    assert drift.verdict == "drift"
    assert codes(drift) == ["replay_cost_drift", "replay_token_drift"]
    assert replayed(recorded, actual).verdict == "broken"


def test_mocked_replay_detects_attestation_mismatch() -> None:
    baseline, latest = ({"result": "ok", "attestation_ids": [str(uuid.uuid4())]} for _ in range(2))
    drift = replayed(baseline, latest, ONE_PERCENT)
    assert drift.verdict == "broken"
    assert set(codes(drift)) == {"replay_attestation_diff"}
    assert drift.attestations is not None
    assert drift.attestations.findings == {
        "missing": (baseline["attestation_ids"][0],),
        "unexpected": (latest["attestation_ids"][0],),
    }


def tool_events(stdout: str, span: str) -> list[Any]:
    return [{"kind": "tool.run", "payload": {"stdout": stdout}, "trace": {"span_id": span}}]


def test_mocked_replay_detects_tool_event_mismatch() -> None:
    output = {"result": "value", "attestation_ids": [str(uuid.uuid4())]}
    drift = compare_outcomes(
        Outcome(output, tool_events("hello", "abc")), Outcome(output, tool_events("goodbye", "def"))
    )
    assert drift.verdict == "broken"
    assert codes(drift) == ["replay_tool_diff"]
    assert drift.tools is not None
    [finding] = drift.tools.findings
    assert finding.differences is not None
    assert [each.path for each in finding.differences.differences] == ["/payload/stdout"]


def test_mocked_replay_requires_snapshots() -> None:
    missing = MissingOutcome("missing output snapshots; cannot run mocked replay")
    drift = compare_outcomes(missing, missing)
    assert drift.verdict == "broken"
    assert not drift.within_tolerance
    assert codes(drift) == ["replay_not_replayable"] * 2
    assert "missing output snapshots" in drift.reasons[0].what


# The holes.


def test_hole_a_second_nested_counter_going_from_5_to_5000_is_seen() -> None:
    recorded = {"tokens": 100, "inner": [{"usage": {"tokens": 5}}]}
    actual = {"tokens": 100, "inner": [{"usage": {"tokens": 5000}}]}
    drift = replayed(recorded, actual, ONE_PERCENT)
    assert drift.verdict == "broken"
    assert [(reason.path, reason.expected, reason.actual) for reason in drift.reasons] == [
        ("/inner/0/usage/tokens", 5, 5000)
    ]


@pytest.mark.parametrize(("recorded", "actual"), [({"tokens": 5}, {}), ({}, {"tokens": 5})])
def test_hole_a_counter_missing_on_one_side_is_seen(recorded: Any, actual: Any) -> None:
    assert codes(replayed({"m": recorded}, {"m": actual}, ONE_PERCENT)) == ["replay_counter_missing"]


def test_hole_text_stored_under_tokens_is_seen() -> None:
    drift = replayed({"tokens": "the quick fox"}, {"tokens": "a slow dog"}, ONE_PERCENT)
    assert drift.verdict == "broken"
    assert replayed({"tokens": 5}, {"tokens": "5"}, ONE_PERCENT).verdict == "broken"


def test_hole_a_whole_cost_subtree_is_seen() -> None:
    recorded = {"cost": {"input": 1.0, "items": [{"usd": 2.0}], "currency": "USD"}}
    for actual in (
        {"cost": {"input": 1.0, "items": [{"usd": 20.0}], "currency": "USD"}},
        {"cost": {"input": 1.0, "items": [{"usd": 2.0}], "currency": "EUR"}},
        {"cost": {"input": 1.0, "items": [], "currency": "USD"}},
        {},
    ):
        assert replayed(recorded, actual, ONE_PERCENT).verdict == "broken"


def test_hole_a_zero_base_does_not_turn_a_relative_tolerance_into_an_absolute_one() -> None:
    loose = DriftTolerance(tokens=5.0, cost=5.0)
    assert replayed({"tokens": 0, "cost": 0.0}, {"tokens": 0, "cost": 0.0}, loose).verdict == "pass"
    assert replayed({"tokens": 0}, {"tokens": 1}, loose).verdict == "broken"
    assert replayed({"cost": 0.0}, {"cost": 0.001}, loose).verdict == "broken"
    assert replayed({"tokens": 0}, {"tokens": 1}, DriftTolerance(tokens_absolute=1)).verdict == "drift"


def test_hole_a_reorder_of_attestation_ids_does_not_fail_with_an_empty_diff() -> None:
    drift = replayed({"attestation_ids": ["a", "b"]}, {"attestation_ids": ["b", "a"]})
    assert drift.verdict == "broken"
    assert drift.attestations is not None
    assert drift.attestations.findings == {"reordered": ("a",)}


def test_hole_tool_events_of_an_honest_re_run_do_not_diverge_by_their_span_ids() -> None:
    drift = compare_outcomes(Outcome(1, tool_events("hello", "abc")), Outcome(1, tool_events("hello", "def")))
    assert drift.verdict == "pass"


def test_hole_an_attestation_with_the_right_id_and_a_forged_content_is_refused() -> None:
    honest = Attestation.of("a", {"by": "auditor"})
    forged = Attestation("a", honest.digest, {"by": "nobody"})
    drift = compare_outcomes(Outcome(1, None, (honest,)), Outcome(1, None, (forged,)))
    assert codes(drift) == ["replay_attestation_forged"]


def test_hole_a_step_without_an_outcome_is_not_within_tolerance() -> None:
    assert not compare_outcomes(MissingOutcome("no attempts recorded"), Outcome({})).within_tolerance


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -0.01])
def test_hole_a_tolerance_that_lets_everything_or_nothing_pass_is_refused(number: float) -> None:
    with pytest.raises(InvalidInput) as refusal:
        DriftTolerance(tokens=number)
    assert refusal.value.code == "bad_tolerance"
