"""From the first line of an agent to its end: carrying a run, wherever it stands in its record.

A run that is carried ends (`Completed`, `Failed`, `Cancelled`) or stops (divergence, doubt, suspension, take-over).
Only the first is written down; a stopped run goes on from where it is, when somebody carries it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any

from onrecord.core.codec import encode
from onrecord.core.events import Cancelled, Completed, Event, Failed
from onrecord.errors import InvalidInput, OnrecordError
from onrecord.runtime.engine.context import HERE, PLACE, nobody
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import Divergence, RunStopped, Suspended
from onrecord.runtime.replay.checkpoint_entry import Carrier
from onrecord.runtime.replay.divergence import beyond_the_record, first_difference, resting_too_early
from onrecord.runtime.replay.history import History
from onrecord.runtime.replay.records import RecordedMark
from onrecord.runtime.scheduler import thread_driver
from onrecord.runtime.scheduler.asyncio_driver import LoopHooks, TaskQueue
from onrecord.runtime.scheduler.lanes import Lane

CLEAN_UP_SECONDS = 10.0
"""How long the tasks of a stopped run may take to clean up."""


def carry(run: LiveRun, call: Callable[[], Any]) -> Any:
    """Runs a synchronous agent in this thread."""
    thread_driver.install()
    context = copy_context()
    context.run(PLACE.set, run.main)
    run.carrier = Carrier.here()
    token = HERE.token
    HERE.token = None
    if run.begins_with_threads:
        HERE.token = run.main_token
        run.turns.runs(run.main_token, awake=True)
    run.cancelling.on(run.cancelling.at_next_effect, looped=False)
    try:
        value = context.run(call)
    except RunStopped as stopped:
        raise stopped.reason from None
    except asyncio.CancelledError:
        return _cancelled(run)
    except Exception as error:
        return _failed(run, error)
    except BaseException as interruption:
        run.interrupt(interruption)
        raise
    finally:
        HERE.token = token
        run.turns.rests(run.main_token)
    return _completed(run, value)


async def carry_async(run: LiveRun, call: Callable[[], Awaitable[Any]], let_go: Callable[[], None]) -> Any:
    """Runs an asynchronous agent in the running loop, beside whatever else lives there.

    `let_go` is for a loop that ends without coming back here; it may be called again by whoever called this.
    """
    thread_driver.install()
    loop = _running_loop()
    hooks = LoopHooks.of(loop)
    queue = hooks.enter(run)
    queue.let_go = let_go
    context = copy_context()
    context.run(PLACE.set, run.main)
    main = _Main(_awaited(call), loop=loop, context=context)
    main.run = run
    run.carrier = Carrier.of(main)
    queue.tasks.add(main)

    def cancel_main() -> None:
        loop.call_soon(main.cancel, context=context)  # in the run's own queue: nothing is handed over before it

    run.cancelling.on(cancel_main)
    run.on_stop.append(queue.cancel_all_soon)
    try:
        await _finished(run, main)
    finally:
        hooks.leave(queue)
    error = None if main.cancelled() else main.exception()
    if run.interrupted_by is not None:
        raise run.interrupted_by
    if run.stopped is not None:
        raise run.stopped
    if main.cancelled():
        return _cancelled(run)
    if error is None:
        return _completed(run, main.result())
    if isinstance(error, Exception):
        return _failed(run, error)
    run.interrupt(error)
    raise error


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise trio_refused() from None


def trio_refused() -> InvalidInput:
    return InvalidInput(
        "a run cannot live in trio, or in any loop but asyncio's: what it hands over cannot be put in order",
        hint="Run it with asyncio.run, or with anyio.run and its backend asyncio.",
        code="unsupported_loop",
    )


class _Main(asyncio.Task[Any]):
    """The agent's own task. Whoever shuts a process down cancels all tasks that there are, in any order: the run is
    suspended before the agent can take that for a cancellation of its own, and clean up on record."""

    run: LiveRun

    def cancel(self, msg: Any = None) -> bool:
        place = PLACE.get()
        if not self.done() and not (type(place) is Lane and place.run is self.run):
            self.run.stop(Suspended(f"run {self.run.name} was suspended: somebody else has cancelled its task"))
        return super().cancel(msg)


async def _awaited(call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()


async def _finished(run: LiveRun, main: asyncio.Task[Any]) -> None:
    """Waits for the agent's main task. If the waiting itself is cancelled, the run is suspended, not ended."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def finished(task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # the run tells of it, so asyncio need not
        if not done.done():
            done.set_result(None)

    main.add_done_callback(finished, context=nobody())
    try:
        await done
    except asyncio.CancelledError:
        run.stop(Suspended(f"run {run.name} was suspended: whoever waited for it has gone"))
        await asyncio.wait([main], timeout=CLEAN_UP_SECONDS)
        raise
    if run.stopped is not None and isinstance(run.turns.loop, TaskQueue):
        others = [task for task in run.turns.loop.tasks if not task.done()]
        if others:
            await asyncio.wait(others, timeout=CLEAN_UP_SECONDS)


