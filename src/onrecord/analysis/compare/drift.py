"""One step judged: what was recorded against what came now, under a tolerance and masks.

The verdict:

- **pass**: nothing differs. What is masked, and what a rule or `tools="ignore"` ignores, takes no part at all.
- **drift**: something differs and the tolerance allows each of it: counters that moved within their limit, text that
  the rule for content lets pass, tools that came in another order where that is allowed.
- **broken**: at least one difference that the tolerance does not allow.

| what differs | exact tolerance | where the tolerance allows it | never allowed |
|---|---|---|---|
| a counter moved | broken | within its limit: drift | beyond it: broken |
| a counter on one side only | broken | | broken |
| text | broken | normalised, or by the judge: drift | labels: broken |
| structure (another type, member, item, number, order) | broken | | broken |
| tools in another order | broken | `same_calls`, `same_tools`: drift | |
| a tool call with something else in it | broken | `same_tools`, or all of it within tolerance: drift | |
| a tool call missing, unexpected, twice | broken | | broken |
| attestations | broken | | broken |
| no value on record (its type only, erased, no outcome) | broken | | broken |

Only a rule for its path that says *ignore*, or a mask, takes something out of "never". An outcome that is not there
at all is broken with `replay_not_replayable`: nothing to compare is never a pass.

Tool calls that a model asked for in its answer are judged as tools, not as structure; paths of tool events begin with
`/tool_events`, those of calls in the answer with `/tool_calls`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from reenact.replays.comparing import reasons as codes
from reenact.replays.comparing.attestations import Attestation, AttestationDiff, attestations_in, compare_attestations
from reenact.replays.comparing.judging import CounterPair, judge
from reenact.replays.comparing.masks import Masks
from reenact.replays.comparing.reasons import Reason, Reasons
from reenact.replays.comparing.tolerance import EXACT, DriftTolerance
from reenact.replays.comparing.tool_calls import ToolCall, without_tool_calls
from reenact.replays.comparing.tool_events import ToolDiff, ToolFinding, compare_tool_events
from reenact.replays.comparing.trees import TreeDiff, tree_digest

Verdict = Literal["pass", "drift", "broken"]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one step: a plain tree, the tool events on the way, the attestations it names.

    Attestations that are not given are looked for in the value, under `attestation_ids` and `attestations`. `kind` says
    which masks apply to the value (`model_response`, or the kind of the event it comes from).
    """

    value: Any
    tool_events: list[Any] | None = None
    attestations: tuple[Attestation, ...] | None = None
    kind: str = "outcome"


@dataclasses.dataclass(frozen=True, slots=True)
class NotReplayable:
    """In place of an outcome that is not there: no answer on record, erased, or refused."""

    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class StepDrift:
    """The verdict on one step: pass, drift (numbers moved within the tolerance) or broken, with its reasons."""

    verdict: Verdict
    reasons: tuple[Reason, ...]
    """The first ones, those that break come first; `reason_count` counts all."""
    reason_count: int
    counters: tuple[CounterPair, ...] = ()
    """Every counter of both sides, by path."""
    differences: TreeDiff | None = None
    """Of the structure; None when there was nothing to compare."""
    tools: ToolDiff | None = None
    calls: ToolDiff | None = None
    """Of the tool calls that the model's answer asks for."""
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
    expected: Outcome | NotReplayable,
    actual: Outcome | NotReplayable,
    tolerance: DriftTolerance = EXACT,
    masks: Masks | None = None,
) -> StepDrift:
    """`expected` is what was recorded, `actual` what came now."""
    if isinstance(expected, NotReplayable) or isinstance(actual, NotReplayable):
        return _without_outcome(expected, actual)
    digests = tree_digest(expected.value), tree_digest(actual.value)  # first: this refuses what is not plain
    chosen = Masks() if masks is None else masks
    reasons = Reasons()
    left, right = _taken_apart(expected, chosen), _taken_apart(actual, chosen)
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


def _without_outcome(expected: Outcome | NotReplayable, actual: Outcome | NotReplayable) -> StepDrift:
    reasons = Reasons()
    for side in (expected, actual):
        if isinstance(side, NotReplayable):
            reasons.add(Reason(codes.NOT_REPLAYABLE, "", side.why))
    return StepDrift(
        verdict="broken",
        reasons=reasons.kept(),
        reason_count=reasons.broken,
        expected_digest=tree_digest(expected.value) if isinstance(expected, Outcome) else None,
        actual_digest=tree_digest(actual.value) if isinstance(actual, Outcome) else None,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Parts:
    value: Any
    calls: list[ToolCall]
    attestations: list[Attestation]


def _taken_apart(outcome: Outcome, masks: Masks) -> _Parts:
    value = masks.applied(outcome.kind, outcome.value)
    attestations = outcome.attestations
    if attestations is None:
        value, found = attestations_in(value)
        attestations = tuple(found)
    without = without_tool_calls(value)
    return _Parts(without.tree, without.calls, list(attestations))


def _as_events(calls: list[ToolCall]) -> list[Any]:
    return [call.to_data() for call in calls]


def _judge_attestations(diff: AttestationDiff, reasons: Reasons) -> None:
    places = {name: index for ids in (diff.actual, diff.expected) for index, name in reversed(list(enumerate(ids)))}
    expected, actual = set(diff.expected), set(diff.actual)
    for kind, ids in diff.findings.items():
        code = codes.ATTESTATION_FORGED if kind == "forged" else codes.ATTESTATION_DIFF
        for name in ids:
            was, came = (name if name in side else None for side in (expected, actual))
            reasons.add(Reason(code, f"/attestations/{places[name]}", kind, was, came))


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
        tolerated = _tolerated(finding, reason, tolerance)
        if tolerated is not None:
            reasons.add(reason._replace(tolerated=tolerated))


def _tolerated(finding: ToolFinding, reason: Reason, tolerance: DriftTolerance) -> bool | None:
    """Whether the tolerance allows it; None: what differs is ignored, so there is nothing to tell."""
    if finding.kind == "reordered":
        return tolerance.tools in ("same_calls", "same_tools")
    if finding.kind != "changed":
        return False
    inner = Reasons()
    judge(reason.expected, reason.actual, tolerance, inner, reason.path)
    if not inner.broken and not inner.tolerated:
        return None
    return tolerance.tools == "same_tools" or not inner.broken
