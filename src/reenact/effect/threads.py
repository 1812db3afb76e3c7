"""Threads of an agent are lanes of its run, and take turns.

Python's own threads start without the context of whoever starts them, and nothing tells when one is waiting. So, once a
run exists, a thread that an agent starts inherits its place, and joining a thread or waiting for a condition (which is
what events, queues, semaphores, barriers and futures wait for) counts as resting.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import allocate_lock
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from reenact.effect.items import Item
from reenact.effect.lanes import Lane
from reenact.effect.locks import new_lock, new_rlock
from reenact.effect.past import START
from reenact.effect.places import HERE, PLACE
from reenact.effect.signals import Signal
from reenact.effect.stopping import RunStopped
from reenact.effect.turns import LOOK_SECONDS, RELAX_SECONDS

if TYPE_CHECKING:
    from reenact.effect.live_run import LiveRun

WAKE = "wake"
SLICE_SECONDS = 0.05
PATIENCE_SECONDS = 1.0
"""How long all threads of a run that comes back may wait for each other before that is called a divergence."""
CLEAN_UP_SECONDS = 1.0
"""How long threads of a stopped run may wait for each other."""
_installed = threading.Lock()
_originals: dict[str, Any] = {}


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
            forever=asyncio.BaseEventLoop.run_forever,
            lock=threading.Lock,
            rlock=threading.RLock,
        )
        setattr(threading.Thread, "start", _start)  # noqa: B010
        setattr(threading.Thread, "join", _join)  # noqa: B010
        setattr(threading.Condition, "wait", _wait)  # noqa: B010
        setattr(ThreadPoolExecutor, "submit", _submit)  # noqa: B010
        setattr(asyncio.BaseEventLoop, "run_forever", _run_forever)  # noqa: B010
        setattr(threading, "Lock", partial(new_lock, threading.Lock))  # noqa: B010
        setattr(threading, "RLock", partial(new_rlock, threading.RLock))  # noqa: B010


class _Branch:
    """A thread, or a job in a pool, that an agent started: it begins in its turn."""

    def __init__(self, lane: Lane) -> None:
        self.run = lane.run
        self.lane = Lane(lane.run, lane, None, ["thread", lane.born])  # threads are told apart by birth alone
        lane.run.book.born(self.lane)
        lane.run.has_threads = True
        if HERE.token is None and self.run.turns.loop is None:
            HERE.token = self.run.main_token
            self.run.turns.runs(self.run.main_token, awake=True)
        self._turn = Signal()
        self._item = Item(START, lane, lane.next_ordinal(START), self._begin, looped=False)
        self.context = copy_context()
        self.context.run(PLACE.set, self.lane)

    def _begin(self) -> None:
        self.run.turns.runs(self)
        self._turn.set()

    def work(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        HERE.token = self
        self.run.turns.arrive(self._item)  # now that there is a thread for it; a pool may have been full
        waited = 0
        while not self._turn.wait(LOOK_SECONDS) and not self.run.is_stopped:
            self.run.turns.overdue()
            waited += 1
            if waited > 200 and not self.run.is_live:  # the record does not have it: it begins all the same
                with self.run.lock:
                    self._begin()
        self.run.turns.runs(self, awake=True)
        there = _Attendance.of(self.run)
        there.alive += 1
        try:
            return self.context.run(call, *args, **options)
        finally:
            there.alive -= 1
            HERE.token = None
            with self.run.lock:
                self.lane.ended = True
                self.run.turns.rests(self)
                self.run.turns.advance()

    def work_alone(self, call: Callable[[], Any]) -> None:
        """Nobody waits for what a thread returns: that the run has stopped is told where the run is carried."""
        with suppress(RunStopped):
            self.work(call)


def _start(thread: threading.Thread) -> None:
    lane = PLACE.get()
    if type(lane) is Lane and not lane.run.is_stopped and lane.run.records_threads:
        branch, run = _Branch(lane), thread.run
        thread.run = lambda: branch.work_alone(run)  # type: ignore[method-assign]
        with _nowhere():  # waiting until it is there is not resting
            _originals["start"](thread)
    else:
        _originals["start"](thread)


def _submit(pool: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
    lane = PLACE.get()
    if type(lane) is Lane and not lane.run.is_stopped and lane.run.records_threads:
        branch = _Branch(lane)
        with _nowhere():  # the pool's own threads belong to nobody's lane
            submitted: Future[Any] = _originals["submit"](pool, branch.work, call, *args, **options)
        return submitted
    result: Future[Any] = _originals["submit"](pool, call, *args, **options)
    return result


@contextmanager
def _nowhere() -> Iterator[None]:
    token = PLACE.set(None)
    try:
        yield
    finally:
        PLACE.reset(token)


class _Attendance:
    """How many threads a run has, the first one included, and how many of them wait for each other."""

    def __init__(self) -> None:
        self.alive = 1
        self.waiting = 0

    @classmethod
    def of(cls, run: LiveRun) -> _Attendance:
        with run.lock:
            return _attendances.setdefault(run, cls())


_attendances: WeakKeyDictionary[LiveRun, _Attendance] = WeakKeyDictionary()


def _patiently(run: LiveRun, wait: Callable[[float], bool], timeout: float | None) -> bool:
    """Waits in slices: a run that stops, or whose threads all wait for each other in a replay, is not waited for."""
    there, since, stopped = _Attendance.of(run), monotonic(), 0.0
    there.waiting += 1
    try:
        while True:
            left = SLICE_SECONDS if timeout is None else min(SLICE_SECONDS, since + timeout - monotonic())
            if wait(max(left, 0.0)):
                return True
            now = monotonic()
            if run.stopped is not None:
                stopped = stopped or now
                if now - stopped > CLEAN_UP_SECONDS:
                    raise RunStopped(run.stopped)
            elif timeout is not None and now - since >= timeout:
                return False
            elif not run.is_live and there.waiting >= there.alive and now - since > PATIENCE_SECONDS:
                run.stands_still()
    finally:
        there.waiting -= 1


class _Resting:
    """The thread waits for something that is not an effect: others may have their turn."""

    def __enter__(self) -> None:
        lane = PLACE.get()
        self._run = lane.run if type(lane) is Lane and HERE.token is not None else None
        if self._run is not None:
            with self._run.lock:
                self._run.turns.rests(HERE.token)
                self._run.turns.advance()

    def __exit__(self, kind: object, *_: object) -> None:
        if self._run is not None:
            if kind is None:
                _take_turn(self._run)
            self._run.turns.runs(HERE.token, awake=True)


def _take_turn(run: LiveRun) -> None:
    """What woke this thread may have woken others: they go on one after the other, and again in that order."""
    lane, token, turn = PLACE.get(), HERE.token, Signal()
    assert type(lane) is Lane

    def begin() -> None:
        run.turns.runs(token)
        turn.set()

    item = Item(WAKE, lane, lane.next_ordinal(WAKE), begin, looped=False)
    run.turns.arrive(item)
    since = monotonic()
    while not turn.wait(LOOK_SECONDS):
        run.turns.overdue()
        if run.is_stopped or (not run.is_live and monotonic() - since > RELAX_SECONDS):
            run.turns.forget(item)
            return


def _join(thread: threading.Thread, timeout: float | None = None) -> None:
    lane = PLACE.get()
    if type(lane) is not Lane or _is_in_a_loop(lane.run):
        _originals["join"](thread, timeout)
        return

    def joined(seconds: float) -> bool:
        _originals["join"](thread, seconds)
        return not thread.is_alive()

    with _Resting():
        _patiently(lane.run, joined, timeout)


def _is_in_a_loop(run: LiveRun) -> bool:
    """Nobody can tell here whether its other tasks go on; the loop's own watchdog does."""
    return run.turns.loop is not None and HERE.token is None


