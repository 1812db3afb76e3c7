"""The one boundary: every effect of an agent passes here, from a task or from a thread.

Life of an effect: the lane asks the run (`LiveRun.ask`) and waits. At rest the coordinator commits the request and
begins the effect here; its outcome arrives, is committed, and is delivered to the lane. A replay delivers the recorded
outcome instead. What is decided is decided by the kernel; here is only the waiting.
"""

from __future__ import annotations

import asyncio
import warnings
from _thread import get_ident
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from onrecord.runtime.engine.attempts import Attempts, begin_single
from onrecord.runtime.engine.context import Inside, Lane, current_effect, current_lane, inside
from onrecord.runtime.engine.open_effect import EffectSpec, MadeOutcome, MakeEvent, OpenEffect
from onrecord.runtime.engine.outcomes import open_outcome
from onrecord.runtime.engine.stops import OutsideRun, RunStopped
from onrecord.runtime.scheduler.drivers.loops import LoopDriver
from onrecord.runtime.scheduler.drivers.strands import CURRENT, InsideTask, Strand
from onrecord.runtime.scheduler.items import EffectCancelled, Token

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun

_warned: set[str] = set()
strict_outside = False
"""True: an effect outside of any run is refused instead of being executed."""


def is_outside(name: str, depth: int = 3) -> bool:
    """Return True for an effect that is called outside of a run or inside another effect: it is simply executed.

    `depth` is that of the caller's own line, as `warnings.warn` counts.
    """
    if current_lane() is not None:
        return False
    if current_effect() is None:
        if strict_outside:
            raise OutsideRun(f"{name} was called outside of any run, where nothing is recorded")
        if name not in _warned:
            _warned.add(name)
            warnings.warn(f"{name} was called outside of a run: it is executed and not recorded", stacklevel=depth)
    return True


# Threads


def perform_blocking(
    spec: EffectSpec, make: MakeEvent, call: Callable[[], Any], *, key: str | None = None, lane: Lane | None = None
) -> Any:
    """Perform an effect of a thread, or a blocking call inside a loop. `lane` is that of the caller, if known."""
    lane = lane or current_lane()
    if lane is None:
        return call()
    run = lane.run
    if run.substitutes is not None:
        make, call = run.substitutes.substitute_call(spec, make, call, blocking=True)
    effect = ThreadEffect(run, lane.strand, spec, call)
    with run.lock:
        found = ask_in_thread(lane, effect, make, key)
        if found is effect:
            run.coordinator.wait(lane.strand, effect)
            run.delivered(effect)
    return open_outcome(run, found)


def ask_in_thread(lane: Lane, effect: OpenEffect, make: MakeEvent, key: str | None = None) -> OpenEffect:
    """Request an effect of a thread. Called with the run's lock held."""
    run, strand = lane.run, lane.strand
    run.coordinator.act(strand)
    if strand is run.coordinator.main and strand.loop is None and run.cancellation.may_be_due:
        run.cancellation.check(strand)
    return run.ask(lane, effect, make, key)


class ThreadEffect(OpenEffect):
    """An effect that the calling thread executes itself, without the baton."""

    def __init__(self, run: LiveRun, strand: Strand, spec: EffectSpec, call: Callable[[], Any]) -> None:
        self.spec = spec
        self._run = run
        self._strand = strand
        self._call = call

    def begin(self, token: Token) -> None:
        self._strand.work = self.execute
        self._strand.gate.release()

    def execute(self) -> tuple[Token, Any] | None:
        CURRENT.depth += 1
        try:
            outcome = copy_context().run(_execute, self._run, self, self._call)
        except RunStopped:
            return None  # the thread learns of it at its gate
        except (Exception, asyncio.CancelledError) as error:
            outcome = MadeOutcome(self.spec.answers.failed(self.key, error), error)
        except BaseException as problem:
            self._run.interrupt(problem)  # not an outcome: the process is told to end
            raise
        finally:
            CURRENT.depth -= 1
        return self.token, outcome

    def deliver(self, value: Any, last: bool) -> None:
        self.outcome = value
        self._run.kernel.wake(self._strand)


def _execute(run: LiveRun, effect: OpenEffect, call: Callable[[], Any]) -> MadeOutcome:
    """Execute a blocking effect in the current context."""
    value = call() if begin_single(run, effect) else Attempts(run, effect).execute_blocking(call)
    return MadeOutcome(effect.spec.answers.done(effect.key, value))


# Tasks


def perform(
    spec: EffectSpec, make: MakeEvent, call: Callable[[], Awaitable[Any]], *, key: str | None = None
) -> Coroutine[Any, Any, Any]:
    """Perform an effect of a task. Outside of a run it is simply executed."""
    coroutine = _perform(spec, make, call, key)
    coroutine.__qualname__ = spec.name  # type: ignore[attr-defined]  # the label of its lane, as a task
    return coroutine


