"""One effect judged: what it was asked for with, and what came of it, against the record.

The input is judged under the same tolerance as the outcome (a conversation repeats the answers before it, so what may
drift there drifts here too), with paths that begin with `/input`. An error is judged by its class and its message.
Tool events that an outcome holds under `tool_events` are judged as such, without their volatile ids.

The rule for tools holds for tool calls of the run, too: with `same_tools` it does not matter what they were given and
answered, with `ignore` they take no part at all.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from reenact.effect.varying import with_model
from reenact.replays.comparing import reasons as codes
from reenact.replays.comparing.drift import Outcome, StepDrift, compare_outcomes
from reenact.replays.comparing.judging import judge, places_without_value
from reenact.replays.comparing.masks import BODY, MODEL_RESPONSE, MaskRule, Masks
from reenact.replays.comparing.reasons import Reason, Reasons
from reenact.replays.comparing.tolerance import DriftTolerance
from reenact.replays.comparing.trees import tree_digest
from reenact.replays.live import reasons as live_codes
from reenact.replays.live.reading import EffectPlace, EffectView
from reenact.replays.live.results import How, StepReplay, StepVerdict, not_replayable
from reenact.replays.live.views import View, plain_view

MODEL_CALL = "model_call"
TOOL_CALL = "tool_call"
PROCESS = "process"
MODEL_REQUEST = "model_request"
"""The kind under which masks for the input of a model call are looked up; other inputs are an `input`."""

_DRAWN_IDS = (
    "/*/tool_calls/*/id",
    "/*/tool_call_id",
    "/*/content/*/id",
    "/*/content/*/tool_use_id",
)
_CONVERSATIONS = ("/messages", "/*/messages", "/*/*/messages", "/history", "/conversation")
_REQUEST_MASKS = Masks(MaskRule(place + drawn, MODEL_REQUEST) for place in _CONVERSATIONS for drawn in _DRAWN_IDS)
"""Ids that tie a tool's result to its call are drawn anew by every answer, and a conversation repeats them."""
_OWN_NAME = Masks(
    MaskRule(f"{where}{name}", MODEL_RESPONSE)
    for where in ("", BODY)
    for name in ("/model", "/modelVersion", "/model_version")
)
"""What an answer calls its model, where another one was asked on purpose."""


