"""Threads and executor jobs of an agent are lanes of its run; joins, sleeps and waits give the baton up.

`install` replaces a few functions of the standard library once in a process. Outside of runs, and inside effects, they
do what they always did.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread as pool_module
import queue
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, _base
from contextlib import suppress
from contextvars import Context
from functools import partial
from types import SimpleNamespace
from typing import Any

from onrecord.runtime.replay.python_paths import ONRECORD
from onrecord.runtime.scheduler.drivers.coordinator import Coordinator
from onrecord.runtime.scheduler.drivers.labels import label_of, label_of_thread
from onrecord.runtime.scheduler.drivers.locks import RunLock, RunRLock
from onrecord.runtime.scheduler.drivers.loops import LoopDriver
from onrecord.runtime.scheduler.drivers.strands import (
    CURRENT,
    LaneTask,
    RunEnded,
    RunStopped,
    Strand,
    find_lane,
    inside,
)
from onrecord.runtime.scheduler.drivers.waits import wait_inside
from onrecord.runtime.scheduler.items import Token

_REAL: dict[str, Any] = {}
_NUMBER = "_onrecord_number"


def install() -> None:
    """Replace the functions. Do it before the program is imported, so that its locks are ours."""
    if _REAL:
        return
    _REAL.update(
        start=threading.Thread.start,
        join=threading.Thread.join,
        wait=threading.Condition.wait,
        lock=threading.Lock,
        rlock=threading.RLock,
        make_pool=ThreadPoolExecutor.__init__,
        submit=ThreadPoolExecutor.submit,
        shutdown=ThreadPoolExecutor.shutdown,
        work=pool_module._WorkItem.run,
        sleep=time.sleep,
        monotonic=time.monotonic,
        make_loop=asyncio.BaseEventLoop.__init__,
        run_forever=asyncio.BaseEventLoop.run_forever,
        create_task=asyncio.BaseEventLoop.create_task,
        as_completed=asyncio.as_completed,
        all_tasks=asyncio.all_tasks,
        cancel_all_tasks=asyncio.runners._cancel_all_tasks,  # type: ignore[attr-defined]
    )
    replaced: list[tuple[Any, str, Any]] = [
        (threading.Thread, "start", _start),
        (threading.Thread, "join", _join),
        (threading.Condition, "wait", _wait),
        (threading, "Lock", _new_lock),
        (threading, "RLock", _new_rlock),
        (ThreadPoolExecutor, "__init__", _make_pool),
        (ThreadPoolExecutor, "submit", _submit),
        (ThreadPoolExecutor, "shutdown", _shutdown),
        (pool_module._WorkItem, "run", _work),
        (Future, "__hash__", _hash_future),
        (time, "sleep", _sleep),
        (threading, "_time", run_clock),
        (queue, "time", run_clock),
        (_base, "time", SimpleNamespace(**{**vars(time), "monotonic": run_clock})),
        (asyncio.BaseEventLoop, "__init__", _make_loop),
        (asyncio.BaseEventLoop, "run_forever", _run_forever),
        (asyncio.BaseEventLoop, "create_task", _create_task),
        (asyncio, "as_completed", _as_completed),
        (asyncio.tasks, "as_completed", _as_completed),
        (asyncio, "all_tasks", _all_tasks),
        (asyncio.tasks, "all_tasks", _all_tasks),
        (asyncio.runners, "_cancel_all_tasks", _cancel_all_tasks),
    ]
    for owner, name, function in replaced:
        setattr(owner, name, function)


def run_clock() -> float:
    """Return the run's clock in a lane, the real one elsewhere: time-outs of the standard library count by it."""
    found = find_lane()
    return _REAL["monotonic"]() if found is None else found[0].coordinator.time()


# Threads


def _find_no_context() -> Context | None:
    return None


find_effect_context: Callable[[], Context | None] = _find_no_context
"""Returns the context that threads and jobs which the running effect starts have to keep (`forks.substitutes`)."""


def _start(thread: threading.Thread) -> None:
    found = find_lane()
    if found is None:
        if (context := find_effect_context()) is not None:
            thread.run = partial(_run_in, context, thread.run)  # type: ignore[method-assign]
        _REAL["start"](thread)
        return
    strand, lane = found
    run = strand.coordinator
    with run.lock:
        run.act(strand)
        new = run.new_strand(lane, _label(thread))
        new.is_daemon = thread.daemon
        run.kernel.wake(new)
    setattr(thread, "_onrecord_strand", new)  # noqa: B010
    thread.run = partial(_run_thread, new, thread.run)  # type: ignore[method-assign]
    with inside():
        _REAL["start"](thread)


def _label(thread: Any) -> str:
    target = getattr(thread, "_target", None)
    args = getattr(thread, "_args", ()) if target else ()
    return label_of_thread(thread.name, target or type(thread), *args)


def _run_in(context: Context, call: Callable[[], None]) -> None:
    with suppress(RunStopped):  # the run reports it
        context.run(call)


