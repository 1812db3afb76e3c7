"""Event loops: callbacks, timers and tasks of an agent go to the queue of its run, everything else to the loop.

A loop is not replaced and not subclassed: a few of its methods are set on the instance. So runs live beside the rest of
the program and beside each other.

Life of a callback: `call_soon` by a lane → the queue of its strand → the kernel gives the strand the baton → `pump`, a
callback of the real loop, runs the queue until it is empty → the strand rests.
"""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from time import monotonic, sleep
from typing import Any
from weakref import WeakSet

from onrecord.errors import InvalidInput
from onrecord.runtime.scheduler.drivers.coordinator import Coordinator
from onrecord.runtime.scheduler.drivers.labels import label_of
from onrecord.runtime.scheduler.drivers.strands import (
    CURRENT,
    InsideTask,
    LaneFuture,
    LaneTask,
    Strand,
    find_lane,
    inside,
)
from onrecord.runtime.scheduler.drivers.timers import TIMERS
from onrecord.runtime.scheduler.items import STEPS_BETWEEN_RESTS, Token

BUSY_SECONDS = 0.0001
"""How long a loop that never rests lets go of the run's lock, so that threads can take it."""
_DRIVER = "_onrecord_driver"
_HOOKED = (
    "close",
    "call_soon",
    "call_soon_threadsafe",
    "call_later",
    "call_at",
    "create_future",
    "create_task",
    "shutdown_default_executor",
    "time",
)


