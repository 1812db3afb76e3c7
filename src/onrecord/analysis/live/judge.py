"""Judge one effect: compare its input and its outcome with the record.

The input is judged under the same tolerance as the outcome, because a conversation repeats earlier answers; its paths
begin with `/input`. An error is judged by its class and message. Tool events under `tool_events` in an outcome are
judged as tool events, without their volatile ids.

The tool rule also applies to the run's own tool calls: with `same_tools` their inputs and results do not matter, with
`ignore` they are not compared.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from onrecord.analysis.compare import reasons as codes
from onrecord.analysis.compare.drift import Outcome, StepDrift, compare_outcomes
from onrecord.analysis.compare.masks import BODY, MODEL_RESPONSE, MaskRule, Masks
from onrecord.analysis.compare.reasons import Reason, Reasons
from onrecord.analysis.compare.tolerance import DriftTolerance
from onrecord.analysis.compare.trees import tree_digest
from onrecord.analysis.compare.verdict import find_missing_values, judge
from onrecord.analysis.live import reasons as live_codes
from onrecord.analysis.live.plain_trees import View, plain_view
from onrecord.analysis.live.results import How, StepReplay, StepVerdict, not_replayable
from onrecord.analysis.live.run_effects import EffectPlace, EffectView
from onrecord.runtime.forks.overrides import replace_model

MODEL_CALL = "model_call"
TOOL_CALL = "tool_call"
PROCESS = "process"
MODEL_REQUEST = "model_request"
"""The mask kind of a model call's input; that of other inputs is `input`."""

_DRAWN_IDS = ("/*/tool_calls/*/id", "/*/tool_call_id", "/*/content/*/id", "/*/content/*/tool_use_id")
_CONVERSATIONS = ("/messages", "/*/messages", "/*/*/messages", "/history", "/conversation")
_REQUEST_MASKS = Masks(MaskRule(place + drawn, MODEL_REQUEST) for place in _CONVERSATIONS for drawn in _DRAWN_IDS)
"""Masks for the ids that link a tool's result to its call: each answer has new ones, which a conversation repeats."""
_OWN_NAME = Masks(
    MaskRule(f"{where}{name}", MODEL_RESPONSE)
    for where in ("", BODY)
    for name in ("/model", "/modelVersion", "/model_version")
)
"""Masks for the model's name in an answer, used when another model was called on request."""


