"""Jobs that an agent gives to an executor: each is a lane of its own, and begins and ends in its turn."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from onrecord.runtime.engine.context import HERE, PLACE
from onrecord.runtime.replay.records import JOB, START
from onrecord.runtime.scheduler.delivery_item import Item
from onrecord.runtime.scheduler.lanes import Lane, kept
from onrecord.runtime.scheduler.scheduler import LOOK_SECONDS
from onrecord.runtime.scheduler.stable_sets import Future
from onrecord.runtime.scheduler.thread_signal import Signal

if TYPE_CHECKING:
    from onrecord.runtime.scheduler.asyncio_driver import TaskQueue


class ExecutorJob:
    """A job of the agent in an executor: it begins in its turn, and its end is handed over in its turn."""

    def __init__(self, queue: TaskQueue, lane: Lane, executor: Any, func: Callable[..., Any], args: Any) -> None:
        self.queue = queue
        self._executor = executor
        self._lane = Lane(lane.run, lane, None, [getattr(func, "__qualname__", ""), list(map(kept, args))])
        self.future = Future(self._lane, queue.hooks.loop)
        lane.run.book.thread_born(self._lane)
        self._call = self._in_its_lane(func, args)
        self._result: Any = None
        self._error: BaseException | None = None
        ordinal = lane.next_ordinal(JOB)
        self._end = Item(JOB, lane, ordinal, self._hand_over, looped=True)
        self._start = Item(START, lane, ordinal, self._begin, looped=False)
        self._turn = Signal()
        self._submit()

    def _in_its_lane(self, func: Callable[..., Any], args: Any) -> Callable[[], Any]:
        # asyncio.to_thread has copied the caller's context already; it is the job's from here on.
        inner = getattr(func, "func", None) if isinstance(func, partial) else None
        context = getattr(inner, "__self__", None)
        if isinstance(context, Context):
            context.run(PLACE.set, self._lane)
            return partial(func, *args)
        context = copy_context()
        context.run(PLACE.set, self._lane)
        return partial(context.run, func, *args)

    def _submit(self) -> None:
        with self.queue.run.lock:
            self.queue.run.turns.coming += 1
        place = PLACE.set(None)  # the pool's own threads belong to nobody's lane
        try:
            self.queue.hooks.run_in_executor(self._executor, self._work)
        finally:
            PLACE.reset(place)

    def _begin(self) -> None:
        self.queue.run.turns.runs(self)
        self._turn.set()

    def _work(self) -> None:
        run = self.queue.run
        with run.lock:  # in one step: in between the run would seem to stand still
            run.turns.coming -= 1
            run.turns.arrive(self._start)  # now that there is a thread for it; a pool may have been full
        while not self._turn.wait(LOOK_SECONDS) and not run.is_stopped:
            run.turns.overdue()
        HERE.token = self
        run.turns.runs(self, awake=True)
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error
        HERE.token = None
        with run.lock:
            self._lane.ended = True
            run.turns.rests(self)
            run.turns.arrive(self._end)

    def _hand_over(self) -> None:
        if self.future.done():
            return
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._result)
