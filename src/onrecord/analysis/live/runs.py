"""Judge a run and its live replay, effect by effect, and their ends.

Child runs are judged too: a call of an agent proves nothing, its effects do. A model that was changed on purpose is no
difference, neither in the request nor in the name that the answer gives.
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import Literal

from onrecord.analysis.compare.masks import Masks
from onrecord.analysis.compare.reasons import Reason
from onrecord.analysis.compare.tolerance import EXACT, DriftTolerance
from onrecord.analysis.live import reasons as live_codes
from onrecord.analysis.live.effect_pairs import EffectPair, Pairing, pair_effects
from onrecord.analysis.live.judge import PROCESS, EffectJudge
from onrecord.analysis.live.results import BREAKING, How, RunReplay, StepReplay, effect_names, find_empty_reasons
from onrecord.analysis.live.run_effects import END, EffectPlace, EffectView, RunEffects
from onrecord.core.lane_names import ROOT_LANE
from onrecord.errors import InvalidInput, NotFound
from onrecord.journal.reader import JournalReader
from onrecord.runtime.forks.recorded_answers import child_id


def judge_runs(
    expected: JournalReader,
    actual: JournalReader,
    tolerance: DriftTolerance = EXACT,
    masks: Masks | None = None,
    *,
    stop_at_first: bool = False,
) -> RunReplay:
    """Judge the recorded run (`expected`) against its replay (`actual`). Neither is changed."""
    if expected.run == actual.run and expected.namespace == actual.namespace and expected.store is actual.store:
        raise InvalidInput(
            f"run {expected.run} cannot be judged against itself",
            hint="Give the run that the live replay made.",
            code="same_run",
        )
    left, right = RunEffects(expected), RunEffects(actual)
    model = right.model if right.model != left.model else None
    judgement = _RunJudgement(left, right, EffectJudge(tolerance, masks, model=model))
    steps, stopped = judgement.steps(stop_at_first)
    reasons = judgement.order_reasons(tolerance) if not stopped else []
    called = effect_names(steps)
    return RunReplay(
        run=expected.run,
        replay=actual.run,
        effects=len(left.effects),
        steps=tuple(steps),
        reasons=(*reasons, *find_empty_reasons(steps, len(left.effects))),
        tolerance=tolerance.to_data(),
        masks=judgement.judge.masks.to_data(),
        stopped=stopped,
        model=model,
        unused_live_tools=() if stopped else tuple(name for name in right.live_tools if name not in called),
    )


class _RunJudgement:
    def __init__(self, expected: RunEffects, actual: RunEffects, judge: EffectJudge) -> None:
        self.expected, self.actual, self.judge = expected, actual, judge
        self._pairing: Pairing = pair_effects(expected, actual)

    def steps(self, stop_at_first: bool) -> tuple[list[StepReplay], bool]:
        """Return all steps, or those up to the first broken one, and whether any are left."""
        steps: list[StepReplay] = []
        for number, pair in enumerate(self._pairing.pairs, 1):
            steps.append(self._judge_pair(pair))
            if stop_at_first and steps[-1].verdict in BREAKING:
                rest = number < len(self._pairing.pairs) or self.expected.end is not None or self.actual.end is not None
                return steps, rest
        if (end := self._judge_end()) is not None:
            steps.append(end)
        return steps, False

    def _judge_pair(self, pair: EffectPair) -> StepReplay:
        if pair.actual is None:
            assert pair.expected is not None
            return self.judge.judge_missing(pair.expected, self.expected.view(pair.expected))
        view_now = self.actual.view(pair.actual)
        how = self._how(pair.actual, view_now)
        if pair.expected is None:
            step = self.judge.judge_unexpected(pair.actual, view_now, how)
            return self._mark_not_executed(step) if pair.actual.key in self.actual.not_begun else step
        view = self.expected.view(pair.expected)
        step = self.judge.judge_effect(pair.expected, view, view_now, how, replay_seq=pair.actual.seq)
        if pair.actual.key in self.actual.not_begun:
            return self._mark_not_executed(step)
        return (
            self._judge_child_runs(step, pair.expected, pair.actual) if view.kind == view_now.kind == PROCESS else step
        )

    def _how(self, place: EffectPlace, view: EffectView) -> How:
        if place.answer is None or view.status == "denied":
            return "none"  # in doubt, or denied and never executed
        # A child run always executes; the note names the run that serves its effects.
        return "recorded" if place.key in self.actual.served_from and view.kind != PROCESS else "live"

    def _mark_not_executed(self, step: StepReplay) -> StepReplay:
        reason = Reason(live_codes.NOT_CARRIED_OUT, "", "not carried out", actual=step.name)
        kept = tuple(one for one in step.reasons if one.code != live_codes.NO_ANSWER)
        return dataclasses.replace(step, reasons=(reason, *kept), reason_count=1 + len(kept))

    def _judge_child_runs(self, step: StepReplay, expected: EffectPlace, actual: EffectPlace) -> StepReplay:
        """Add the judgement of the two child runs to the step."""
        inner = None
        with suppress(NotFound):
            one = _open_child(self.expected.reader, expected)
            inner = judge_runs(
                one, _open_child(self.actual.reader, actual), self.judge.tolerance, self.judge.given_masks
            )
        if inner is None:
            return step
        first = inner.first_broken
        order = next((reason for reason in inner.reasons if reason.code == live_codes.ORDER_DIFF), None)
        step = dataclasses.replace(step, inner=inner)
        if first is None and (order is None or order.tolerated):
            drifted = step.verdict == "pass" and inner.verdict == "drift"
            return dataclasses.replace(step, verdict="drift") if drifted else step
        what = order.code if first is None and order is not None else first.verdict if first is not None else ""
        reason = Reason(live_codes.INNER_DIFF, "", what, inner.run, inner.replay)
        count = step.reason_count + 1
        return dataclasses.replace(step, verdict="broken", reasons=(reason, *step.reasons), reason_count=count)

    def _judge_end(self) -> StepReplay | None:
        """Return the step for the end, or None if neither run has ended."""
        expected, actual = self.expected.end_view(), self.actual.end_view()
        if expected is None:
            return None if actual is None else self._judge_single_end(actual, is_actual=True)
        if actual is None:
            return self._judge_single_end(expected, is_actual=False)
        assert self.expected.end is not None
        assert self.actual.end is not None
        kept_in, seq = self.expected.lanes.origin(self.expected.end)
        place = EffectPlace(self.expected.end.seq, seq, kept_in, None, "end", ROOT_LANE, END, END, False, None, None)
        return self.judge.judge_effect(place, expected, actual, "live", replay_seq=self.actual.end.seq)

    def _judge_single_end(self, view: EffectView, *, is_actual: bool) -> StepReplay:
        run = self.actual if is_actual else self.expected
        assert run.end is not None
        code = live_codes.END_UNEXPECTED if is_actual else live_codes.END_MISSING
        statuses = (None, view.status) if is_actual else (view.status, None)
        what: Literal["unexpected", "missing"] = "unexpected" if is_actual else "missing"
        _, seq = run.lanes.origin(run.end)
        return StepReplay(
            key=END,
            name=END,
            kind="end",
            seq=None if is_actual else seq,
            replay_seq=seq if is_actual else None,
            how="live" if is_actual else "none",
            verdict=what,
            reasons=(Reason(code, "", what, *statuses),),
            reason_count=1,
        )

    def order_reasons(self, tolerance: DriftTolerance) -> list[Reason]:
        """Return the reason for reordered effects. The interleaving of lanes is not judged: timing decides it."""
        if tolerance.tools == "ignore":
            return []
        allowed = tolerance.tools in ("same_calls", "same_tools")
        return [
            Reason(live_codes.ORDER_DIFF, effect.key, "reordered", effect.seq, None, tolerance.tools, allowed)
            for effect in self._pairing.reordered[:1]
        ]


def _open_child(reader: JournalReader, place: EffectPlace) -> JournalReader:
    return JournalReader(reader.store, child_id(f"{place.kept_in}/{place.key}"), reader.namespace)
