"""Process pool interceptor: `concurrent.futures.ProcessPoolExecutor` and `multiprocessing.Pool`.

1. Jobs are runs (`jobs`). Workers, and the threads that serve a pool, belong to no lane.
2. Results are delivered in lanes, in the recorded order (`results`).
"""

from __future__ import annotations

import threading
from functools import partial
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from onrecord.capture.interceptors.import_hooks import Replace
from onrecord.capture.processes.command_lines import CommandLine
from onrecord.capture.processes.jobs import MapJob, ProcessJob, function_name
from onrecord.capture.processes.results import ResultLane
from onrecord.capture.processes.start_patches import begin_start, starting_lane
from onrecord.capture.processes.ticket import Ticket
from onrecord.runtime.engine.context import Lane, inside
from onrecord.runtime.scheduler.drivers.labels import label_of

_INTERNAL = frozenset(
    {"concurrent.futures.process", "multiprocessing.pool", "multiprocessing.queues", "multiprocessing.resource_sharer"}
)


def patch(module: ModuleType, replace: Replace) -> None:
    if module.__name__ == "multiprocessing.pool":
        pool = module.Pool
        replace(pool, "_repopulate_pool", _populate)
        replace(pool, "apply_async", _apply)
        replace(pool, "_map_async", _map)
        for name in ("imap", "imap_unordered"):
            replace(pool, name, _map_lazily)
        replace(pool, "join", _join)
        for result in (module.ApplyResult, module.IMapIterator):
            replace(result, "__init__", _make_result)
        for result in (module.ApplyResult, module.MapResult, module.IMapIterator, module.IMapUnorderedIterator):
            replace(result, "_set", _set_result)
        replace(module.IMapIterator, "_set_length", _set_length)
    else:
        executor = module.ProcessPoolExecutor
        replace(executor, "__init__", _call_outside_lanes)  # the locks of a pool are its own
        replace(executor, "submit", _submit)
        replace(executor, "shutdown", _shutdown)
        replace(executor, "_spawn_process", _call_outside_lanes)
        replace(module._ExecutorManagerThread, "process_result_item", _process_result)
        replace(module._ExecutorManagerThread, "terminate_broken", _terminate_broken)
    _exclude_internal_threads()


_original_start: list[Any] = []


def _exclude_internal_threads() -> None:
    if _original_start:
        return
    original = threading.Thread.start
    _original_start.append(original)

    def start(thread: threading.Thread) -> None:
        target = getattr(thread, "_target", None)
        if type(thread).__module__ in _INTERNAL or getattr(target, "__module__", None) in _INTERNAL:
            with inside():
                original(thread)
        else:
            original(thread)

    setattr(threading.Thread, "start", start)  # noqa: B010


def _call_outside_lanes(original: Any, *args: Any, **kwargs: Any) -> Any:
    with inside():
        return original(*args, **kwargs)


def _make_ticket(lane: Lane, function: Any) -> Ticket:
    return begin_start(lane, "job", CommandLine((function_name(function),), None)).ticket


def _wrap_initializer(lane: Lane, function: Any) -> Any:
    """Return the initializer of the workers as a job: in each worker it is a run of its own."""
    if function is None or isinstance(function, ProcessJob):
        return function
    return ProcessJob(begin_start(lane, "worker", CommandLine((function_name(function),), None)).ticket, function)


# concurrent.futures

_jobs: WeakKeyDictionary[Any, dict[int, ResultLane]] = WeakKeyDictionary()
"""The results that each pool still has to deliver, by the number of the job."""


