"""Threads of an agent are lanes of its run, and take turns.

Python's own threads start without the context of whoever starts them, and nothing tells when one is waiting. So, once a
run exists, a thread that an agent starts inherits its place, and joining a thread or waiting for a condition (which is
what events, queues, semaphores, barriers and futures wait for) counts as resting.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from _thread import allocate_lock
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, _base
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from onrecord.runtime.engine.context import HERE, PLACE, Inside, nowhere
from onrecord.runtime.engine.stops import RunStopped
from onrecord.runtime.replay.records import START
from onrecord.runtime.scheduler import stable_sets
from onrecord.runtime.scheduler.conditions import PATIENCE_SECONDS, Attendance, thread_clock, wait_in_turn
from onrecord.runtime.scheduler.delivery_item import Item
from onrecord.runtime.scheduler.lanes import Lane, kept
from onrecord.runtime.scheduler.locks import new_lock, new_rlock
from onrecord.runtime.scheduler.scheduler import LOOK_SECONDS, Patience
from onrecord.runtime.scheduler.thread_signal import Signal

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun

_installed = threading.Lock()
_originals: dict[str, Any] = {}
_END_EXECUTOR = asyncio.BaseEventLoop._do_shutdown  # type: ignore[attr-defined]


def install() -> None:
    """Once in a process; without a run nothing is different afterwards."""
    with _installed:
        if _originals:
            return
        _originals.update(
            start=threading.Thread.start,
            join=threading.Thread.join,
            wait=threading.Condition.wait,
            submit=ThreadPoolExecutor.submit,
            shutdown=ThreadPoolExecutor.shutdown,
            forever=asyncio.BaseEventLoop.run_forever,
            lock=threading.Lock,
            rlock=threading.RLock,
        )
        stable_sets.install()
        setattr(threading, "_time", thread_clock)  # noqa: B010
        setattr(queue, "time", thread_clock)  # noqa: B010
        setattr(_base, "time", SimpleNamespace(**{**vars(time), "monotonic": thread_clock}))  # noqa: B010
        setattr(threading.Thread, "start", _start)  # noqa: B010
        setattr(threading.Thread, "join", _join)  # noqa: B010
        setattr(threading.Condition, "wait", _wait)  # noqa: B010
        setattr(ThreadPoolExecutor, "submit", _submit)  # noqa: B010
        setattr(ThreadPoolExecutor, "shutdown", _shutdown)  # noqa: B010
        setattr(asyncio.BaseEventLoop, "run_forever", _run_forever)  # noqa: B010
        setattr(threading, "Lock", partial(new_lock, threading.Lock))  # noqa: B010
        setattr(threading, "RLock", partial(new_rlock, threading.RLock))  # noqa: B010


class _Branch:
    """A thread, or a job in a pool, that an agent started: it begins in its turn."""

    def __init__(self, lane: Lane, call: Any, args: Iterable[Any] = ()) -> None:
        self.run = lane.run
        self.lane = Lane(lane.run, lane, None, ["thread", getattr(call, "__qualname__", ""), *map(kept, args)])
        lane.run.book.thread_born(self.lane)
        lane.run.has_threads = True
        if HERE.token is None and self.run.turns.loop is None:
            HERE.token = self.run.main_token
            self.run.turns.runs(self.run.main_token, awake=True)
        self._turn = Signal()
        self._begun = False
        self._item = Item(START, lane, lane.next_ordinal(START), self._begin, looped=False)
        self.context = copy_context()
        self.context.run(PLACE.set, self.lane)

    def _begin(self) -> None:
        self.run.turns.runs(self)
        self._turn.set()

    def work(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        HERE.token = self
        self.run.turns.arrive(self._item)  # now that there is a thread for it; a pool may have been full
        patience = Patience(self.run.turns)
        while not self._turn.wait(LOOK_SECONDS) and not self.run.is_stopped:
            self.run.turns.overdue()
            if patience.seconds > PATIENCE_SECONDS and not self.run.is_live:
                self._begin_all_the_same()
        self.run.turns.runs(self, awake=True)
        self._begun = True
        Attendance.of(self.run).alive += 1
        try:
            return self.context.run(call, *args, **options)
        finally:
            HERE.token = None

    def _begin_all_the_same(self) -> None:
        """The record does not have it."""
        with self.run.lock:
            if not self._turn.wait(0.0):
                self.run.turns.forget(self._item)
                self._begin()

    def is_over(self, _: object = None) -> None:
        """Others may have their turn. Of a job that is so once its future has the result: whoever waits sees that."""
        if self._begun:
            self._begun = False
            Attendance.of(self.run).alive -= 1
            with self.run.lock:
                self.lane.ended = True
                self.run.turns.rests(self)
                self.run.turns.advance()

    def work_alone(self, call: Callable[[], Any]) -> None:
        """Nobody waits for what a thread returns: that the run has stopped is told where the run is carried."""
        try:
            with suppress(RunStopped):
                self.work(call)
        finally:
            self.is_over()


def _start(thread: threading.Thread) -> None:
    lane = PLACE.get()
    if type(lane) is Lane and _ends_what_effects_began(thread):
        with nowhere():
            _originals["start"](thread)
    elif type(lane) is Lane and not lane.run.is_stopped:
        call, args = getattr(thread, "_target", None) or type(thread), getattr(thread, "_args", ())
        branch, run = _Branch(lane, call, args), thread.run
        branch.lane.daemon = thread.daemon
        thread.run = lambda: branch.work_alone(run)  # type: ignore[method-assign]
        with nowhere():  # waiting until it is there is not resting
            _originals["start"](thread)
    else:
        if _is_held(lane):
            thread.run = partial(_held, copy_context(), thread.run)  # type: ignore[method-assign]
        _originals["start"](thread)


def _ends_what_effects_began(thread: threading.Thread) -> bool:
    """A loop ends its executor in a thread, if it has one. Where only effects have used it, as to look up a name, there
    is none when the run comes back."""
    from onrecord.runtime.scheduler.asyncio_driver import LoopHooks

    target: Any = getattr(thread, "_target", None)
    return getattr(target, "__func__", None) is _END_EXECUTOR and not LoopHooks.had_jobs(target.__self__)


def _is_held(lane: object) -> bool:
    """What is called in a thread that begins here is held to what its beginner is: to the effect that stands in for
    another, or to a run that has stopped, where nothing is carried out any more."""
    return (type(lane) is Lane and lane.run.stopped is not None) or (
        type(lane) is Inside and lane.run.substitutes is not None
    )


def _held(context: Context, run: Callable[[], None]) -> None:
    with suppress(RunStopped):  # told where the run is carried
        context.run(run)


def _submit(pool: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
    lane = PLACE.get()
    if type(lane) is Lane and not lane.run.is_stopped:
        branch = _Branch(lane, call, (*args, *options.values()))
        with nowhere():  # the pool's own threads belong to nobody's lane
            submitted: Future[Any] = _originals["submit"](pool, branch.work, call, *args, **options)
            submitted.add_done_callback(branch.is_over)
        stable_sets.put_in_place(submitted, lane.birth, branch.lane.number_at_birth)
        return submitted
    if _is_held(lane):
        held = partial(copy_context().run, call)
        with nowhere():  # others may use the pool's own threads later
            kept_back: Future[Any] = _originals["submit"](pool, held, *args, **options)
        return kept_back
    result: Future[Any] = _originals["submit"](pool, call, *args, **options)
    return result


def _shutdown(pool: ThreadPoolExecutor, wait: bool = True, *, cancel_futures: bool = False) -> None:
    """How many threads a pool has is a matter of chance: that all of them have ended is one wait, not one for each."""
    lane = PLACE.get()
    if type(lane) is not Lane or not wait or _is_in_a_loop_alone(lane.run):
        _originals["shutdown"](pool, wait, cancel_futures=cancel_futures)
        return
    _originals["shutdown"](pool, False, cancel_futures=cancel_futures)
    threads = list(pool._threads)

    def have_ended(seconds: float) -> bool:
        until = time.monotonic() + seconds
        for thread in threads:
            _originals["join"](thread, max(until - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in threads)

    with _in_turn(lane.run):
        wait_in_turn(lane.run, have_ended, None)


def _join(thread: threading.Thread, timeout: float | None = None) -> None:
    lane = PLACE.get()
    if type(lane) is not Lane or _is_in_a_loop_alone(lane.run):
        _originals["join"](thread, timeout)
        return

    def joined(seconds: float) -> bool:
        _originals["join"](thread, seconds)
        return not thread.is_alive()

    with _in_turn(lane.run):
        wait_in_turn(lane.run, joined, timeout)


def _is_in_a_loop(run: LiveRun) -> bool:
    return run.turns.loop is not None and HERE.token is None


def _is_in_a_loop_alone(run: LiveRun) -> bool:
    """There are no threads of the run that a step of its loop could wait for. Nobody can tell here whether its other
    tasks go on; the loop's own watchdog does."""
    return _is_in_a_loop(run) and not run.has_threads


