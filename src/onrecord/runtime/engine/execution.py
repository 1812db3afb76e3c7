"""Executing a run, from the agent's first line to its end, wherever it is in its record.

A run that is executed ends (`Completed`, `Failed`, `Cancelled`) or stops (divergence, doubt, suspension, take-over).
Only an end is written; a stopped run continues when it is resumed.
"""

from __future__ import annotations

import asyncio
import functools
from _thread import get_ident
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any

from onrecord import interception
from onrecord.core.events import Cancelled, Completed, Event, Failed
from onrecord.errors import InvalidInput, OnrecordError
from onrecord.runtime.engine.loop_thread import await_in_own_loop
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import RunStopped, Suspended
from onrecord.runtime.replay.divergence import record_ended
from onrecord.runtime.scheduler.drivers import threads
from onrecord.runtime.scheduler.drivers.loops import LoopDriver
from onrecord.runtime.scheduler.drivers.strands import ADOPTED, CURRENT, LaneTask, RunEnded, Strand, find_lane

CLEAN_UP_SECONDS = 10.0
"""How long the tasks of a stopped run may take to clean up."""


def install_hooks() -> None:
    """Prepare this process for runs: its threads and locks, and the interceptors."""
    threads.install()
    interception.install()


@contextmanager
def entered(strand: Strand) -> Iterator[None]:
    """Let the current thread be that strand of its run."""
    before = CURRENT.strand, CURRENT.depth
    CURRENT.strand, CURRENT.depth = strand, 0
    strand.thread = get_ident()
    try:
        yield
    finally:
        CURRENT.strand, CURRENT.depth = before


@contextmanager
def adopted(strand: Strand, task: asyncio.Task[Any]) -> Iterator[None]:
    """Let a task of the running loop, which is no lane, be that strand of its run."""
    run, driver = strand.coordinator, LoopDriver.of(asyncio.get_running_loop())
    is_entered = strand.loop is driver
    with run.lock:
        if not is_entered:
            driver.enter(strand)
        before, strand.adopted = strand.adopted, task
    outer, ADOPTED[task] = ADOPTED.get(task), strand
    try:
        yield
    finally:
        if outer is None:
            del ADOPTED[task]
        else:
            ADOPTED[task] = outer
        with run.lock:
            strand.adopted = before
            if not is_entered:
                driver.leave(strand)


def execute_run(run: LiveRun, call: Callable[[], Any]) -> Any:
    """Execute a synchronous agent in this thread."""
    install_hooks()
    coordinator = run.coordinator
    with run.lock:
        run.cancellation.listen()
        coordinator.start()
    try:
        with entered(coordinator.main):
            value = copy_context().run(call)
    except RunStopped as stopped:
        raise run.interrupted_by or run.stopped or stopped.reason from None
    except asyncio.CancelledError:
        end_run(run, Cancelled(run.cancellation.reason))
        raise
    except Exception as error:
        end_run(run, Failed(error))
        raise
    except BaseException as interruption:
        run.interrupt(interruption)
        raise
    end_run(run, Completed(value))
    return value


async def execute_run_async(run: LiveRun, call: Callable[[], Awaitable[Any]], release: Callable[[], None]) -> Any:
    """Execute an asynchronous agent in the running loop, beside whatever else lives there.

    `release` is for a loop that ends without continuing here; the caller may call it again.
    """
    install_hooks()
    loop = _running_loop()
    if not isinstance(loop, asyncio.BaseEventLoop):  # such as uvloop's, whose order of callbacks is its own
        return await await_in_own_loop(functools.partial(execute_run_async, run, call, release))
    driver, coordinator = LoopDriver.of(loop), run.coordinator
    strand = coordinator.main
    ended: asyncio.Future[None] = loop.create_future()

    def end(task: asyncio.Task[Any]) -> None:
        try:
            if not task.cancelled():
                task.exception()  # the run reports it, so asyncio need not
            _end_task(run, task)
        except RunStopped:
            pass  # the waiting caller raises the reason
        finally:
            if not ended.done():
                ended.set_result(None)

    with run.lock:
        driver.enter(strand)
        driver.on_close[coordinator] = functools.partial(_suspend, run, release)
        main = _MainTask(_await(call), run, strand, run.kernel.root, coordinator.next_number(), loop=loop)
        main.add_done_callback(end)
        driver.tasks.add(main)

        def cancel() -> None:
            handle = asyncio.Handle(main.cancel_by_run, (), loop, None)
            driver.add(coordinator, run.kernel.root, handle)

        run.cancellation.listen(cancel)
        coordinator.advance()
    try:
        await _await_end(run, driver, main, ended)
    finally:
        with run.lock:
            driver.leave(strand)
    return _result_of(run, main)


