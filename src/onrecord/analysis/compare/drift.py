"""Judge one step: compare the recorded outcome with the new one, under a tolerance and masks.

The verdict:

- **pass**: nothing differs. Masked fields, and fields that a rule or `tools="ignore"` ignores, are not compared.
- **drift**: the tolerance allows every difference: counters that moved within their limit, text that the content rule
  accepts, tools in another order where that is allowed.
- **broken**: at least one difference that the tolerance does not allow.

| what differs | exact tolerance | where the tolerance allows it | never allowed |
|---|---|---|---|
| a counter moved | broken | within its limit: drift | beyond it: broken |
| a counter on one side only | broken | | broken |
| text | broken | normalised, or by the judge: drift | labels: broken |
| structure (another type, member, item, number, order) | broken | | broken |
| tools in another order | broken | `same_calls`, `same_tools`: drift | |
| a tool call with another input or result | broken | `same_tools`, or all of it within tolerance: drift | |
| a tool call missing, unexpected, twice | broken | | broken |
| attestations | broken | | broken |
| no value on record (its type only, erased, no outcome) | broken | | broken |

Only an *ignore* rule for the path, or a mask, exempts a difference from "never allowed". A missing outcome is broken
with `replay_not_replayable`: nothing to compare is never a pass.

Tool calls in a model's answer are judged as tools, not as structure. Paths of tool events begin with `/tool_events`,
those of calls in the answer with `/tool_calls`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from onrecord.analysis.compare import reasons as codes
from onrecord.analysis.compare.attestations import (
    Attestation,
    AttestationDiff,
    compare_attestations,
    extract_attestations,
)
from onrecord.analysis.compare.masks import Masks
from onrecord.analysis.compare.reasons import Reason, Reasons
from onrecord.analysis.compare.tolerance import EXACT, DriftTolerance
from onrecord.analysis.compare.tool_calls import ComparedToolCall, extract_tool_calls
from onrecord.analysis.compare.tool_events import ToolDiff, ToolFinding, compare_tool_events
from onrecord.analysis.compare.trees import TreeDiff, tree_digest
from onrecord.analysis.compare.verdict import CounterPair, judge

Verdict = Literal["pass", "drift", "broken"]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one step: a plain tree, its tool events, and its attestations.

    Without `attestations` they are read from the value, under `attestation_ids` and `attestations`. `kind` selects the
    masks for the value (`model_response`, or the kind of the event).
    """

    value: Any
    tool_events: list[Any] | None = None
    attestations: tuple[Attestation, ...] | None = None
    kind: str = "outcome"


@dataclasses.dataclass(frozen=True, slots=True)
class MissingOutcome:
    """Takes the place of an outcome that was not recorded, was erased, or was refused."""

    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class StepDrift:
    """The verdict on one step: pass, drift (numbers moved within the tolerance) or broken, with its reasons."""

    verdict: Verdict
    reasons: tuple[Reason, ...]
    """The first reasons, broken ones before tolerated ones; `reason_count` counts all."""
    reason_count: int
    counters: tuple[CounterPair, ...] = ()
    """Every counter of both sides, by path."""
    differences: TreeDiff | None = None
    """Differences of the structure; None when there was nothing to compare."""
    tools: ToolDiff | None = None
    calls: ToolDiff | None = None
    """Differences of the tool calls in the model's answer."""
    attestations: AttestationDiff | None = None
    expected_digest: str | None = None
    actual_digest: str | None = None

    @property
    def within_tolerance(self) -> bool:
        return self.verdict != "broken"

    @property
    def replayable(self) -> bool:
        return all(reason.code != codes.NOT_REPLAYABLE for reason in self.reasons)

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "verdict": self.verdict,
            "reasons": [reason.to_data() for reason in self.reasons],
            "reason_count": self.reason_count,
            "counters": [pair.to_data() for pair in self.counters],
            "expected_digest": self.expected_digest,
            "actual_digest": self.actual_digest,
        }
        for name in ("differences", "tools", "calls", "attestations"):
            part = getattr(self, name)
            data[name] = None if part is None else part.to_data()
        return data


