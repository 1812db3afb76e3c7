"""Execute the effects of a recorded run again, one by one, with an invoker and without the agent's code.

A generator decides (`_replay_effects`): it yields a call and receives the outcome (`runtime.engine.invokers`).

Rules:

1. The whole record is opened, and so checked, before anything is executed.
2. Only effects of a repeatable kind (`live_kinds`) and named tools (`live_tools`) are executed. The others keep their
   recorded outcome, which alone is not a pass.
3. An effect without a recorded input or a comparable outcome is `not_replayable` and is not executed. So is one that
   the caller declares so. An effect for which the invoker raises `onrecord.NotReplayable` is `not_replayable` too.
4. An error is an outcome. It is judged like any other, and the other results are kept.
5. Another model is called only on request (`model=`). The result says so, and `minted` may make a receipt of each call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Generator, Iterator
from typing import Any, NamedTuple

from onrecord.analysis.compare.masks import Masks
from onrecord.analysis.compare.reasons import Reason
from onrecord.analysis.compare.tolerance import EXACT, DriftTolerance
from onrecord.analysis.compare.verdict import find_missing_values
from onrecord.analysis.live import reasons as live_codes
from onrecord.analysis.live.judge import MODEL_CALL, EffectJudge
from onrecord.analysis.live.model_parameters import Sampling, read_model
from onrecord.analysis.live.results import BREAKING, RunReplay, StepReplay, find_empty_reasons
from onrecord.analysis.live.run_effects import EffectPlace, EffectView, RunEffects, Status
from onrecord.core.codec import encode
from onrecord.errors import InvalidInput, InvalidValue
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.invokers import CameOfIt, EffectInvoker, drive, drive_async
from onrecord.runtime.engine.stops import NotReplayable

LIVE_KINDS = (MODEL_CALL, "durable_step")


class LiveCall(NamedTuple):
    """A live call, with what a receipt needs."""

    name: str
    kind: str
    inputs: Any
    model: str
    sampling: Sampling


Minting = Callable[[LiveCall, CameOfIt], str]
"""Makes a receipt for a call to another model and returns the receipt's hash."""


@dataclasses.dataclass(frozen=True)
class _Options:
    judge: EffectJudge
    live_tools: Collection[str]
    live_kinds: Collection[str]
    model: str | None
    stop_at_first: bool
    non_replayable: Collection[str]
    minted: Minting | None

    def __post_init__(self) -> None:
        for name in ("live_tools", "live_kinds", "non_replayable"):
            if isinstance(getattr(self, name), str):
                raise InvalidInput(f"{name} must be a list of names, not one text", code="bad_names")


_Decisions = Generator[LiveCall, CameOfIt, RunReplay]


def replay_with_invoker(
    reader: JournalReader,
    invoker: EffectInvoker,
    *,
    tolerance: DriftTolerance = EXACT,
    masks: Masks | None = None,
    live_tools: Collection[str] = (),
    live_kinds: Collection[str] = LIVE_KINDS,
    model: str | None = None,
    stop_at_first: bool = False,
    non_replayable: Collection[str] = (),
    minted: Minting | None = None,
) -> RunReplay:
    """Execute the effects of a run again, in their recorded order, and judge each outcome."""
    judge = EffectJudge(tolerance, masks, model=model)
    options = _Options(judge, live_tools, live_kinds, model, stop_at_first, non_replayable, minted)
    return drive(_replay_effects(RunEffects(reader), options), invoker)


async def replay_with_invoker_async(
    reader: JournalReader,
    invoker: EffectInvoker,
    *,
    tolerance: DriftTolerance = EXACT,
    masks: Masks | None = None,
    live_tools: Collection[str] = (),
    live_kinds: Collection[str] = LIVE_KINDS,
    model: str | None = None,
    stop_at_first: bool = False,
    non_replayable: Collection[str] = (),
    minted: Minting | None = None,
) -> RunReplay:
    judge = EffectJudge(tolerance, masks, model=model)
    options = _Options(judge, live_tools, live_kinds, model, stop_at_first, non_replayable, minted)
    return await drive_async(_replay_effects(RunEffects(reader), options), invoker)