def _suspend(run: LiveRun, release: Callable[[], None]) -> None:
    """Suspend a run whose loop ends without continuing it."""
    run.stop(Suspended(f"run {run.name} was suspended: its event loop was closed"))
    with suppress(OnrecordError):  # then the lease ends by itself
        release()


def _end_task(run: LiveRun, task: asyncio.Task[Any]) -> None:
    """Write the end of the run, as part of its last step."""
    if run.is_stopped:
        return
    if task.cancelled():
        _end(run, Cancelled(run.cancellation.reason))
        return
    error = task.exception()
    if error is None:
        _end(run, Completed(task.result()))
    elif isinstance(error, Exception):
        _end(run, Failed(error))
    elif not isinstance(error, (RunStopped, RunEnded)):
        run.interrupt(error)


def _result_of(run: LiveRun, main: asyncio.Task[Any]) -> Any:
    error = None if main.cancelled() else main.exception()
    if run.interrupted_by is not None:
        raise run.interrupted_by
    if run.stopped is not None:
        raise run.stopped
    if main.cancelled():
        raise asyncio.CancelledError
    if error is not None:
        raise error
    return main.result()


class _MainTask(LaneTask):
    """The agent's own task.

    A process that shuts down cancels all its tasks, in any order: the run is suspended before the agent can take that
    for a cancellation of its own, and clean up on record.
    """

    def __init__(self, coroutine: Any, run: LiveRun, strand: Strand, lane: str, number: int, **options: Any) -> None:
        self._run_of = run
        super().__init__(coroutine, strand, lane, number, **options)

    def cancel(self, msg: Any = None) -> bool:
        found = find_lane()
        is_own = found is not None and found[0].coordinator is self._run_of.coordinator
        if not self.done() and not is_own:
            self._run_of.stop(Suspended(f"run {self._run_of.name} was suspended: its task was cancelled from outside"))
        return super().cancel(msg)

    def cancel_by_run(self) -> None:
        super().cancel()


async def _await(call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()


async def _await_end(run: LiveRun, driver: LoopDriver, main: asyncio.Task[Any], ended: asyncio.Future[None]) -> None:
    """Wait for the agent's main task. If the waiting itself is cancelled, the run is suspended, not ended."""
    try:
        await ended
    except asyncio.CancelledError:
        run.stop(Suspended(f"run {run.name} was suspended: its caller does not wait any more"))
        await asyncio.wait([main], timeout=CLEAN_UP_SECONDS)
        raise
    if run.stopped is not None:
        others = [task for task in driver.tasks_of(run.coordinator) if not task.done()]
        if others:
            await asyncio.wait(others, timeout=CLEAN_UP_SECONDS)


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise trio_refused() from None


def trio_refused() -> InvalidInput:
    return InvalidInput(
        "a run cannot be executed by trio, or by any loop but asyncio's: its deliveries cannot be ordered there",
        hint="Run it with asyncio.run, or with anyio.run and its backend asyncio.",
        code="unsupported_loop",
    )


# The end


def end_run(run: LiveRun, event: Event) -> None:
    """Write the end, or compare it with the recorded one. Raise the reason if the run was stopped."""
    try:
        _end(run, event)
    except RunStopped as stopped:
        raise run.stopped or stopped.reason from None


def _end(run: LiveRun, event: Event) -> None:
    if run.stopped is not None:
        raise RunStopped(run.stopped)
    history = run.history
    if run.journal is None and history is not None and not history.is_whole:
        with run.lock:
            left = run.kernel.history.first_unmade()
            if left is None:
                run.stop_here(record_ended(run))
    run.end(event)