def _run_thread(strand: Strand, call: Callable[[], None]) -> None:
    strand.thread = threading.get_ident()
    strand.is_blocked = True
    strand.gate.acquire()
    strand.is_blocked = False
    CURRENT.strand = strand
    try:
        if not strand.coordinator.is_over:
            call()
    except (RunEnded, RunStopped):
        pass
    finally:
        strand.coordinator.end_strand(strand)


def _join(thread: threading.Thread, timeout: float | None = None) -> None:
    found = find_lane()
    other: Strand | None = getattr(thread, "_onrecord_strand", None)
    if found is None or other is None or other.coordinator is not found[0].coordinator:
        with inside():
            _REAL["join"](thread, timeout)
        return
    strand, lane = found
    run = strand.coordinator
    with run.lock:
        run.act(strand)
        if not other.has_ended and not wait_inside(run, strand, lane, other.on_end.append, timeout):
            return
    with inside():
        _REAL["join"](thread)


def _sleep(seconds: float) -> None:
    found = find_lane()
    if found is None or seconds < 0 or sys._getframe(1).f_code.co_filename.startswith(ONRECORD):
        _REAL["sleep"](seconds)  # a store that is busy lets this package sleep, not the program
        return
    strand, lane = found
    run = strand.coordinator
    with run.lock:
        run.act(strand)
        if not run.is_alone:
            wait_inside(run, strand, lane, lambda _: None, seconds)
            return
        is_replayed = run.kernel.is_replaying
        if is_replayed:
            run.count_poll()
    # Nothing can come during the sleep of a single thread. It leaves no turn, so that a program may poll.
    with inside():
        _REAL["sleep"](min(seconds, 0.0005) if is_replayed else seconds)


# Locks and conditions


def _new_lock() -> Any:
    return RunLock() if find_lane() is not None else _REAL["lock"]()


def _new_rlock() -> Any:
    return RunRLock() if find_lane() is not None else _REAL["rlock"]()


class _Waiter:
    """The lock that a condition releases to notify a waiting lane."""

    def __init__(self, run: Coordinator) -> None:
        self._run = run
        self.is_notified = False
        self.wake: Callable[[], None] | None = None

    def release(self) -> None:
        with self._run.lock:
            self.is_notified = True
            if self.wake is not None:
                self.wake()


def _wait(condition: Any, timeout: float | None = None) -> bool:
    found = find_lane()
    if found is None:
        return _REAL["wait"](condition, timeout)  # type: ignore[no-any-return]
    if not condition._is_owned():
        raise RuntimeError("cannot wait on un-acquired lock")
    strand, lane = found
    run = strand.coordinator
    waiter, is_ours = _Waiter(run), isinstance(condition._lock, RunLock | RunRLock)
    with run.lock:
        if is_ours:
            run.act(strand)
        condition._waiters.append(waiter)
        saved = condition._release_save()
        try:
            if not is_ours:  # a strand that was away waits in its act, and others need the lock
                run.act(strand)
            notified = waiter.is_notified or wait_inside(run, strand, lane, partial(setattr, waiter, "wake"), timeout)
        except BaseException:  # the run is over: the caller leaves the condition, which it must own for that
            with inside():
                condition._acquire_restore(saved)
            raise
    condition._acquire_restore(saved)
    if not notified and waiter in condition._waiters:
        condition._waiters.remove(waiter)
    return notified


# Executors: a job is a lane, the pool's thread only executes it.


class _Job:
    """A job of an agent, and the turn in which a worker takes it."""

    def __init__(self, strand: Strand, call: Callable[..., Any]) -> None:
        self.strand = strand
        self.has_worker = False
        self.item: Any = None
        self._call = call
        self.token = strand.coordinator.turn(strand.lane, "start", self)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._call(*args, **options)

    def begin(self, token: Token) -> None: ...

    def stop(self, token: Token) -> None: ...

    def deliver(self, value: Any, last: bool) -> None:
        if not self.has_worker:  # a replay, in which all workers of the pool are still busy
            with inside():
                _REAL["start"](threading.Thread(target=self._work_apart, name="onrecord-worker", daemon=True))
        self.strand.coordinator.kernel.wake(self.strand)

    def end_if_cancelled(self, future: Future[Any]) -> None:
        """End the lane of a job that the program cancelled before it began. A worker that has it is sent away."""
        strand, found = self.strand, find_lane()
        run = strand.coordinator
        if not future.cancelled() or found is None or found[0].coordinator is not run:
            return
        with run.lock:
            if run.is_over or strand.has_ended or run.running is strand:
                return
            run.kernel.cancel(self.token)
            run.kernel.remove(strand)
            run.end_lane(strand)
            strand.gate.release()

    def _work_apart(self) -> None:
        while self.item is None:  # the caller is about to set it
            _REAL["sleep"](0.0005)
        _work(self.item)


def _make_pool(pool: ThreadPoolExecutor, *args: Any, **options: Any) -> None:
    with inside():  # the locks of a pool are its own
        _REAL["make_pool"](pool, *args, **options)