class Judge:
    """The rules of one replay."""

    def __init__(self, tolerance: DriftTolerance, masks: Masks | None, *, model: str | None = None) -> None:
        self.tolerance = tolerance
        self.given_masks = masks
        self.masks = Masks() if masks is None else masks
        self._model = model
        """Another model is asked on purpose."""

    def missing(self, place: EffectPlace, expected: EffectView) -> StepReplay:
        reason = Reason(live_codes.EFFECT_MISSING, "", "missing", expected=expected.name)
        return self._alone(place, expected, reason, "missing", is_actual=False)

    def unexpected(self, place: EffectPlace, actual: EffectView, how: How) -> StepReplay:
        reason = Reason(live_codes.EFFECT_UNEXPECTED, "", "unexpected", actual=actual.name)
        return self._alone(place, actual, reason, "unexpected", is_actual=True, how=how)

    def _alone(
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
        return StepReplay(
            key=place.key,
            name=view.name,
            kind=view.kind,
            seq=None if is_actual else place.seq,
            kept_in=place.shared_from,
            replay_seq=place.seq if is_actual else None,
            how=how,
            verdict="ignored" if ignored else verdict,
            reasons=() if ignored else (reason,),
            reason_count=0 if ignored else 1,
        )

    def recorded(self, place: EffectPlace, expected: EffectView) -> StepReplay:
        """It was not to be carried out."""
        return StepReplay(
            key=place.key,
            name=expected.name,
            kind=expected.kind,
            seq=place.seq,
            kept_in=place.shared_from,
            how="recorded",
            verdict="recorded",
        )

    def refused(self, place: EffectPlace, expected: EffectView, why: str, how: How = "none") -> StepReplay:
        """It cannot be replayed."""
        return StepReplay(
            key=place.key,
            name=expected.name,
            kind=expected.kind,
            seq=place.seq,
            kept_in=place.shared_from,
            how=how,
            verdict="not_replayable",
            reasons=(not_replayable(why),),
            reason_count=1,
        )

    def step(
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
        except Exception as error:  # of a judge that the caller gave: what came of the others is not lost with it
            if not callable(self.tolerance.content):
                raise
            reasons.add(Reason(live_codes.JUDGE_FAILED, "", type(error).__name__))
        verdict = _verdict(how, reasons)
        return StepReplay(
            key=place.key,
            name=expected.name,
            kind=expected.kind,
            seq=place.seq,
            kept_in=place.shared_from,
            replay_seq=replay_seq,
            how=how,
            verdict=verdict,
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
        for path, was, came in (("/name", expected.name, actual.name), ("/kind", expected.kind, actual.kind)):
            if was != came:
                reasons.add(Reason(live_codes.EFFECT_DIFF, path, "changed", was, came))
        found = Reasons()
        kind = MODEL_REQUEST if expected.kind == MODEL_CALL else "input"
        views = plain_view(self.input_asked(expected)), plain_view(actual.input)
        left, right = (self.masks.applied(kind, _REQUEST_MASKS.applied(kind, one.tree)) for one in views)
        judge(left, right, self.tolerance, found, "/input")
        _judge_classes(*views, found, "/input")
        self._add(expected, found.kept(), reasons, code=live_codes.INPUT_DIFF)

    def _judge_outcome(self, expected: EffectView, actual: EffectView, how: How, reasons: Reasons) -> StepDrift | None:
        for view in (expected, actual):
            if view.output_gap == "erased":
                reasons.add(not_replayable("erased"))
                return None
        if expected.status is None:
            reasons.add(not_replayable("no_recorded_answer"))
            return None
        if actual.status is None and any(True for _ in places_without_value(expected.output)):
            reasons.add(not_replayable("output_without_value"))
            return None
        if actual.status is None:
            reasons.add(Reason(live_codes.NO_ANSWER, "", "no answer", expected=expected.status))
            return None
        if expected.status != actual.status:
            changed = Reason(live_codes.STATUS_DIFF, "", "changed", expected.status, actual.status)
            self._add(expected, (changed,), reasons)
            return None
        was, came = plain_view(expected.output), plain_view(actual.output)
        drift = compare_outcomes(
            self._outcome(expected, was.tree), self._outcome(actual, came.tree), self.tolerance, self.masks
        )
        if expected.status != "failed":
            found = Reasons()
            _judge_classes(was, came, found, "")
            drift = _with_reasons(drift, found)
        if how == "recorded" and drift.verdict != "pass":
            first = drift.reasons[0]
            code = codes.NOT_REPLAYABLE if not drift.replayable else live_codes.STAND_IN_DIFF
            reasons.add(Reason(code, first.path, first.what, first.expected, first.actual))
            return drift
        self._add(expected, drift.reasons, reasons, all_of_them=drift.reason_count)
        return drift

    def input_asked(self, view: EffectView) -> Any:
        """The recorded input as it would have been with the model that is asked now."""
        changed = with_model(view.input, self._model) if self._model is not None and view.kind == MODEL_CALL else None
        return view.input if changed is None else changed

    def _outcome(self, view: EffectView, plain: Any) -> Outcome:
        failed = view.status == "failed"
        made = outcome(view.output if failed else plain, view.kind, failed=failed)
        if self._model is None or view.kind != MODEL_CALL:
            return made
        return dataclasses.replace(made, value=_OWN_NAME.applied(made.kind, made.value))

    def _add(
        self,
        view: EffectView,
        found: tuple[Reason, ...],
        reasons: Reasons,
        *,
        code: str | None = None,
        all_of_them: int = 0,
    ) -> None:
        """What the rule for tools says about a tool's call comes on top of what its parts say."""
        rule = self.tolerance.tools if view.kind == TOOL_CALL else "exact"
        if rule == "ignore":
            return
        for one in found:
            if code is not None and one.code == codes.NOT_REPLAYABLE:
                continue  # a client among the arguments: it was called with one now, too
            reasons.add(one._replace(code=code or one.code, tolerated=one.tolerated or rule == "same_tools"))
        if all_of_them > len(found) and found:
            _count_more(reasons, found[0].tolerated or rule == "same_tools", all_of_them - len(found))


def _digest(view: EffectView) -> str | None:
    """Of the outcome as it is on record, all of it."""
    return None if view.output_gap is not None else tree_digest(view.output)


def _judge_classes(expected: View, actual: View, reasons: Reasons, at: str) -> None:
    """The same fields in an object of another class."""
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
    """An encoded value, or an encoded error, as what came of an effect of this kind."""
    if failed:
        return Outcome(error_view(tree), kind="error")
    mask_kind = MODEL_RESPONSE if kind == MODEL_CALL else kind
    if isinstance(tree, dict) and isinstance(tree.get("tool_events"), list):
        rest = {name: value for name, value in tree.items() if name != "tool_events"}
        return Outcome(rest, tool_events=tree["tool_events"], kind=mask_kind)
    return Outcome(tree, kind=mask_kind)


def error_view(tree: Any) -> Any:
    """Its class and its message: attributes may hold clients and requests, which are new each time."""
    members = tree.get("$error") if isinstance(tree, dict) else None
    if not isinstance(members, dict):
        return tree
    return {"type": members.get("type"), "message": members.get("message", "")}