class LoopDriver:
    """Change some methods of a loop for runs, and keep its own ones."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.strands: dict[Coordinator, Strand] = {}
        """The strand of each run that runs in this loop."""
        self._arrivals: set[Coordinator] = set()
        self._is_pumped_here = False
        """A callback of this loop makes a run continue, and runs the strand that gets the baton."""
        self._next: Strand | None = None
        self.tasks: WeakSet[LaneTask] = WeakSet()
        """Tasks of runs, which are cancelled if their run is stopped."""
        self.on_close: dict[Coordinator, Callable[[], None]] = {}
        """Callbacks for a loop that is closed before a run has left it."""
        self.thread = 0
        """The thread that runs the loop."""
        self.early: dict[Coordinator, deque[tuple[str, asyncio.Handle]]] = {}
        """Callbacks of runs that do not run in this loop yet: `asyncio.run` makes its task before it runs the loop."""
        self.close_really = loop.close
        self.call_soon_really = loop.call_soon
        self.call_soon_threadsafe_really = loop.call_soon_threadsafe
        self.call_later_really = loop.call_later
        self.call_at_really = loop.call_at
        self.create_future_really = loop.create_future
        self.create_task_really = loop.create_task
        self.shutdown_default_executor_really = loop.shutdown_default_executor
        self.time_really = loop.time
        for name in _HOOKED:
            setattr(loop, name, getattr(self, f"_{name}"))

    @classmethod
    def of(cls, loop: Any) -> LoopDriver:
        driver: LoopDriver | None = getattr(loop, _DRIVER, None)
        if driver is None:
            if not isinstance(loop, asyncio.BaseEventLoop):
                raise InvalidInput(
                    "a run cannot be executed by any loop but asyncio's: its deliveries cannot be ordered there",
                    hint="Run it with asyncio.run, or with anyio.run and its backend asyncio.",
                    code="unsupported_loop",
                )
            driver = cls(loop)
            setattr(loop, _DRIVER, driver)
        return driver

    # Queues

    def enter(self, strand: Strand) -> None:
        """Let the strand's thread run this loop. Called with the run's lock held."""
        run = strand.coordinator
        self.strands[run] = strand
        self.thread = strand.thread = get_ident()
        strand.loop = self
        strand.is_pumping = False
        strand.callbacks.extend(self.early.pop(run, ()))
        if strand.callbacks:
            run.kernel.wake(strand)

    def leave(self, strand: Strand) -> None:
        """Called with the run's lock held when the loop has stopped."""
        run = strand.coordinator
        del self.strands[run]
        self.on_close.pop(run, None)
        strand.loop, strand.is_pumping, strand.owner = None, False, strand.lane
        callbacks, strand.callbacks = strand.callbacks, deque()
        run.kernel.remove(strand)
        for lane, handle in callbacks:
            self.add(run, lane, handle)

    def add(self, run: Coordinator, lane: str, handle: asyncio.Handle) -> None:
        """Queue a callback of the agent. Called with the run's lock held."""
        strand = self.strands.get(run)
        if run.is_over and self.loop.is_closed():
            return
        if strand is None and run.is_over:
            self.call_soon_threadsafe_really(self._run_left, run.main, handle)
            return
        if strand is None:
            self.early.setdefault(run, deque()).append((lane, handle))
            return
        strand.callbacks.append((lane, handle))
        if run.is_over:
            self.call_soon_threadsafe_really(self._pump_over, strand)
        elif not strand.is_blocked and not strand.is_pumping:
            run.kernel.wake(strand)
            if strand.adopted is not None:
                self.advance_soon(run)

    def arrived(self, run: Coordinator, token: Token, value: Any, *, last: bool = True) -> None:
        """Take something from a task of this loop. What arrives in one round of the loop shares a commit."""
        if run.take(token, value, last=last):
            self.advance_soon(run)

    def ended(self, run: Coordinator, token: Token, value: Any) -> None:
        """Take the outcome of a task of this loop, in a callback of its own. If nothing else is open, continue."""
        if run.take(token, value):
            if len(run.kernel.open) == 1:
                self._advance(run)
            else:
                self.advance_soon(run)

    def advance_soon(self, run: Coordinator) -> None:
        """Let the run continue after this round of the loop, if it rests."""
        if run in self._arrivals:
            return
        self._arrivals.add(run)
        if get_ident() == self.thread:
            self.call_soon_really(self._advance, run)
        else:
            self.call_soon_threadsafe_really(self._advance, run)

    def tasks_of(self, run: Coordinator) -> list[LaneTask]:
        return [task for task in self.tasks if task.strand.coordinator is run]

    def _advance(self, run: Coordinator) -> None:
        self._arrivals.discard(run)
        strand = self._find_next(run, run.advance)
        if strand is not None:
            self.pump(strand)

    def _find_next(self, run: Coordinator, advance: Callable[[], None]) -> Strand | None:
        """Let the run continue. Return its strand of this loop if it gets the baton."""
        with run.lock:
            self._is_pumped_here, self._next = True, None
            try:
                advance()
            finally:
                self._is_pumped_here = False
        return self._next

    def start_pump(self, strand: Strand) -> None:
        """Let the real loop call `pump`, or the callback of this loop that has made the run continue."""
        if get_ident() != self.thread:
            self.call_soon_threadsafe_really(self.pump, strand)
        elif self._is_pumped_here and self._next is None:
            self._next = strand
        else:
            self.call_soon_really(self.pump, strand)

    def pump(self, strand: Strand) -> None:
        """Run the agent's callbacks, as long as a strand of this loop has the baton."""
        strand.rests = 0
        while (following := self._run_callbacks(strand)) is not None:
            strand = following
            strand.rests += 1
            if strand.rests >= STEPS_BETWEEN_RESTS:  # effects in this loop get a round; the baton stays here
                self.call_soon_really(self.pump, strand)
                return

    def _run_callbacks(self, strand: Strand) -> Strand | None:
        """Run callbacks until the strand rests. Return the strand of this loop that gets the baton then."""
        run, kernel = strand.coordinator, strand.coordinator.kernel
        before, CURRENT.strand = CURRENT.strand, strand
        strand.is_pumping = True
        strand.taken = left = 0  # a loop that is stopped runs the rest of its round
        try:
            while strand.callbacks and not run.is_over:
                if left == 0:
                    if self.loop._stopping:
                        break
                    left = len(strand.callbacks)
                left -= 1
                strand.taken += 1
                if strand.taken > STEPS_BETWEEN_RESTS:
                    if not kernel.ready:
                        if kernel.live:
                            sleep(BUSY_SECONDS)
                        self.call_soon_really(self.pump, strand)
                        return None
                    with run.lock:
                        kernel.wake(strand)
                    break
                self._step(strand)
                run, kernel = strand.coordinator, strand.coordinator.kernel  # a forked process has a run of its own
        except BaseException as interruption:  # the loop ends with it, and may never run again
            strand.is_pumping = False
            CURRENT.strand = before
            if (close := self.on_close.pop(run, None)) is not None:  # not a loop of the agent's own
                run.on_interrupt(interruption)
                close()
            raise
        finally:
            strand.is_pumping = False
            CURRENT.strand = before
        if run.is_over:
            self._pump_over(strand)
        elif not self.loop._stopping:
            with run.lock:
                if run.running is strand:
                    return self._find_next(run, run.give_up)
        return None

    def release(self, strand: Strand) -> None:
        """Let what is left of a run that is over end: its tasks are cancelled, and each of their acts is refused."""
        if not self.loop.is_closed():
            self.call_soon_threadsafe_really(self._release, strand)

    def _release(self, strand: Strand) -> None:
        if strand.coordinator.stopped is not None:
            for task in self.tasks_of(strand.coordinator):
                task.cancel()
        self._pump_over(strand)

    def _pump_over(self, strand: Strand) -> None:
        before, CURRENT.strand = CURRENT.strand, strand
        strand.is_pumping = True
        try:
            for _ in range(len(strand.callbacks)):  # one that is added meanwhile comes after the real ones of the loop
                lane, handle = strand.callbacks.popleft()
                if not handle.cancelled():
                    strand.owner = lane
                    with suppress(KeyboardInterrupt, SystemExit):  # what ends the process has left the loop before
                        handle._run()
        finally:
            strand.is_pumping = False
            CURRENT.strand = before

    def _run_left(self, strand: Strand, handle: asyncio.Handle) -> None:
        """Run a callback of a run that is over and has left the loop: each of its acts is refused."""
        before, CURRENT.strand = CURRENT.strand, strand
        try:
            if not handle.cancelled():
                handle._run()
        finally:
            CURRENT.strand = before

    def _step(self, strand: Strand) -> None:
        run = strand.coordinator
        lane, handle = strand.callbacks.popleft()
        if not handle.cancelled():
            strand.owner = lane
            strand.since = monotonic()
            handle._run()
            strand.owner, run = strand.lane, strand.coordinator
            if not run.is_over:
                with run.lock:
                    run.act(strand)
        if run.is_over:
            return
        if strand.callbacks and not self.loop._stopping:
            with run.lock:
                run.next_step()

    # The methods of the loop

    def _close(self) -> None:
        for close in list(self.on_close.values()):
            close()
        self.on_close.clear()
        for task in list(self.tasks):
            if task.strand.coordinator.stopped is not None and task.done() and not task.cancelled():
                task.exception()  # the run reports why it was stopped
        self.close_really()

    async def _shutdown_default_executor(self, *args: Any) -> None:
        """Leave a pool alone that only effects used, such as to look up a name: in a replay the loop has none."""
        pool = self.loop._default_executor
        if pool is not None and find_lane() is not None and "_onrecord_jobs" not in vars(pool):
            self.loop._default_executor = None
            with inside():
                pool.shutdown(wait=False)
        await self.shutdown_default_executor_really(*args)

    def _call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:
        task = getattr(callback, "__self__", None)
        if isinstance(task, LaneTask):
            run, lane = task.strand.coordinator, task.lane
            if not task.is_new and self._is_stray(run):
                return StrayWake(self, run, lane, callback, args, context)
            task.is_new = False
        elif isinstance(task, asyncio.Task) or (found := find_lane()) is None:
            return self.call_soon_really(callback, *args, context=context)  # type: ignore[no-any-return]
        else:
            run, lane = found[0].coordinator, found[1]
        handle = asyncio.Handle(callback, args, self.loop, context)
        with run.lock:
            self.add(run, lane, handle)
        return handle

    @staticmethod
    def _is_stray(run: Coordinator) -> bool:
        """Return True if a task of a run is woken by code that belongs to no lane of it."""
        found = find_lane()
        return (found is None or found[0].coordinator is not run) and not run.is_over and run.main.adopted is None

    def _call_soon_threadsafe(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        found = find_lane()
        if found is None:
            return self.call_soon_threadsafe_really(callback, *args, context=context)  # type: ignore[no-any-return]
        strand, lane = found
        run = strand.coordinator
        handle = asyncio.Handle(callback, args, self.loop, context)
        if run.is_over and callback == self.loop.create_task:  # the finaliser of an asynchronous generator
            args[0].close()
            return handle
        with run.lock:
            if not run.is_over:
                run.act(strand)
            self.add(run, lane, handle)
        return handle

    def _time(self) -> float:
        found = find_lane()
        return self.time_really() if found is None else found[0].coordinator.time()

    def _call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        found = find_lane()
        if found is None or found[0].coordinator.is_over:
            return self.call_later_really(delay, callback, *args, context=context)  # type: ignore[no-any-return]
        run = found[0].coordinator
        return LoopTimer(self, run, found[1], delay, run.time() + delay, callback, args, context)

    def _call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        found = find_lane()
        if found is not None and found[0].coordinator.is_over:
            return self.call_later_really(  # type: ignore[no-any-return]
                when - found[0].coordinator.time(), callback, *args, context=context
            )
        if found is None:
            return self.call_at_really(when, callback, *args, context=context)  # type: ignore[no-any-return]
        run = found[0].coordinator
        return LoopTimer(self, run, found[1], when - run.time(), when, callback, args, context)

    def _create_future(self) -> asyncio.Future[Any]:
        found = find_lane()
        if found is None:
            return self.create_future_really()  # type: ignore[no-any-return]
        return LaneFuture(found[0].coordinator.next_number(), self.loop)

    def _create_task(
        self, coroutine: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        found = find_lane()
        if found is None:
            if CURRENT.strand is None:
                return self.create_task_really(coroutine, name=name, context=context)  # type: ignore[no-any-return]
            return InsideTask(coroutine, loop=self.loop, name=name, context=context)
        strand, parent = found
        run = strand.coordinator
        with run.lock:
            # A loop cleans up after a run that is over, too. The acts of such a task are refused.
            lane = parent if run.is_over else run.born(parent, name or label_of(coroutine))
            number = run.next_number()
        task = LaneTask(coroutine, strand, lane, number, loop=self.loop, name=name, context=context)
        self.tasks.add(task)
        task.add_done_callback(_end_task)
        return task


def _end_task(task: asyncio.Task[Any]) -> None:
    assert isinstance(task, LaneTask)
    run = task.strand.coordinator
    with run.lock:
        if run.stopped is None and not run.has_ended:
            run.kernel.ended(task.lane)


class LoopTimer(asyncio.TimerHandle):
    """A timer of the agent: it fires by its delay while recording, and by the record in a replay."""

    def __init__(
        self,
        driver: LoopDriver,
        run: Coordinator,
        lane: str,
        delay: float,
        when: float,
        callback: Callable[..., Any],
        args: Any,
        context: Context | None,
    ) -> None:
        super().__init__(when, callback, args, driver.loop, context)
        self._driver = driver
        self._run_of = run
        self._lane = lane
        self._delay = delay
        with run.lock:
            self._token = run.turn(lane, "timer", self, when)

    def begin(self, token: Token) -> None:
        TIMERS.add(self._delay, self._run_of, token)

    def stop(self, token: Token) -> None: ...

    def deliver(self, value: Any, last: bool) -> None:
        self._run_of.reach(self.when())
        self._driver.add(self._run_of, self._lane, self)

    def cancel(self) -> None:
        super().cancel()
        with self._run_of.lock:
            self._run_of.kernel.cancel(self._token)


class StrayWake(asyncio.Handle):
    """The wake-up of a task by code that belongs to no lane: a turn of its own, at rest."""

    def __init__(
        self,
        driver: LoopDriver,
        run: Coordinator,
        lane: str,
        callback: Callable[..., Any],
        args: Any,
        context: Context | None,
    ) -> None:
        super().__init__(callback, args, driver.loop, context)
        self._driver = driver
        self._run_of = run
        self._lane = lane
        with run.lock:
            token = run.turn(lane, "wake", self)
        driver.arrived(run, token, None)

    def begin(self, token: Token) -> None: ...

    def stop(self, token: Token) -> None: ...

    def deliver(self, value: Any, last: bool) -> None:
        self._driver.add(self._run_of, self._lane, self)
