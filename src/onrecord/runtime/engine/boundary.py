"""The one boundary: every effect of an agent passes here, from a task or from a thread.

Both drivers do the same: ask the run, carry out what the run says is to be carried out, wait for the turn, open the
answer. What is decided is decided by the run (`engine.run`); here is only the waiting.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any

from onrecord.runtime.engine.attempts import Attempts, attempt_once, attempt_once_async, is_single
from onrecord.runtime.engine.context import HERE, PLACE, Inside, nobody
from onrecord.runtime.engine.open_effect import EffectSpec, MakeEvent, OpenEffect
from onrecord.runtime.engine.outcomes import open_answer, open_recorded
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import Divergence, OutsideRun, RunStopped
from onrecord.runtime.replay.records import RecordedRequest
from onrecord.runtime.scheduler.asyncio_driver import PATIENCE_SECONDS, LoopHooks, TaskQueue
from onrecord.runtime.scheduler.lanes import Lane
from onrecord.runtime.scheduler.scheduler import LOOK_SECONDS, RELAX_SECONDS, Patience
from onrecord.runtime.scheduler.thread_signal import Signal

_told: set[str] = set()
strict_outside = False
"""True: an effect outside of any run is refused instead of simply being done."""
replays: dict[int, LiveRun] = {}
"""Replays that are going on, by the thread that carries them: nothing is done live in it, whatever the context."""


def outside(name: str, depth: int = 3) -> bool:
    """An effect is called outside of a run, or inside another effect: it is simply done. True if so.

    `depth` is that of the caller's own line, as `warnings.warn` counts."""
    place = PLACE.get()
    if type(place) is Lane:
        return False
    if place is None:
        replay = replays.get(threading.get_ident()) if replays else None
        if replay is not None and not replay.is_stopped:
            replay.stop_here(
                Divergence(
                    f"{name} was called in an empty context, where the replay of run {replay.name} cannot be seen",
                    hint="Effects are recorded, and replayed, where the agent's own context is passed on.",
                    code="outside_replay",
                )
            )
        if strict_outside:
            raise OutsideRun(f"{name} was called outside of any run, where nothing is recorded")
        if name not in _told:
            _told.add(name)
            warnings.warn(f"{name} was called outside of a run: it is done and not recorded", stacklevel=depth)
    return True


class EffectTaskWaiter:
    """A task that asked for an effect. The effect is a task of its own, which belongs to nobody's lane."""

    looped = True

    def __init__(self, run: LiveRun, call: Callable[[], Awaitable[Any]]) -> None:
        self._run = run
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._context = copy_context()
        self._task: asyncio.Task[Any] | None = None
        self.future: asyncio.Future[None] = self._loop.create_future()

    def begin(self, ticket: OpenEffect) -> None:
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.begin, ticket, context=nobody())
            return
        if self.future.done():
            return
        if is_single(ticket):
            place, carried_out = Inside(self._run, ticket, 1), attempt_once_async(self._call)
        else:
            attempts = Attempts(self._run, ticket)
            place, carried_out = attempts.place, attempts.carry_out(self._call)
        self._context.run(PLACE.set, place)
        self._task = asyncio.Task(carried_out, loop=self._loop, context=self._context)
        self._task.add_done_callback(partial(self._done, ticket), context=nobody())

    def _done(self, ticket: OpenEffect, task: asyncio.Task[Any]) -> None:
        queue = self._run.turns.loop
        if type(queue) is TaskQueue and queue.hooks.loop is self._loop:
            queue.pump_after(self._came_of_it, ticket, task)
        else:
            self._came_of_it(ticket, task)

    def _came_of_it(self, ticket: OpenEffect, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            if not self.future.done():  # nobody of the agent has cancelled it: that is what came of it
                error: BaseException = asyncio.CancelledError()
                self._run.answered(ticket, ticket.spec.answers.failed(ticket.key, error), error)
            return
        problem = task.exception()
        if isinstance(problem, RunStopped):
            return
        if problem is not None and not isinstance(problem, Exception):
            self._run.interrupt(problem)  # not what came of the effect, but what came over the process
        elif problem is None:
            self._run.answered(ticket, ticket.spec.answers.done(ticket.key, task.result()))
        else:
            self._run.answered(ticket, ticket.spec.answers.failed(ticket.key, problem), problem)

    def wake(self) -> None:
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.wake, context=nobody())
        elif not self.future.done():
            self.future.set_result(None)

    def give_up(self) -> None:
        if self._task is not None:
            self._task.cancel()


def perform(
    spec: EffectSpec, make: MakeEvent, call: Callable[[], Awaitable[Any]], *, key: str | None = None
) -> Coroutine[Any, Any, Any]:
    """An effect of a task. Outside of a run it is simply done (`outside` has said so)."""
    return _perform(PLACE.get(), spec, make, call, key)


async def _perform(
    asked_in: Any, spec: EffectSpec, make: MakeEvent, call: Callable[[], Awaitable[Any]], key: str | None
) -> Any:
    lane = PLACE.get()
    if lane is None:
        lane = asked_in  # a task with an empty context: whoever asked is the one to whom it belongs
    if type(lane) is not Lane:
        return await call()
    run, asked = lane.run, None
    if run.substitutes is not None:
        make, call = run.substitutes.substitute_call(spec, make, call)
    if run.turns.replaying:
        found = run.serve_at_once(lane, spec, make, key)
        if isinstance(found, RecordedRequest):
            assert found.answer is not None
            return open_recorded(run, spec, found.answer)
        asked = found
    waiter = EffectTaskWaiter(run, call)
    ticket = run.request(lane, spec, make, key=key, waiter=waiter, asked=asked)
    if ticket.waiter is not waiter:
        return open_answer(run, ticket)  # the caller's own key was used before
    _make_sure_it_goes_on(run, waiter._loop)
    try:
        await waiter.future
    except asyncio.CancelledError as cancelled:
        waiter.give_up()
        run.abandoned(ticket, cancelled)
        raise
    return _handed(run, ticket)