async def _perform(spec: EffectSpec, make: MakeEvent, call: Callable[[], Awaitable[Any]], key: str | None) -> Any:
    lane = current_lane()
    if lane is None:
        return await call()
    run = lane.run
    if run.substitutes is not None:
        make, call = run.substitutes.substitute_call(spec, make, call)
    effect = TaskEffect(lane, spec, call)
    with run.lock:
        found = run.ask(lane, effect, make, key)
        is_delivered = found is not effect or run.coordinator.deliver_here(lane.strand, effect)
        if is_delivered and found is effect:
            run.delivered(effect)
    if not is_delivered:
        try:
            await effect.wait()
        finally:
            if effect.outcome is not None:
                with run.lock:
                    run.delivered(effect)
    return open_outcome(run, found)


async def _await(call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()


class DeliveryFuture(asyncio.Future[Any]):
    """The future of a delivery. Cancelling it cancels the effect, whose outcome is still awaited."""

    effect: AwaitedEffect
    is_cancelled = False
    """The task was cancelled. It gets the cancellation with the outcome, which may have come before it."""
    message: Any = None
    """The message of the cancellation. Libraries recognise theirs by it."""

    def cancel(self, msg: Any = None) -> bool:
        effect = self.effect
        if self.done():
            return False
        if effect.run.is_stopped:
            return super().cancel(msg)
        self.is_cancelled, self.message = True, msg
        with effect.run.lock:
            effect.run.kernel.cancel(effect.token)
        return True


class AwaitedEffect(OpenEffect):
    """An effect whose deliveries a task of the agent awaits."""

    def __init__(self, lane: Lane, spec: EffectSpec) -> None:
        super().__init__(spec)
        self.run: LiveRun = lane.run
        self._lane_name = lane.name
        self._strand = lane.strand
        self.driver = lane.strand.loop or LoopDriver.of(asyncio.get_running_loop())
        self._is_adopted = lane.strand.adopted is not None
        self.future: DeliveryFuture | None = None

    async def wait(self) -> None:
        """Wait for the next delivery."""
        self.future = future = DeliveryFuture(loop=self.driver.loop)
        future.effect = self
        if self._is_adopted:
            self.driver.advance_soon(self.run.coordinator)
        await future

    def deliver(self, value: Any, last: bool) -> None:
        self.outcome = value
        self.wake(is_cancelled=isinstance(value, EffectCancelled))

    def wake(self, *, is_cancelled: bool = False) -> None:
        """Let the waiting task continue, in the run's own queue. Called with the lock held."""
        if self._is_adopted:
            self.driver.call_soon_threadsafe_really(self._set_result, is_cancelled)
            return
        handle = asyncio.Handle(self._set_result, (is_cancelled,), self.driver.loop, None)
        self.driver.add(self.run.coordinator, self._lane_name, handle)

    def _set_result(self, is_cancelled: bool) -> None:
        future = self.future
        if future is None or future.done():
            return
        if is_cancelled or future.is_cancelled:
            asyncio.Future.cancel(future, future.message)
        else:
            future.set_result(None)


class TaskEffect(AwaitedEffect):
    """An effect that a task of its own executes, in the same loop."""

    def __init__(self, lane: Lane, spec: EffectSpec, call: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(lane, spec)
        self._call = call
        self._context: Context = copy_context()
        self._task: InsideTask | None = None
        self._is_told_to_stop = False

    def begin(self, token: Token) -> None:
        if get_ident() == self.driver.thread:
            self._begin()
        else:
            self.driver.call_soon_threadsafe_really(self._begin)

    def _begin(self) -> None:
        with inside():
            self._task = InsideTask(self._context.run(self._start), loop=self.driver.loop, context=self._context)
            self._task.add_done_callback(self._end)
            if self._is_told_to_stop:
                self._task.cancel()

    def _start(self) -> Coroutine[Any, Any, Any]:
        return _await(self._call) if begin_single(self.run, self) else Attempts(self.run, self).execute(self._call)

    def stop(self, token: Token) -> None:
        if not self.driver.loop.is_closed():  # else its task has ended with the loop
            self.driver.call_soon_threadsafe_really(self._stop)

    def _stop(self) -> None:
        self._is_told_to_stop = True
        if self._task is not None:
            self._task.cancel()

    def _end(self, task: asyncio.Task[Any]) -> None:
        outcome: Any
        answers = self.spec.answers
        if task.cancelled():
            error: BaseException = asyncio.CancelledError()
            # Without an order of the agent the cancellation is the effect's own outcome.
            outcome = EffectCancelled() if self.token.cancelled else MadeOutcome(answers.failed(self.key, error), error)
        elif (problem := task.exception()) is None:
            outcome = MadeOutcome(answers.done(self.key, task.result()))
        elif isinstance(problem, RunStopped):
            return
        elif isinstance(problem, Exception):
            outcome = MadeOutcome(answers.failed(self.key, problem), problem)
        else:
            self.run.interrupt(problem)  # not an outcome: the process is told to end
            return
        self.driver.ended(self.run.coordinator, self.token, outcome)


__all__ = ["Inside", "is_outside", "perform", "perform_blocking"]