def _submit(pool: Any, call: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
    found = find_lane()
    if found is None:
        if (context := find_effect_context()) is not None:
            call = partial(context.run, call)
            return Context().run(_REAL["submit"], pool, call, *args, **options)  # others use its threads, too
        return _REAL["submit"](pool, call, *args, **options)  # type: ignore[no-any-return]
    strand, lane = found
    run = strand.coordinator
    with run.lock:
        run.act(strand)
        job = _Job(run.new_strand(lane, label_of(call, *args)), call)
        number = run.next_number()
    with inside():  # without the run's lock: a pool takes locks of its own
        future: Future[Any] = _REAL["submit"](pool, job, *args, **options)
    setattr(future, _NUMBER, number)
    future.add_done_callback(job.end_if_cancelled)
    job.item = pool_module._WorkItem(future, job, args, options)
    jobs: dict[Strand, Future[Any]] = pool.__dict__.setdefault("_onrecord_jobs", {})
    jobs[job.strand] = future
    job.strand.on_end.append(partial(_forget_job, jobs, job.strand))
    return future


def _forget_job(jobs: dict[Strand, Future[Any]], strand: Strand) -> None:
    jobs.pop(strand, None)


def _work(item: Any, *args: Any) -> None:
    job = item.fn
    if not isinstance(job, _Job):
        _REAL["work"](item, *args)
        return
    strand = job.strand
    with strand.coordinator.lock:
        if job.has_worker:
            return
        job.has_worker = True
    if strand.coordinator.is_over:
        _REAL["work"](item, *args)
        return
    strand.coordinator.arrived(job.token)
    strand.thread = threading.get_ident()
    strand.is_blocked = True
    strand.gate.acquire()
    strand.is_blocked = False
    if strand.has_ended:  # it was cancelled
        _REAL["work"](item, *args)
        return
    CURRENT.strand = strand
    try:
        if not strand.coordinator.is_over:
            _REAL["work"](item, *args)
    except (RunEnded, RunStopped):
        pass
    finally:
        strand.coordinator.end_strand(strand)


def _shutdown(pool: Any, wait: bool = True, *, cancel_futures: bool = False) -> None:
    found = find_lane()
    if found is None:
        _REAL["shutdown"](pool, wait, cancel_futures=cancel_futures)
        return
    strand, lane = found
    run = strand.coordinator
    jobs: dict[Strand, Future[Any]] = pool.__dict__.get("_onrecord_jobs", {})
    if cancel_futures:
        for future in list(jobs.values()):
            future.cancel()
    with inside():
        _REAL["shutdown"](pool, False)
    if not wait:
        return
    for other in list(jobs):
        with run.lock:
            run.act(strand)
            if not other.has_ended:
                wait_inside(run, strand, lane, other.on_end.append, None)
    with inside():
        _REAL["shutdown"](pool, True)


def _hash_future(future: Any) -> int:
    number: int | None = future.__dict__.get(_NUMBER)
    return object.__hash__(future) if number is None else number


# Loops


def _make_loop(loop: Any) -> None:
    _REAL["make_loop"](loop)
    if find_lane() is not None:
        LoopDriver.of(loop)


def _create_task(loop: Any, coroutine: Any, **options: Any) -> Any:
    """Create a task of a lane in a loop that was made outside of runs, and is not changed yet."""
    if find_lane() is None:
        return _REAL["create_task"](loop, coroutine, **options)
    return LoopDriver.of(loop).loop.create_task(coroutine, **options)


def _run_forever(loop: Any) -> None:
    found = find_lane()
    if found is None or found[0].loop is not None:
        _REAL["run_forever"](loop)
        return
    strand, _ = found
    run, driver = strand.coordinator, LoopDriver.of(loop)
    with run.lock:
        if not run.is_over:  # a loop is closed after its run was stopped, too
            run.act(strand)
        driver.enter(strand)
        run.give_up()
    CURRENT.strand = None  # the pump sets it
    try:
        _REAL["run_forever"](loop)
    finally:
        CURRENT.strand = strand
        with run.lock:
            driver.leave(strand)


def _as_completed(tasks: Any, *, timeout: float | None = None) -> Any:
    if find_lane() is not None and not asyncio.isfuture(tasks):
        tasks = [asyncio.ensure_future(task) for task in tasks]  # in the order of the argument
    return _REAL["as_completed"](tasks, timeout=timeout)


def _all_tasks(loop: Any = None) -> set[asyncio.Task[Any]]:
    """Return the tasks of the run that asks: a replay has no tasks of effects."""
    tasks: set[asyncio.Task[Any]] = _REAL["all_tasks"](loop)
    found = find_lane()
    if found is None:
        return tasks
    return {task for task in tasks if isinstance(task, LaneTask) and task.strand.coordinator is found[0].coordinator}


def _cancel_all_tasks(loop: Any) -> None:
    """End the tasks of a loop before it is closed: those of effects without a rest of the run."""
    if find_lane() is not None:
        own = _all_tasks(loop)
        with inside():
            others = [task for task in _REAL["all_tasks"](loop) if task not in own]
            for task in others:
                task.cancel()
            if others:
                loop.run_until_complete(asyncio.gather(*others, return_exceptions=True))
    _REAL["cancel_all_tasks"](loop)