def _replay_effects(run: RunEffects, options: _Options) -> _Decisions:
    _check_contents(run, options)
    steps: list[StepReplay] = []
    used: set[str] = set()
    for place in run.effects:
        step = yield from _replay_effect(run, place, options)
        used.add(step.name)
        steps.append(step)
        if options.stop_at_first and step.verdict in BREAKING:
            break
    stopped = len(steps) < len(run.effects)
    return RunReplay(
        run=run.reader.run,
        replay=None,
        effects=len(run.effects),
        steps=tuple(steps),
        reasons=tuple(find_empty_reasons(steps, len(run.effects))),
        tolerance=options.judge.tolerance.to_data(),
        masks=options.judge.masks.to_data(),
        stopped=stopped,
        model=options.model,
        unused_live_tools=() if stopped else tuple(sorted(set(options.live_tools) - used)),
    )


def _check_contents(run: RunEffects, options: _Options) -> None:
    """Open every content once, to find damage before anything is executed."""
    models = False
    for place in run.effects:
        view = run.view(place)
        models = models or bool(read_model(view.kind, view.input)[0])
    if options.model is not None and not models:
        raise InvalidInput(
            f"run {run.reader.run} called no model by name, so there is no model to replace",
            hint="Leave model= out.",
            code="no_model",
        )


def _replay_effect(run: RunEffects, place: EffectPlace, options: _Options) -> Generator[LiveCall, CameOfIt, StepReplay]:
    view, judge = run.view(place), options.judge
    if not _is_live(place, view, options):
        return judge.keep_recorded(place, view)
    for why in _find_obstacles(view, options):
        return judge.judge_unreplayable(place, view, why)
    model, sampling = read_model(view.kind, view.input)
    model_now = options.model if options.model is not None and model else model
    inputs = run.reader.decoded(judge.input_for_model(view))
    call = LiveCall(view.name, view.kind, inputs, model_now, Sampling(sampling))
    outcome = _unwrap_returned_error((yield call), view)
    if isinstance(outcome.error, NotReplayable):
        return judge.judge_unreplayable(place, view, outcome.error.code, "live")
    try:
        actual = _view_outcome(view, judge.input_for_model(view), outcome)
    except InvalidValue as problem:  # e.g. the value contains itself
        return judge.judge_unreplayable(place, view, problem.code, "live")
    other = options.model if options.model is not None and model else None
    step = judge.judge_effect(place, view, actual, "live", model=other)
    return step if other is None or options.minted is None else _with_receipt(step, options.minted, call, outcome)


def _with_receipt(step: StepReplay, minted: Minting, call: LiveCall, outcome: CameOfIt) -> StepReplay:
    try:
        return dataclasses.replace(step, receipt=minted(call, outcome))
    except Exception as error:  # the receipt is lost and reported; the outcome of the call is kept
        reason = Reason(live_codes.RECEIPT_FAILED, "", type(error).__name__)
        reasons, count = (reason, *step.reasons), step.reason_count + 1
        return dataclasses.replace(step, verdict="broken", reasons=reasons, reason_count=count)


def _is_live(place: EffectPlace, view: EffectView, options: _Options) -> bool:
    if place.kind not in ("ActionRequested", "ActionDenied"):
        return False  # waits and interrupts cannot be repeated
    return view.name in options.live_tools or view.kind in options.live_kinds


def _find_obstacles(view: EffectView, options: _Options) -> Iterator[str]:
    """Yield the reason codes that keep an effect from being executed."""
    if view.name in options.non_replayable:
        yield "declared"
    if view.input_gap is not None or view.output_gap is not None:
        yield view.input_gap or ("no_recorded_answer" if view.status is None else "erased")
    if view.status == "denied":
        yield "denied"  # policy denied it, so it was never executed
    if any(True for _ in find_missing_values(view.input)):
        yield "input_without_value"
    if view.status == "succeeded" and any(True for _ in find_missing_values(view.output)):
        yield "output_without_value"


def _unwrap_returned_error(outcome: CameOfIt, view: EffectView) -> CameOfIt:
    """Return the outcome, with an exception that the invoker returned treated as raised."""
    if view.status == "failed" and outcome.error is None and isinstance(outcome.value, Exception):
        return CameOfIt(None, outcome.value)
    return outcome


def _view_outcome(view: EffectView, model_now: Any, outcome: CameOfIt) -> EffectView:
    """Return the outcome as an effect view, in the form of the record."""
    tree = encode(outcome.value if outcome.error is None else outcome.error).tree
    status: Status = "succeeded" if outcome.error is None else "failed"
    return EffectView(view.name, view.kind, model_now, None, status, tree, None)
