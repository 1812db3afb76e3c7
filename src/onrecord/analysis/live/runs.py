"""A run and the run that replays it live, effect by effect, and how they ended.

Runs that they called are judged in their turn: calling an agent says nothing, what it did does. A model that was
changed on purpose is no difference, neither in what was asked nor in what the answer calls itself.
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import Literal

from reenact.effect.other_records import child_id
from reenact.errors import InvalidInput, NotFound
from reenact.journal.reader import JournalReader
from reenact.replays.comparing.masks import Masks
from reenact.replays.comparing.reasons import Reason
from reenact.replays.comparing.tolerance import EXACT, DriftTolerance
from reenact.replays.live import reasons as live_codes
from reenact.replays.live.judging import PROCESS, Judge
from reenact.replays.live.pairing import Pair, Pairing, pair_effects
from reenact.replays.live.reading import END, EffectPlace, EffectView, RunEffects
from reenact.replays.live.results import BREAKING, How, RunReplay, StepReplay, about_run, names_of


def judge_runs(
    expected: JournalReader,
    actual: JournalReader,
    tolerance: DriftTolerance = EXACT,
    masks: Masks | None = None,
    *,
    stop_at_first: bool = False,
) -> RunReplay:
    """`expected` is the recorded run, `actual` the one that replayed it. Neither is changed."""
    if expected.run == actual.run and expected.namespace == actual.namespace and expected.store is actual.store:
        raise InvalidInput(
            f"run {expected.run} is not a replay of itself",
            hint="Give the run that the live replay made.",
            code="same_run",
        )
    left, right = RunEffects(expected), RunEffects(actual)
    model = right.model if right.model != left.model else None
    judged = _Judged(left, right, Judge(tolerance, masks, model=model))
    steps, stopped = judged.steps(stop_at_first)
    reasons = judged.order_reasons(tolerance) if not stopped else []
    called = names_of(steps)
    return RunReplay(
        run=expected.run,
        replay=actual.run,
        effects=len(left.effects),
        steps=tuple(steps),
        reasons=(*reasons, *about_run(steps, len(left.effects))),
        tolerance=tolerance.to_data(),
        masks=judged.judge.masks.to_data(),
        stopped=stopped,
        model=model,
        unused_live_tools=() if stopped else tuple(name for name in right.live_tools if name not in called),
    )


class _Judged:
    def __init__(self, expected: RunEffects, actual: RunEffects, judge: Judge) -> None:
        self.expected, self.actual, self.judge = expected, actual, judge
        self._pairing: Pairing = pair_effects(expected, actual)

    def steps(self, stop_at_first: bool) -> tuple[list[StepReplay], bool]:
        """All of them, or up to the first that broke, and whether any were left."""
        steps: list[StepReplay] = []
        for number, pair in enumerate(self._pairing.pairs, 1):
            steps.append(self._step(pair))
            if stop_at_first and steps[-1].verdict in BREAKING:
                rest = number < len(self._pairing.pairs) or self.expected.end is not None or self.actual.end is not None
                return steps, rest
        if (end := self._end()) is not None:
            steps.append(end)
        return steps, False

    def _step(self, pair: Pair) -> StepReplay:
        if pair.actual is None:
            assert pair.expected is not None
            return self.judge.missing(pair.expected, self.expected.view(pair.expected))
        came = self.actual.view(pair.actual)
        how = self._how(pair.actual, came)
        if pair.expected is None:
            step = self.judge.unexpected(pair.actual, came, how)
            return self._refused(step) if pair.actual.key in self.actual.not_begun else step
        view = self.expected.view(pair.expected)
        step = self.judge.step(pair.expected, view, came, how, replay_seq=pair.actual.seq)
        if pair.actual.key in self.actual.not_begun:
            return self._refused(step)
        return self._with_inner(step, pair.expected, pair.actual) if view.kind == came.kind == PROCESS else step

    def _how(self, place: EffectPlace, view: EffectView) -> How:
        if place.answer is None or view.status == "denied":
            return "none"  # whether anything happened is not known; or it is known that nothing did
        # A run that is called is always carried out; the note says which run stands in for its world.
        return "recorded" if place.key in self.actual.stood_in and view.kind != PROCESS else "live"

    def _refused(self, step: StepReplay) -> StepReplay:
        reason = Reason(live_codes.NOT_CARRIED_OUT, "", "not carried out", actual=step.name)
        kept = tuple(one for one in step.reasons if one.code != live_codes.NO_ANSWER)
        return dataclasses.replace(step, reasons=(reason, *kept), reason_count=1 + len(kept))

    def _with_inner(self, step: StepReplay, expected: EffectPlace, actual: EffectPlace) -> StepReplay:
        """The runs that were called, against each other."""
        inner = None
        with suppress(NotFound):
            one = _called(self.expected.reader, expected)
            inner = judge_runs(one, _called(self.actual.reader, actual), self.judge.tolerance, self.judge.given_masks)
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

    def _end(self) -> StepReplay | None:
        """How the two ended. A recorded run that has not ended has no end to compare with."""
        expected, actual = self.expected.end_view(), self.actual.end_view()
        if expected is None:
            return None if actual is None else self._half_an_end(actual, is_actual=True)
        if actual is None:
            return self._half_an_end(expected, is_actual=False)
        assert self.expected.end is not None
        assert self.actual.end is not None
        kept_in, seq = self.expected.lanes.origin(self.expected.end)
        place = EffectPlace(self.expected.end.seq, seq, kept_in, None, "end", "0", END, END, False, None, None)
        return self.judge.step(place, expected, actual, "live", replay_seq=self.actual.end.seq)

    def _half_an_end(self, view: EffectView, *, is_actual: bool) -> StepReplay:
        run = self.actual if is_actual else self.expected
        assert run.end is not None
        code = live_codes.END_UNEXPECTED if is_actual else live_codes.END_MISSING
        was, came = (None, view.status) if is_actual else (view.status, None)
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
            reasons=(Reason(code, "", what, was, came),),
            reason_count=1,
        )

    def order_reasons(self, tolerance: DriftTolerance) -> list[Reason]:
        """Effects that changed places; how the lanes overlap is a matter of the world and not judged."""
        if tolerance.tools == "ignore":
            return []
        allowed = tolerance.tools in ("same_calls", "same_tools")
        return [
            Reason(live_codes.ORDER_DIFF, effect.key, "reordered", effect.seq, None, tolerance.tools, allowed)
            for effect in self._pairing.reordered[:1]
        ]


def _called(reader: JournalReader, place: EffectPlace) -> JournalReader:
    return JournalReader(reader.store, child_id(f"{place.kept_in}/{place.key}"), reader.namespace)