def _make_sure_it_goes_on(run: LiveRun, loop: asyncio.AbstractEventLoop) -> None:
    queue = run.turns.loop
    if queue is None:  # a loop that the agent made in an unusual way is put in order from here on
        queue = LoopHooks.of(loop).enter(run)
    if isinstance(queue, TaskQueue):
        queue.nudge()


def _handed(run: LiveRun, ticket: OpenEffect) -> Any:
    if run.stopped is not None and not ticket.has_answer:
        raise RunStopped(run.stopped)
    run.taken(ticket)
    return open_answer(run, ticket)


class EffectThreadWaiter:
    """A thread that asked for an effect, and carries it out itself."""

    looped = False

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self.token = HERE.token
        self.event = Signal()
        self.told_to_begin = False

    def begin(self, ticket: OpenEffect) -> None:
        self.told_to_begin = True
        self.event.set()

    def wake(self) -> None:
        self._run.turns.runs(self.token)
        self.event.set()


class AloneWaiter:
    """The only thread there is, or a blocking call inside a loop: nothing else can go on, so it never waits."""

    looped = False
    told_to_begin = False

    def begin(self, ticket: OpenEffect) -> None:
        self.told_to_begin = True

    def wake(self) -> None: ...


def perform_blocking(spec: EffectSpec, make: MakeEvent, call: Callable[[], Any], *, key: str | None = None) -> Any:
    """An effect of a thread, or a blocking call inside a loop."""
    lane = PLACE.get()
    if type(lane) is not Lane:
        return call()
    run, asked = lane.run, None
    if run.substitutes is not None:
        make, call = run.substitutes.substitute_call(spec, make, call, blocking=True)
    if HERE.token is not None:
        return _in_turn(lane, spec, make, call, key)
    # Nothing else of the run can go on before this returns, so it is nobody else's turn.
    if run.turns.loop is None and (run.cancelling.is_due or run.turns.replaying):
        run.cancelling.tell()
    if run.turns.replaying:
        found = run.serve_at_once(lane, spec, make, key)
        if isinstance(found, RecordedRequest):
            assert found.answer is not None
            return open_recorded(run, spec, found.answer)
        asked = found
    waiter = AloneWaiter()
    with run.lock:
        ticket = run.request(lane, spec, make, key=key, waiter=waiter, asked=asked)
        if ticket.waiter is not waiter:
            return open_answer(run, ticket)
        recorded = ticket.recorded
        if recorded is not None and recorded.answer is not None:
            recorded.answer.handed = True
            run.turns.forget(ticket.item)
            run.reached(recorded.answer.time)
        else:
            run.flush()
            if run.stopped is None and not waiter.told_to_begin:
                run.stop_for_good()
    if waiter.told_to_begin:
        run.answer_at_once(ticket, *_carry_out(run, ticket, call))
        if run.coming_back is None:
            return open_answer(run, ticket)
    return _handed(run, ticket)


def _in_turn(lane: Lane, spec: EffectSpec, make: MakeEvent, call: Callable[[], Any], key: str | None) -> Any:
    """One of the agent's threads: it is begun, and handed what came of it, when its turn comes."""
    run, waiter = lane.run, EffectThreadWaiter(lane.run)
    with run.lock:
        ticket = run.request(lane, spec, make, key=key, waiter=waiter)
        if ticket.waiter is not waiter:
            return open_answer(run, ticket)
        run.turns.rests(waiter.token)
        run.flush()
        run.turns.advance()
    _wait_for_turn(run, ticket, waiter)
    if waiter.told_to_begin:
        with run.lock:
            waiter.event.clear()
            waiter.told_to_begin = False
        run.answered(ticket, *_carry_out(run, ticket, call))
        _wait_for_turn(run, ticket, waiter)
    return _handed(run, ticket)


def _carry_out(run: LiveRun, ticket: OpenEffect, call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    context = copy_context()
    try:
        if is_single(ticket):
            value = context.run(attempt_once, Inside(run, ticket, 1), call)
        else:
            attempts = Attempts(run, ticket)
            context.run(PLACE.set, attempts.place)
            value = context.run(attempts.carry_out_blocking, call)
    except (Exception, asyncio.CancelledError) as error:  # nobody of the agent can have cancelled it: it came of it
        return ticket.spec.answers.failed(ticket.key, error), error
    return ticket.spec.answers.done(ticket.key, value), None


def _wait_for_turn(run: LiveRun, ticket: OpenEffect, waiter: EffectThreadWaiter) -> None:
    patience = Patience(run.turns)
    while not waiter.event.wait(LOOK_SECONDS):
        if run.is_stopped:
            run.check_going_on()
        run.turns.overdue()
        if run.is_live or (still := patience.seconds) <= RELAX_SECONDS:
            continue
        _relax(run, ticket)
        if still > RELAX_SECONDS + PATIENCE_SECONDS:
            run.stands_still()
    if waiter.token in run.turns.threads:
        run.turns.runs(waiter.token, awake=True)


def _relax(run: LiveRun, ticket: OpenEffect) -> None:
    """Threads take their turn in the recorded order; where a lock of theirs makes that impossible it is given up."""
    with run.lock:
        recorded = ticket.recorded
        if recorded is not None and recorded.answer is not None and not recorded.answer.handed:
            run.turns.hand_out_of_order(ticket.item, recorded)


__all__ = ["Divergence", "Inside", "outside", "perform", "perform_blocking"]