def compare_outcomes(
    expected: Outcome | MissingOutcome,
    actual: Outcome | MissingOutcome,
    tolerance: DriftTolerance = EXACT,
    masks: Masks | None = None,
) -> StepDrift:
    """Compare the recorded outcome (`expected`) with the new one (`actual`)."""
    if isinstance(expected, MissingOutcome) or isinstance(actual, MissingOutcome):
        return _judge_missing_outcome(expected, actual)
    digests = (
        tree_digest(expected.value),
        tree_digest(actual.value),
    )  # first, because it refuses values that are not plain
    chosen = Masks() if masks is None else masks
    reasons = Reasons()
    left, right = _split_outcome(expected, chosen), _split_outcome(actual, chosen)
    judged = judge(left.value, right.value, tolerance, reasons)
    attestations = compare_attestations(left.attestations, right.attestations)
    _judge_attestations(attestations, reasons)
    tools = calls = None
    if tolerance.tools != "ignore":
        tools = compare_tool_events(expected.tool_events, actual.tool_events, chosen)
        _judge_tools(tools, "/tool_events", tolerance, reasons)
        calls = compare_tool_events(_as_events(left.calls), _as_events(right.calls), _CALLS_HAVE_NO_ENVELOPE)
        _judge_tools(calls, "/tool_calls", tolerance, reasons)
    return StepDrift(
        verdict=_verdict(reasons),
        reasons=reasons.kept(),
        reason_count=reasons.broken + reasons.tolerated,
        counters=judged.counters,
        differences=judged.differences,
        tools=tools,
        calls=calls,
        attestations=attestations,
        expected_digest=digests[0],
        actual_digest=digests[1],
    )


_CALLS_HAVE_NO_ENVELOPE = Masks(())


def _verdict(reasons: Reasons) -> Verdict:
    if reasons.broken:
        return "broken"
    return "drift" if reasons.tolerated else "pass"


def _judge_missing_outcome(expected: Outcome | MissingOutcome, actual: Outcome | MissingOutcome) -> StepDrift:
    reasons = Reasons()
    for side in (expected, actual):
        if isinstance(side, MissingOutcome):
            reasons.add(Reason(codes.NOT_REPLAYABLE, "", side.why))
    return StepDrift(
        verdict="broken",
        reasons=reasons.kept(),
        reason_count=reasons.broken,
        expected_digest=tree_digest(expected.value) if isinstance(expected, Outcome) else None,
        actual_digest=tree_digest(actual.value) if isinstance(actual, Outcome) else None,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _OutcomeParts:
    value: Any
    calls: list[ComparedToolCall]
    attestations: list[Attestation]


def _split_outcome(outcome: Outcome, masks: Masks) -> _OutcomeParts:
    value = masks.applied(outcome.kind, outcome.value)
    attestations = outcome.attestations
    if attestations is None:
        value, found = extract_attestations(value)
        attestations = tuple(found)
    without = extract_tool_calls(value)
    return _OutcomeParts(without.tree, without.calls, list(attestations))


def _as_events(calls: list[ComparedToolCall]) -> list[Any]:
    return [call.to_data() for call in calls]


def _judge_attestations(diff: AttestationDiff, reasons: Reasons) -> None:
    places = {name: index for ids in (diff.actual, diff.expected) for index, name in reversed(list(enumerate(ids)))}
    expected, actual = set(diff.expected), set(diff.actual)
    for kind, ids in diff.findings.items():
        code = codes.ATTESTATION_FORGED if kind == "forged" else codes.ATTESTATION_DIFF
        for name in ids:
            recorded_id, new_id = (name if name in side else None for side in (expected, actual))
            reasons.add(Reason(code, f"/attestations/{places[name]}", kind, recorded_id, new_id))


def _judge_tools(diff: ToolDiff, at: str, tolerance: DriftTolerance, reasons: Reasons) -> None:
    for finding in diff.findings:
        index = finding.actual_index if finding.expected_index is None else finding.expected_index
        reason = Reason(
            code=codes.TOOL_DIFF,
            path=f"{at}/{index}",
            what=finding.kind,
            expected=None if finding.expected_index is None else diff.expected[finding.expected_index],
            actual=None if finding.actual_index is None else diff.actual[finding.actual_index],
            allowed=tolerance.tools,
        )
        tolerated = _is_tolerated(finding, reason, tolerance)
        if tolerated is not None:
            reasons.add(reason._replace(tolerated=tolerated))


def _is_tolerated(finding: ToolFinding, reason: Reason, tolerance: DriftTolerance) -> bool | None:
    """Return True if the tolerance allows the finding, or None if a rule ignores all that differs."""
    if finding.kind == "reordered":
        return tolerance.tools in ("same_calls", "same_tools")
    if finding.kind != "changed":
        return False
    inner = Reasons()
    judge(reason.expected, reason.actual, tolerance, inner, reason.path)
    if not inner.broken and not inner.tolerated:
        return None
    return tolerance.tools == "same_tools" or not inner.broken
