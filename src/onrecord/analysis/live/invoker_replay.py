"""The effects of a recorded run carried out again, one by one, by an invoker: without the agent's code.

What decides is one generator (`_deciding`): it asks for a call and is handed what came of it (`effect.invokers`).

Rules:

1. All of the record is opened, and so checked, before anything is carried out.
2. Only effects of a kind that may be repeated (`live_kinds`), and tools that are named one by one (`live_tools`), are
   carried out. Everything else stays as it was recorded, which is not a pass by itself.
3. What has no value to call with, or none to compare with, is not carried out: `not_replayable`. So is what the caller
   declares so, and an effect for which the invoker raises `reenact.NotReplayable`.
4. An error is something that can come of an effect. It is judged like any outcome, and loses nobody else's result.
5. Another model is asked only on purpose (`model=`). The result says so, and `minted` may make a receipt of each call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Generator, Iterator
from typing import Any, NamedTuple

from reenact.core.codec import encode
from reenact.effect.invokers import CameOfIt, EffectInvoker, drive, drive_async
from reenact.effect.stopping import NotReplayable
from reenact.errors import InvalidInput, InvalidValue
from reenact.journal.reader import JournalReader
from reenact.replays.comparing.judging import places_without_value
from reenact.replays.comparing.masks import Masks
from reenact.replays.comparing.reasons import Reason
from reenact.replays.comparing.tolerance import EXACT, DriftTolerance
from reenact.replays.live import reasons as live_codes
from reenact.replays.live.judging import MODEL_CALL, Judge
from reenact.replays.live.reading import EffectPlace, EffectView, RunEffects, Status
from reenact.replays.live.results import BREAKING, RunReplay, StepReplay, about_run
from reenact.replays.live.sampling import Sampling, model_asked

LIVE_KINDS = (MODEL_CALL, "durable_step")


class LiveCall(NamedTuple):
    """One call as it is made: what a receipt can be made of."""

    name: str
    kind: str
    inputs: Any
    model: str
    sampling: Sampling


Minting = Callable[[LiveCall, CameOfIt], str]
"""Makes a receipt of a call to another model, and returns the receipt's own hash."""


class _Options(NamedTuple):
    judge: Judge
    live_tools: frozenset[str]
    live_kinds: frozenset[str]
    model: str | None
    stop_at_first: bool
    declared: frozenset[str]
    minted: Minting | None


_Deciding = Generator[LiveCall, CameOfIt, RunReplay]


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
    """Carries the effects of a run out again, in their recorded order, and judges what came of each."""
    options = _options(tolerance, masks, live_tools, live_kinds, model, stop_at_first, non_replayable, minted)
    return drive(_deciding(RunEffects(reader), options), invoker)


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
    options = _options(tolerance, masks, live_tools, live_kinds, model, stop_at_first, non_replayable, minted)
    return await drive_async(_deciding(RunEffects(reader), options), invoker)


def _options(
    tolerance: DriftTolerance,
    masks: Masks | None,
    live_tools: Collection[str],
    live_kinds: Collection[str],
    model: str | None,
    stop_at_first: bool,
    non_replayable: Collection[str],
    minted: Minting | None,
) -> _Options:
    for name, given in (("live_tools", live_tools), ("live_kinds", live_kinds), ("non_replayable", non_replayable)):
        if isinstance(given, str):
            raise InvalidInput(f"{name} is a list of names, not one text", code="bad_names")
    return _Options(
        Judge(tolerance, masks, model=model),
        frozenset(live_tools),
        frozenset(live_kinds),
        model,
        stop_at_first,
        frozenset(non_replayable),
        minted,
    )


# Deciding


def _deciding(run: RunEffects, options: _Options) -> _Deciding:
    _look_through(run, options)
    steps: list[StepReplay] = []
    used: set[str] = set()
    for place in run.effects:
        step = yield from _one_step(run, place, options)
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
        reasons=tuple(about_run(steps, len(run.effects))),
        tolerance=options.judge.tolerance.to_data(),
        masks=options.judge.masks.to_data(),
        stopped=stopped,
        model=options.model,
        unused_live_tools=() if stopped else tuple(sorted(options.live_tools - used)),
    )


def _look_through(run: RunEffects, options: _Options) -> None:
    """Opens every content once, and so finds damage before anything happens."""
    models = False
    for place in run.effects:
        view = run.view(place)
        models = models or bool(model_asked(view.kind, view.input)[0])
    if options.model is not None and not models:
        raise InvalidInput(
            f"run {run.reader.run} asked no model by name, so there is none to ask another in its place of",
            hint="Leave model= out.",
            code="no_model",
        )


def _one_step(run: RunEffects, place: EffectPlace, options: _Options) -> Generator[LiveCall, CameOfIt, StepReplay]:
    view, judge = run.view(place), options.judge
    if not _is_live(place, view, options):
        return judge.recorded(place, view)
    for why in _obstacles(view, options):
        return judge.refused(place, view, why)
    model, sampling = model_asked(view.kind, view.input)
    asked = options.model if options.model is not None and model else model
    inputs = run.reader.decoded(judge.input_asked(view))
    call = LiveCall(view.name, view.kind, inputs, asked, Sampling(sampling))
    came = _sorted_out((yield call), view)
    if isinstance(came.error, NotReplayable):
        return judge.refused(place, view, came.error.code, "live")
    try:
        actual = _came(view, judge.input_asked(view), came)
    except InvalidValue as problem:  # it contains itself
        return judge.refused(place, view, problem.code, "live")
    other = options.model if options.model is not None and model else None
    step = judge.step(place, view, actual, "live", model=other)
    return step if other is None or options.minted is None else _with_receipt(step, options.minted, call, came)


def _with_receipt(step: StepReplay, minted: Minting, call: LiveCall, came: CameOfIt) -> StepReplay:
    try:
        return dataclasses.replace(step, receipt=minted(call, came))
    except Exception as error:  # the receipt is lost, and that is told; what came of the call is not
        reason = Reason(live_codes.RECEIPT_FAILED, "", type(error).__name__)
        reasons, count = (reason, *step.reasons), step.reason_count + 1
        return dataclasses.replace(step, verdict="broken", reasons=reasons, reason_count=count)


def _is_live(place: EffectPlace, view: EffectView, options: _Options) -> bool:
    if place.kind not in ("ActionRequested", "ActionDenied"):
        return False  # waits and interrupts: nobody can be asked twice
    return view.name in options.live_tools or view.kind in options.live_kinds


def _obstacles(view: EffectView, options: _Options) -> Iterator[str]:
    """Why it is not carried out, in a word."""
    if view.name in options.declared:
        yield "declared"
    if view.input_gap is not None or view.output_gap is not None:
        yield view.input_gap or ("no_recorded_answer" if view.status is None else "erased")
    if view.status == "denied":
        yield "denied"  # policy said no, so nothing was ever done
    if any(True for _ in places_without_value(view.input)):
        yield "input_without_value"
    if view.status == "succeeded" and any(True for _ in places_without_value(view.output)):
        yield "output_without_value"


def _sorted_out(came: CameOfIt, view: EffectView) -> CameOfIt:
    """An invoker may also hand back the error that an effect came to."""
    if view.status == "failed" and came.error is None and isinstance(came.value, Exception):
        return CameOfIt(None, came.value)
    return came


def _came(view: EffectView, asked: Any, came: CameOfIt) -> EffectView:
    """What came now, in the form in which the record has it."""
    tree = encode(came.value if came.error is None else came.error).tree
    status: Status = "succeeded" if came.error is None else "failed"
    return EffectView(view.name, view.kind, asked, None, status, tree, None)