def _wait(condition: threading.Condition, timeout: float | None = None) -> bool:
    lane = PLACE.get()
    if type(lane) is not Lane or _is_in_a_loop(lane.run):
        answer: bool = _originals["wait"](condition, timeout)
        return answer
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
        with _Resting():
            notified = _patiently(run, partial(waiter.acquire, True), timeout)
        return notified
    finally:
        condition._acquire_restore(saved)
        if not notified:
            with suppress(ValueError):
                condition._waiters.remove(waiter)


def _run_forever(loop: asyncio.BaseEventLoop) -> None:
    """A loop that an agent runs belongs to its run as long as it runs."""
    from reenact.effect.tasks import LoopHooks

    lane = PLACE.get()
    if type(lane) is not Lane or lane.run.is_stopped or lane.run.turns.loop is not None:
        _originals["forever"](loop)
        return
    hooks = LoopHooks.of(loop)
    queue = hooks.enter(lane.run)
    turns, token = lane.run.turns, HERE.token
    HERE.token = None  # as long as the loop runs, its queue tells whether this thread is busy
    turns.rests(token)
    try:
        _originals["forever"](loop)
    finally:
        hooks.leave(queue)
        turns.loop, HERE.token = None, token
        lane.run.came_to_rest = None
        if token is not None:
            turns.runs(token, awake=True)