class EffectJudge:
    """Judge of effects under the rules of one replay."""

    def __init__(self, tolerance: DriftTolerance, masks: Masks | None, *, model: str | None = None) -> None:
        self.tolerance = tolerance
        self.given_masks = masks
        self.masks = Masks() if masks is None else masks
        self._model = model
        """The model called instead of the recorded one."""

    def judge_missing(self, place: EffectPlace, expected: EffectView) -> StepReplay:
        reason = Reason(live_codes.EFFECT_MISSING, "", "missing", expected=expected.name)
        return self._judge_unpaired(place, expected, reason, "missing", is_actual=False)

    def judge_unexpected(self, place: EffectPlace, actual: EffectView, how: How) -> StepReplay:
        reason = Reason(live_codes.EFFECT_UNEXPECTED, "", "unexpected", actual=actual.name)
        return self._judge_unpaired(place, actual, reason, "unexpected", is_actual=True, how=how)

    def _judge_unpaired(
        self,
        place: EffectPlace,
        view: EffectView,
        reason: Reason,
        verdict: Literal["missing", "unexpected"],
        *,
        is_actual: bool,
        how: How = "none",
    ) -> StepReplay:
        ignored = self.tolerance.tools == "ignore" and view.kind == TOOL_CALL
        return _make_step(
            place,
            view,
            how,
            "ignored" if ignored else verdict,
            seq=None if is_actual else place.seq,
            replay_seq=place.seq if is_actual else None,
            reasons=() if ignored else (reason,),
            reason_count=0 if ignored else 1,
        )

    def keep_recorded(self, place: EffectPlace, expected: EffectView) -> StepReplay:
        """Return the result for an effect that was not to be executed."""
        return _make_step(place, expected, "recorded", "recorded")

    def judge_unreplayable(self, place: EffectPlace, expected: EffectView, why: str, how: How = "none") -> StepReplay:
        """Return the result for an effect that cannot be replayed."""
        return _make_step(place, expected, how, "not_replayable", reasons=(not_replayable(why),), reason_count=1)

    def judge_effect(
        self,
        place: EffectPlace,
        expected: EffectView,
        actual: EffectView,
        how: How,
        *,
        replay_seq: int | None = None,
        model: str | None = None,
    ) -> StepReplay:
        reasons = Reasons()
        drift: StepDrift | None = None
        try:
            self._judge_request(expected, actual, reasons)
            drift = self._judge_outcome(expected, actual, how, reasons)
        except Exception as error:  # from the caller's content function; the other effects keep their results
            if not callable(self.tolerance.content):
                raise
            reasons.add(Reason(live_codes.JUDGE_FAILED, "", type(error).__name__))
        verdict = _verdict(how, reasons)
        return _make_step(
            place,
            expected,
            how,
            verdict,
            replay_seq=replay_seq,
            reasons=reasons.kept(),
            reason_count=reasons.broken + reasons.tolerated,
            drift=drift,
            expected_digest=_digest(expected),
            actual_digest=_digest(actual),
            actual=actual.output if verdict not in ("pass", "recorded") else None,
            model=model,
        )

    def _judge_request(self, expected: EffectView, actual: EffectView, reasons: Reasons) -> None:
        if "erased" in (expected.input_gap, actual.input_gap):
            reasons.add(not_replayable("erased"))
            return
        for path, recorded_value, new_value in (
            ("/name", expected.name, actual.name),
            ("/kind", expected.kind, actual.kind),
        ):
            if recorded_value != new_value:
                reasons.add(Reason(live_codes.EFFECT_DIFF, path, "changed", recorded_value, new_value))
        found = Reasons()
        kind = MODEL_REQUEST if expected.kind == MODEL_CALL else "input"
        views = plain_view(self.input_for_model(expected)), plain_view(actual.input)
        left, right = (self.masks.applied(kind, _REQUEST_MASKS.applied(kind, one.tree)) for one in views)
        judge(left, right, self.tolerance, found, "/input")
        _judge_classes(*views, found, "/input")
        self._add_reasons(expected, found.kept(), reasons, code=live_codes.INPUT_DIFF)

    def _judge_outcome(self, expected: EffectView, actual: EffectView, how: How, reasons: Reasons) -> StepDrift | None:
        for view in (expected, actual):
            if view.output_gap == "erased":
                reasons.add(not_replayable("erased"))
                return None
        if expected.status is None:
            reasons.add(not_replayable("no_recorded_answer"))
            return None
        if actual.status is None and any(True for _ in find_missing_values(expected.output)):
            reasons.add(not_replayable("output_without_value"))
            return None
        if actual.status is None:
            reasons.add(Reason(live_codes.NO_ANSWER, "", "no answer", expected=expected.status))
            return None
        if expected.status != actual.status:
            changed = Reason(live_codes.STATUS_DIFF, "", "changed", expected.status, actual.status)
            self._add_reasons(expected, (changed,), reasons)
            return None
        recorded_value, new_value = plain_view(expected.output), plain_view(actual.output)
        drift = compare_outcomes(
            self._outcome(expected, recorded_value.tree),
            self._outcome(actual, new_value.tree),
            self.tolerance,
            self.masks,
        )
        if expected.status != "failed":
            found = Reasons()
            _judge_classes(recorded_value, new_value, found, "")
            drift = _with_reasons(drift, found)
        if how == "recorded" and drift.verdict != "pass":
            first = drift.reasons[0]
            code = codes.NOT_REPLAYABLE if not drift.replayable else live_codes.STAND_IN_DIFF
            reasons.add(Reason(code, first.path, first.what, first.expected, first.actual))
            return drift
        self._add_reasons(expected, drift.reasons, reasons, total=drift.reason_count)
        return drift

    def input_for_model(self, view: EffectView) -> Any:
        """Return the recorded input with the model that is called now."""
        changed = (
            replace_model(view.input, self._model) if self._model is not None and view.kind == MODEL_CALL else None
        )
        return view.input if changed is None else changed

    def _outcome(self, view: EffectView, plain: Any) -> Outcome:
        failed = view.status == "failed"
        result = outcome(view.output if failed else plain, view.kind, failed=failed)
        if self._model is None or view.kind != MODEL_CALL:
            return result
        return dataclasses.replace(result, value=_OWN_NAME.applied(result.kind, result.value))

    def _add_reasons(
        self, view: EffectView, found: tuple[Reason, ...], reasons: Reasons, *, code: str | None = None, total: int = 0
    ) -> None:
        """Add reasons, with the tool rule applied to tool calls."""
        rule = self.tolerance.tools if view.kind == TOOL_CALL else "exact"
        if rule == "ignore":
            return
        for one in found:
            if code is not None and one.code == codes.NOT_REPLAYABLE:
                continue  # e.g. a client among the arguments, which the new call has too
            reasons.add(one._replace(code=code or one.code, tolerated=one.tolerated or rule == "same_tools"))
        if total > len(found) and found:
            _count_more(reasons, found[0].tolerated or rule == "same_tools", total - len(found))


