"""The tasks of an agent: each run has a queue, a clock and an order of its own inside the loop that it runs in.

While a run is alive its loop is asked a few things differently: callbacks, timers, tasks and executor jobs that belong
to a run (their context says so) go to the queue of that run; everything else goes where it always went. The loop is
not replaced and not subclassed, so runs live beside the rest of the program and beside each other.

Life of a callback: `call_soon` in the run's context → the run's queue → `_pump`, once around the loop → when the
queue is empty the run rests, what it asked for is committed and begun, and the next thing is handed over.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from asyncio.events import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

from onrecord.errors import InvalidInput, OnrecordError
from onrecord.runtime.engine.context import PLACE, nobody
from onrecord.runtime.engine.stops import Suspended
from onrecord.runtime.replay.records import TIMER
from onrecord.runtime.scheduler.delivery_item import Item
from onrecord.runtime.scheduler.executor_driver import ExecutorJob
from onrecord.runtime.scheduler.lanes import Lane, origin_of
from onrecord.runtime.scheduler.stable_sets import Task, is_made_by_asyncio_itself

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun

PATIENCE_SECONDS = 1.0
"""How long a run that comes back may stand still before that is called a divergence."""
HAND_OVERS_AT_ONCE = 64
"""How many things are handed over before the loop gets to do anything else."""
_HOOKED = (
    *("call_soon", "call_soon_threadsafe", "call_later", "call_at", "create_task", "run_in_executor", "time"),
    "close",
)
_TIMED_OUT = asyncio.Timeout._on_timeout  # type: ignore[attr-defined]
_HOOKS = "_onrecord_hooks"
"""Kept by the loop itself, and gone with it."""


class TaskQueue:
    """One run in one loop."""

    def __init__(self, run: LiveRun, hooks: LoopHooks) -> None:
        self.run = run
        self.hooks = hooks
        self.ready: deque[Handle] = deque()
        self.steps = 0
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.timers: set[RunTimer] = set()
        self._pumping = False
        self.stands = False
        self._scheduled = False
        self._thread = threading.get_ident()
        self._watching: TimerHandle | None = None
        self._seen: tuple[Any, ...] = ()
        self.offset = 0.0
        """What the run's clock shows beyond the loop's, once it has come back from a record."""
        self.began = hooks.time()
        self.let_go: Callable[[], None] | None = None
        """Lets go of the run, for when whoever carries it may never be resumed by the loop."""

    # What turns ask of a loop

    @property
    def busy(self) -> bool:
        return not self.stands and (self._pumping or bool(self.ready))

    @property
    def is_here(self) -> bool:
        return threading.get_ident() == self._thread

    def wake(self) -> None:
        self.hooks.call_soon_threadsafe(self.run.turns.advance, context=nobody())

    def look_again(self, seconds: float) -> None:
        self.hooks.call_soon_threadsafe(self._look_later, seconds, context=nobody())

    def _look_later(self, seconds: float) -> None:
        self.hooks.call_later(seconds, self.run.turns.overdue, context=nobody())

    # Callbacks

    def add(self, handle: Handle) -> None:
        self.ready.append(handle)
        self.nudge()

    def pump_after(self, call: Callable[..., None], *args: Any) -> None:
        """For a callback of the loop that belongs to no lane: what it makes ready is run at once, which spares the loop
        one of its rounds."""
        if self._scheduled:
            call(*args)
            return
        self._scheduled = True
        try:
            call(*args)
        finally:
            self._pump()

    def nudge(self) -> None:
        """There may be something to do: asked for by code that the loop began before the run was in it."""
        if not self._scheduled:
            self._scheduled = True
            if self.is_here:
                self.hooks.call_soon(self._pump, context=nobody())
            else:
                self.hooks.call_soon_threadsafe(self._pump, context=nobody())

    def _pump(self) -> None:
        """Runs what is ready now, and what is handed over then; what is made ready meanwhile waits for the loop."""
        self._pumping = self._scheduled = True
        try:
            for _ in range(HAND_OVERS_AT_ONCE):
                self._run_ready()
                self.run.flush()
                self._pumping = False
                if self.ready:
                    break
                self.run.turns.advance()
                if not self.ready:
                    break
                self._pumping = True
        except Exception:
            raise
        except BaseException as interruption:  # the loop ends with it, and perhaps nobody runs it again
            self.run_lost(partial(self.run.interrupt, interruption))
            raise
        finally:
            self._pumping = self._scheduled = False
            if self.ready:
                self._scheduled = True
                self.hooks.call_soon(self._pump, context=nobody())

    def run_lost(self, stop: Callable[[], None]) -> None:
        """The run is suspended here: the task that carries it may be left lying when its loop ends."""
        if self.let_go is not None:
            stop()
            with suppress(OnrecordError):  # then the lease ends by itself; what goes on is more important
                self.let_go()

    def _run_ready(self) -> None:
        ready, turns = self.ready, self.run.turns
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                self.steps += 1
                handle._run()
                if ready and (turns.pending or turns.replaying):
                    turns.starving()

    # Time

    def time(self) -> float:
        if self.run.turns.replaying:
            return self.began + (self.run.now_us - self.run.reader.header_row.created) / 1e6
        return self.hooks.time() + self.offset

    def reached(self, when: float) -> None:
        """A timer of the record has fired: it cannot be earlier than that."""
        if self.run.turns.replaying:
            self.run.reached(self.run.reader.header_row.created + int((when - self.began) * 1e6) + 1)

    def went_live(self) -> None:
        """The run's clock goes on from where the record ends, without a jump."""
        if self.run.past is not None:
            self.run.reached(self.run.past.last_time)
        elapsed = (self.run.now_us - self.run.reader.header_row.created) / 1e6
        self.offset = self.began + elapsed - self.hooks.time()
        for timer in list(self.timers):
            timer.schedule()

    # Standing still

    def watch(self) -> None:
        """The run rests and its record cannot go on: unless something comes soon, it never will."""
        if self._watching is None and self.is_here:
            self._seen = self.run.turns.progress
            # By the loop's own clock: `call_later` asks for the time here, in a lane, where it is that of the record.
            until = self.hooks.time() + PATIENCE_SECONDS
            self._watching = self.hooks.call_at(until, self._stood_still, context=nobody())

    def _stood_still(self) -> None:
        self._watching = None
        turns = self.run.turns
        turns.advance()  # what has just arrived may not have been looked at
        if turns.replaying and not self.run.is_stopped and (self.busy or turns.progress != self._seen):
            self.watch()
            return
        self.run.stands_still()
        if not self.run.is_stopped and not self.run.is_live and self.run.turns.may_go_on():
            self.watch()

    def cancel_all_soon(self) -> None:
        """The run has stopped: its tasks are told, wherever that was decided."""
        self.hooks.call_soon_threadsafe(self._cancel_all, context=nobody())

    def _cancel_all(self) -> None:
        for task in list(self.tasks):
            task.cancel()

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        for timer in list(self.timers):
            timer.cancel()