# The end


def _completed(run: LiveRun, value: Any) -> Any:
    if run.stopped is not None:
        raise run.stopped
    end_run(run, Completed(value))
    return value


def _failed(run: LiveRun, error: Exception) -> Any:
    if run.stopped is not None:
        raise run.stopped
    end_run(run, Failed(error))
    raise error


def _cancelled(run: LiveRun) -> Any:
    end_run(run, Cancelled(run.cancelling.reason))
    raise asyncio.CancelledError


def end_run(run: LiveRun, event: Event) -> None:
    """Writes the end down, or compares it with the recorded one."""
    past = run.past
    if past is not None and not run.is_live and not run.accept_changes():
        beyond = beyond_the_record(run)
        if beyond is not None:
            raise _stopped(run, beyond)
        if past.unmade or past.end is None:
            failure = event.error if isinstance(event, Failed) else None
            raise _stopped(run, resting_too_early(run, failure if isinstance(failure, BaseException) else None))
        _check_states(run, past)
        _check_draws(run, past)
        _compare_ends(run, past.end, event)
        run.over()
        return
    if run.journal is None:
        raise _stopped(run, Divergence(f"run {run.name} ended where the record goes on", code="ended_early"))
    try:
        run.end(event)
    except RunStopped as stopped:  # somebody else has ended it, or carries it now
        raise stopped.reason from None


def _stopped(run: LiveRun, reason: OnrecordError) -> OnrecordError:
    run.stop(reason)
    return reason


def _check_states(run: LiveRun, past: History) -> None:
    """Every recorded state has been set again."""
    for recorded in past.lanes.values():
        again = recorded.bound.ordinals.get("state", 0) if recorded.bound is not None else 0
        if again < len(recorded.marks):
            first = recorded.marks[again]
            raise _stopped(
                run,
                Divergence(
                    f"run {run.name} ended without the state recorded at seq {first.seq}",
                    code="missing_state",
                    seq=first.seq,
                    lane=recorded.path,
                    expected=past.members(first.row),
                ),
            )


def _check_draws(run: LiveRun, past: History) -> None:
    """Every recorded value has been drawn again, by whoever has come to his end."""
    for (identity, kind), values in past.draws.items():
        recorded = past.lanes.get(identity)
        lane = recorded.bound if recorded is not None else None
        if lane is None or not (lane.main or lane.is_over):
            continue
        drawn = lane.ordinals.get(f"draw:{kind}:{identity}", 0)
        if drawn < len(values):
            raise _stopped(
                run,
                Divergence(
                    f"run {run.name} ended with {drawn:,} of {len(values):,} values of {kind} drawn in lane {identity}",
                    code="missing_draw",
                    lane=identity,
                ),
            )


def _compare_ends(run: LiveRun, end: RecordedMark, event: Event) -> None:
    assert run.past is not None
    event = run.secrets.redact_event(event)
    rules = run.reader.rules()
    same = same_kind = end.kind == event.kind
    if same and isinstance(event, (Completed, Failed)):
        tree = encode(event.content()).tree
        same = end.row.match is None or rules.match(event.kind, tree) == end.row.match
    if not same:
        expected = run.past.members(end.row)
        path = first_difference(encode(expected).tree, encode(event.content()).tree) if same_kind else None
        differs = f" ({path} differs)" if path else ""
        raise _stopped(
            run,
            Divergence(
                f"run {run.name} ended differently: recorded {end.kind} at seq {end.seq}, now {event.kind}{differs}",
                code="other_end",
                seq=end.seq,
                expected=expected,
                actual=event.content(),
                path=path or "/kind",
            ),
        )