def _make_step(place: EffectPlace, view: EffectView, how: How, verdict: StepVerdict, **members: Any) -> StepReplay:
    usual: dict[str, Any] = {"seq": place.seq, "kept_in": place.shared_from, "how": how, "verdict": verdict}
    return StepReplay(key=place.key, name=view.name, kind=view.kind, **(usual | members))


def _digest(view: EffectView) -> str | None:
    """Return the digest of the whole recorded outcome."""
    return None if view.output_gap is not None else tree_digest(view.output)


def _judge_classes(expected: View, actual: View, reasons: Reasons, at: str) -> None:
    """Add a reason for each object whose class changed."""
    for path, name in expected.classes.items():
        other = actual.classes.get(path)
        if other is not None and other != name:
            reasons.add(Reason(codes.STRUCTURE_DIFF, at + path, "changed", name, other, "exact"))


def _with_reasons(drift: StepDrift, more: Reasons) -> StepDrift:
    if not more.broken:
        return drift
    reasons = (*more.kept(), *drift.reasons)
    return dataclasses.replace(drift, verdict="broken", reasons=reasons, reason_count=drift.reason_count + more.broken)


def _count_more(reasons: Reasons, tolerated: bool, more: int) -> None:
    if tolerated:
        reasons.tolerated += more
    else:
        reasons.broken += more


def _verdict(how: How, reasons: Reasons) -> StepVerdict:
    breaking = [reason for reason in reasons.kept() if not reason.tolerated]
    if any(reason.code != codes.NOT_REPLAYABLE for reason in breaking):
        return "broken"
    if breaking:
        return "not_replayable"
    if how == "recorded" and not reasons.tolerated:
        return "recorded"
    return "drift" if reasons.tolerated else "pass"


def outcome(tree: Any, kind: str, *, failed: bool) -> Outcome:
    """Return the outcome of an effect of this kind from an encoded value or error."""
    if failed:
        return Outcome(error_view(tree), kind="error")
    mask_kind = MODEL_RESPONSE if kind == MODEL_CALL else kind
    if isinstance(tree, dict) and isinstance(tree.get("tool_events"), list):
        rest = {name: value for name, value in tree.items() if name != "tool_events"}
        return Outcome(rest, tool_events=tree["tool_events"], kind=mask_kind)
    return Outcome(tree, kind=mask_kind)


def error_view(tree: Any) -> Any:
    """Return the class and message of an error. Attributes may hold clients and requests, which are always new."""
    members = tree.get("$error") if isinstance(tree, dict) else None
    if not isinstance(members, dict):
        return tree
    return {"type": members.get("type"), "message": members.get("message", "")}