class RunTimer(TimerHandle):
    """A timer of the agent. It fires in its turn: when it is due while recording, by the record when coming back."""

    def __init__(
        self, queue: TaskQueue, lane: Lane, when: float, call: Callable[..., Any], args: Any, context: Context
    ):
        super().__init__(when, call, args, queue.hooks.loop, context)
        self.queue = queue
        ordinal = lane.next_ordinal(TIMER)
        self.item = Item(TIMER, lane, ordinal, self._fire, looped=True)
        self._real: TimerHandle | None = None
        queue.timers.add(self)
        if queue.run.turns.replaying:
            queue.run.turns.expect(self.item)
        else:
            self.schedule()

    def schedule(self) -> None:
        due = self.when() - self.queue.offset
        self._real = self.queue.hooks.call_at(due, self._due, context=nobody())

    def _due(self) -> None:
        self._real = None
        if not self.cancelled():
            self.queue.run.turns.arrive(self.item)

    def _fire(self) -> None:
        self.queue.timers.discard(self)
        self.queue.reached(self.when())
        if not self.cancelled():
            self.queue.add(self)

    def cancel(self) -> None:
        super().cancel()
        self.queue.timers.discard(self)
        self.queue.run.turns.forget(self.item)
        if self._real is not None:
            self._real.cancel()
            self._real = None