def _submit(original: Any, pool: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    lane = starting_lane()
    if lane is None:
        return original(pool, function, *args, **kwargs)
    pool._initializer = _wrap_initializer(lane, pool._initializer)
    ticket = _make_ticket(lane, function)
    result = ResultLane(lane, label_of(function), is_awaited=True)
    jobs = _jobs.setdefault(pool, {})
    with inside():
        with pool._shutdown_lock:
            number = pool._queue_count
            jobs[number] = result
        try:
            future = original(pool, ProcessJob(ticket, function), *args, **kwargs)
        except BaseException:
            del jobs[number]
            result.give_up()
            raise
        future.add_done_callback(partial(_give_up_if_cancelled, result))
    with lane.run.lock:
        future._onrecord_number = lane.strand.coordinator.next_number()  # its hash (`scheduler.drivers.threads`)
    return future


def _give_up_if_cancelled(result: ResultLane, future: Any) -> None:
    if future.cancelled():
        result.give_up()


def _process_result(original: Any, manager: Any, item: Any) -> None:
    pool = manager.executor_reference()
    result = None if pool is None or isinstance(item, int) else _jobs.get(pool, {}).pop(item.work_id, None)
    if result is None:
        original(manager, item)
        return

    def deliver() -> bool:
        original(manager, item)
        with inside(), manager.shutdown_lock:  # the manager may be waiting for the last result
            if not manager.thread_wakeup._closed:
                manager.thread_wakeup.wakeup()
        return True

    result.accept(item.work_id, deliver)


def _terminate_broken(original: Any, manager: Any, *args: Any, **kwargs: Any) -> None:
    pool = manager.executor_reference()
    original(manager, *args, **kwargs)
    jobs = _jobs.get(pool, {}) if pool is not None else {}
    while jobs:
        jobs.popitem()[1].give_up()


def _shutdown(original: Any, pool: Any, wait: bool = True, *, cancel_futures: bool = False) -> None:
    lane = starting_lane()
    if lane is None:
        original(pool, wait, cancel_futures=cancel_futures)
        return
    jobs, manager = list(_jobs.get(pool, {}).values()), pool._executor_manager_thread
    with inside():
        original(pool, False, cancel_futures=cancel_futures)
    if wait:
        for result in jobs:
            if not result.strand.is_daemon:
                result.wait(lane)
        if manager is not None:
            with inside():
                manager.join()


# multiprocessing.pool

_results: WeakKeyDictionary[Any, list[ResultLane]] = WeakKeyDictionary()
_RESULT = "_onrecord_result"


def _make_result(original: Any, result: Any, pool: Any, *args: Any, **kwargs: Any) -> None:
    lane = starting_lane() if _is_of_processes(pool) else None
    if lane is not None:
        results = ResultLane(lane, type(result).__name__, is_awaited=False)  # the workers end with the program
        setattr(result, _RESULT, results)
        _results.setdefault(pool, []).append(results)
    original(result, pool, *args, **kwargs)


def _set_result(original: Any, result: Any, number: int, value: Any) -> None:
    _deliver(result, number, partial(original, result, number, value))


def _set_length(original: Any, result: Any, length: int) -> None:
    _deliver(result, "length", partial(original, result, length))


def _deliver(result: Any, key: Any, call: Any) -> None:
    results: ResultLane | None = getattr(result, _RESULT, None)

    def deliver() -> bool:
        call()
        return result._job not in result._cache

    if results is None:
        call()
    else:
        results.accept(key, deliver)


def _join(original: Any, pool: Any) -> None:
    lane = starting_lane()
    if lane is not None and pool._state == "CLOSE":
        for results in _results.get(pool, []):
            results.wait(lane)
    original(pool)


def _is_of_processes(pool: Any) -> bool:
    from multiprocessing.pool import ThreadPool

    return not isinstance(pool, ThreadPool)


def _populate(original: Any, pool: Any) -> None:
    lane = starting_lane() if _is_of_processes(pool) else None
    if lane is not None:
        pool._initializer = _wrap_initializer(lane, pool._initializer)
    _call_outside_lanes(original, pool)


def _apply(original: Any, pool: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
    lane = starting_lane() if _is_of_processes(pool) else None
    return original(pool, func if lane is None else ProcessJob(_make_ticket(lane, func), func), *args, **kwargs)


def _map(original: Any, pool: Any, func: Any, iterable: Any, mapper: Any, *args: Any, **kwargs: Any) -> Any:
    lane = starting_lane() if _is_of_processes(pool) else None
    if lane is None:
        return original(pool, func, iterable, mapper, *args, **kwargs)
    items = MapJob(_make_ticket(lane, func), func, star=mapper.__name__ == "starmapstar")
    return original(pool, items, list(enumerate(iterable)), mapper, *args, **kwargs)


def _map_lazily(original: Any, pool: Any, func: Any, iterable: Any, *args: Any, **kwargs: Any) -> Any:
    lane = starting_lane() if _is_of_processes(pool) else None
    if lane is None:
        return original(pool, func, iterable, *args, **kwargs)
    return original(pool, MapJob(_make_ticket(lane, func), func, star=False), enumerate(iterable), *args, **kwargs)