@contextmanager
def _in_turn(run: LiveRun) -> Iterator[None]:
    """For a wait. A step of a loop holds the loop's thread meanwhile, which is then one of those that take turns."""
    loop = run.turns.loop
    if loop is None or not _is_in_a_loop(run):
        yield
        return
    HERE.token = token = object()
    with run.lock:
        run.turns.runs(token, awake=True)
        loop.stands = True
    try:
        yield
    finally:
        HERE.token = None
        with run.lock:
            loop.stands = False
            run.turns.rests(token)


def _wait(condition: threading.Condition, timeout: float | None = None) -> bool:
    lane = PLACE.get()
    if type(lane) is not Lane or _is_in_a_loop_alone(lane.run):
        answer: bool = _originals["wait"](condition, timeout)
        return answer
    with _in_turn(lane.run):
        return _wait_in_turn(lane.run, condition, timeout)


def _wait_in_turn(run: LiveRun, condition: Any, timeout: float | None) -> bool:
    """As the condition itself waits, but for the turn: it is taken before the lock is, so that nobody is kept out."""
    if not condition._is_owned():
        raise RuntimeError("cannot wait on un-acquired lock")
    waiter = allocate_lock()
    waiter.acquire()
    condition._waiters.append(waiter)
    saved, notified = condition._release_save(), False
    try:
        notified = wait_in_turn(run, partial(waiter.acquire, True), timeout)
        return notified
    finally:
        condition._acquire_restore(saved)
        if not notified:
            try:
                condition._waiters.remove(waiter)
            except ValueError:  # it was woken all the same; another may be woken instead
                condition.notify()


def _run_forever(loop: asyncio.BaseEventLoop) -> None:
    """A loop that an agent runs belongs to its run as long as it runs."""
    from onrecord.runtime.scheduler.asyncio_driver import LoopHooks

    lane = PLACE.get()
    if type(lane) is not Lane or lane.run.is_stopped or lane.run.turns.loop is not None:
        _originals["forever"](loop)
        return
    run = lane.run  # a process that is forked meanwhile puts the lane into a run of its own
    hooks = LoopHooks.of(loop)
    queue = hooks.enter(run)
    queue.tasks.update(asyncio.all_tasks(loop))  # `asyncio.run` has made the first before
    run.on_stop.append(queue.cancel_all_soon)  # a job may have stopped it, which a task waits for
    turns, token = run.turns, HERE.token
    HERE.token = None  # as long as the loop runs, its queue tells whether this thread is busy
    turns.rests(token)
    try:
        with nowhere():  # the loop's own clock is the real one; what it calls has contexts of its own
            _originals["forever"](loop)
    finally:
        run.on_stop.remove(queue.cancel_all_soon)
        hooks.leave(queue)
        turns.loop, HERE.token = None, token
        run.came_to_rest = None
        if token is not None:
            turns.runs(token, awake=True)