class LoopHooks:
    """What a loop is asked differently while runs live in it, and the loop's own answers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.queues: list[TaskQueue] = []
        self.has_jobs = False
        """A run has given the loop's own executor something to do."""
        self.call_soon = loop.call_soon
        self.call_soon_threadsafe = loop.call_soon_threadsafe
        self.call_later = loop.call_later
        self.call_at = loop.call_at
        self.create_task = loop.create_task
        self.run_in_executor = loop.run_in_executor
        self.time = loop.time
        self.close = loop.close

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> LoopHooks:
        if not isinstance(loop, asyncio.BaseEventLoop):
            raise InvalidInput(
                f"a run cannot live in a {type(loop).__module__} loop: its callbacks cannot be put in order",
                hint="Run the agent with asyncio.run, or start it with `.start()`, which brings a loop of its own.",
                code="unsupported_loop",
            )
        hooks: LoopHooks | None = getattr(loop, _HOOKS, None)
        if hooks is None:
            hooks = cls(loop)
            setattr(loop, _HOOKS, hooks)
        return hooks

    @staticmethod
    def had_jobs(loop: asyncio.AbstractEventLoop) -> bool:
        hooks: LoopHooks | None = getattr(loop, _HOOKS, None)
        return hooks is not None and hooks.has_jobs

    def enter(self, run: LiveRun) -> TaskQueue:
        if not self.queues:
            for name in _HOOKED:
                setattr(self.loop, name, getattr(self, f"_{name}"))
        queue = TaskQueue(run, self)
        self.queues.append(queue)
        run.turns.loop = queue
        run.came_to_rest = queue.watch
        run.on_live.append(queue.went_live)
        return queue

    def leave(self, queue: TaskQueue) -> None:
        queue.close()
        if queue not in self.queues:
            return  # with its loop, earlier
        self.queues.remove(queue)
        if not self.queues:
            for name in _HOOKED:
                delattr(self.loop, name)

    def _close(self) -> None:
        """Whoever still carries a run here will never get to the end of it."""
        if not self.loop.is_running():
            for queue in list(self.queues):
                run = queue.run
                queue.run_lost(partial(run.stop, Suspended(f"run {run.name} was suspended: its loop was closed")))
                self.leave(queue)
        self.close()

    def _queue(self, context: Context | None) -> tuple[TaskQueue | None, Lane | None]:
        place = PLACE.get() if context is None else context.get(PLACE)
        return (self._queue_of(place), place) if type(place) is Lane else (None, None)

    def _queue_of(self, lane: Lane) -> TaskQueue | None:
        """The queue of the lane's run, if it lives in this loop."""
        queue = lane.run.turns.loop
        return queue if type(queue) is TaskQueue and queue.hooks is self and not lane.run.is_stopped else None

    def _call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Handle:
        lane = PLACE.get() if context is None else context.get(PLACE)
        queue = self._queue_of(lane) if type(lane) is Lane else None
        if queue is None or type(lane) is not Lane:
            return self.call_soon(callback, *args, context=context)
        if type(callback) is MethodType and callback.__func__ is _TIMED_OUT:
            # Its time was up before it was begun with. Whether that is so is a matter of the clock, so it is a timer.
            return RunTimer(queue, lane, queue.time(), callback, args, context or copy_context())
        handle = Handle(callback, args, self.loop, context)
        queue.add(handle)
        return handle

    def _call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Handle:
        queue, _ = self._queue(context)
        if queue is None:
            return self.call_soon_threadsafe(callback, *args, context=context)
        handle = Handle(callback, args, self.loop, context)
        queue.add(handle)
        return handle

    def _call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        queue, lane = self._queue(context)
        if queue is None or lane is None:
            return self.call_later(delay, callback, *args, context=context)
        return RunTimer(queue, lane, queue.time() + delay, callback, args, context or copy_context())

    def _call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        queue, lane = self._queue(context)
        if queue is None or lane is None:
            return self.call_at(when, callback, *args, context=context)
        return RunTimer(queue, lane, when, callback, args, context or copy_context())

    def _time(self) -> float:
        if type(PLACE.get()) is not Lane:
            return self.time()
        queue, _ = self._queue(None)
        return self.time() if queue is None else queue.time()

    def _create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None, **more: Any
    ) -> asyncio.Task[Any]:
        queue, lane = self._queue(context)
        if queue is None or lane is None:
            if context is not None:
                more["context"] = context
            return self.create_task(coro, name=name, **more)
        context = context if context is not None else copy_context()
        child = None if _is_for_wait_for() else Lane(lane.run, lane, name, origin_of(coro))
        if child is not None:
            lane.run.book.born(child)
            context.run(PLACE.set, child)
        if child is not None and is_made_by_asyncio_itself(self.loop):
            task: asyncio.Task[Any] = Task(coro, child, loop=self.loop, name=name, context=context, **more)
        else:
            task = self.create_task(coro, name=name, context=context, **more)
        own = context.get(PLACE)
        if isinstance(own, Lane) and own is not lane:
            own.task = ref(task)
        queue.tasks.add(task)
        return task

    def _run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        queue, lane = self._queue(None)
        if queue is None or lane is None:
            return self.run_in_executor(executor, func, *args)
        self.has_jobs = self.has_jobs or executor is None
        return ExecutorJob(queue, lane, executor, func, args).future


_WAIT_FOR = asyncio.wait_for.__code__


def _is_for_wait_for() -> bool:
    """The task that `wait_for` makes on Python 3.11 is its caller's own lane; later versions make none."""
    if sys.version_info >= (3, 12):
        return False
    frame = sys._getframe(2)
    for _ in range(4):
        if frame.f_code is _WAIT_FOR:
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False
