"""Process pool interceptor: `concurrent.futures.ProcessPoolExecutor` and `multiprocessing.Pool`.

1. Jobs are runs (`jobs`). Workers, and the threads that serve a pool, belong to no lane.
2. The order of results is recorded, and a replay delivers them in that order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from onrecord.capture.interceptors.import_hooks import Replace
from onrecord.capture.processes.command_lines import CommandLine
from onrecord.capture.processes.jobs import MapJob, ProcessJob, function_name
from onrecord.capture.processes.start_patches import begin_start, starting_lane
from onrecord.capture.processes.ticket import Ticket
from onrecord.runtime.engine.context import PLACE, nowhere
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.scheduler.lanes import Lane
from onrecord.runtime.scheduler.stable_sets import put_in_place

_INTERNAL = frozenset(
    {"concurrent.futures.process", "multiprocessing.pool", "multiprocessing.queues", "multiprocessing.resource_sharer"}
)


def patch(module: ModuleType, replace: Replace) -> None:
    if module.__name__ == "multiprocessing.pool":
        pool = module.Pool
        replace(pool, "_repopulate_pool", _populate)
        replace(pool, "_setup_queues", _set_up_queues)
        replace(pool, "apply_async", _apply)
        replace(pool, "_map_async", _map)
        for name in ("imap", "imap_unordered"):
            replace(pool, name, _map_lazily)
    else:
        replace(module.ProcessPoolExecutor, "submit", _submit)
        replace(module.ProcessPoolExecutor, "_spawn_process", _call_outside_lanes)
        replace(module._ExecutorManagerThread, "process_result_item", _process_result)
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
            with nowhere():
                original(thread)
        else:
            original(thread)

    setattr(threading.Thread, "start", start)  # noqa: B010


def _call_outside_lanes(original: Any, *args: Any, **kwargs: Any) -> Any:
    with nowhere():
        return original(*args, **kwargs)


def _make_ticket(lane: Lane, function: Any) -> Ticket:
    return begin_start(lane, "job", CommandLine((function_name(function),), None)).ticket


def _wrap_initializer(lane: Lane, function: Any) -> Any:
    """Return the initializer of the workers as a job: in each worker it is a run of its own."""
    if function is None or isinstance(function, ProcessJob):
        return function
    return ProcessJob(begin_start(lane, "worker", CommandLine((function_name(function),), None)).ticket, function)


# The order of results


class _ResultOrder:
    """Order of the results of one pool."""

    def __init__(self, run: LiveRun) -> None:
        self.run = run
        self._kind = f"results:{run.root.next_ordinal('pools')}"
        self._lane = Lane(run, run.root, None, ["pool", self._kind])
        """Lane for the callbacks of results."""
        self._waiting: dict[Any, Callable[[], None]] = {}
        self._next = 0
        run.turns.away.add(self)  # a thread that waits for results is not stuck

    def accept(self, key: Any, deliver: Callable[[], None]) -> None:
        run = self.run
        if run.is_stopped:
            deliver()
            return
        if run.journal is not None and run.is_live:
            run.draw(run.root, self._kind, lambda: key)
            self._deliver_in_lane(deliver)
            return
        self._waiting[key] = deliver
        recorded = run.past.drawn("0", self._kind) if run.past is not None else []
        while self._next < len(recorded) and recorded[self._next] in self._waiting:
            following = recorded[self._next]
            run.draw(run.root, self._kind, partial(_return_value, following))
            self._next += 1
            self._deliver_in_lane(self._waiting.pop(following))
        if self._next >= len(recorded):
            for key_left in [*self._waiting]:  # the record has no more results
                self._deliver_in_lane(self._waiting.pop(key_left))

    def _deliver_in_lane(self, deliver: Callable[[], None]) -> None:
        place = PLACE.get()
        PLACE.set(self._lane)
        try:
            deliver()
        finally:
            PLACE.set(place)


def _return_value(value: Any) -> Any:
    return value


_orders: WeakKeyDictionary[Any, _ResultOrder] = WeakKeyDictionary()


# concurrent.futures


def _submit(original: Any, pool: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    lane = starting_lane()
    if lane is None:
        return original(pool, function, *args, **kwargs)
    if pool not in _orders:
        _orders[pool] = _ResultOrder(lane.run)
    pool._initializer = _wrap_initializer(lane, pool._initializer)
    ticket = _make_ticket(lane, function)
    future = original(pool, ProcessJob(ticket, function), *args, **kwargs)
    place, _, number = ticket.place.rpartition("/")
    put_in_place(future, place, int(number))
    return future


def _process_result(original: Any, manager: Any, item: Any) -> None:
    pool = manager.executor_reference()
    order = _orders.get(pool) if pool is not None else None
    if isinstance(item, int) or order is None or order.run is None:
        original(manager, item)
    else:
        order.accept(item.work_id, lambda: original(manager, item))


# multiprocessing.pool


def _is_of_processes(pool: Any) -> bool:
    from multiprocessing.pool import ThreadPool

    return not isinstance(pool, ThreadPool)


def _set_up_queues(original: Any, pool: Any) -> None:
    original(pool)
    lane = starting_lane()
    if lane is not None and _is_of_processes(pool):
        pool._quick_get = _ResultQueue(pool._quick_get, _ResultOrder(lane.run))


def _populate(original: Any, pool: Any) -> None:
    lane = starting_lane() if _is_of_processes(pool) else None
    if lane is not None:
        pool._initializer = _wrap_initializer(lane, pool._initializer)
    _call_outside_lanes(original, pool)


class _ResultQueue:
    """Result queue of a pool that returns results in recorded order."""

    def __init__(self, get: Callable[[], Any], order: _ResultOrder) -> None:
        self._get = get
        self._order = order
        self._ready: list[Any] = []

    def __call__(self) -> Any:
        while not self._ready:
            task = self._get()
            if task is None:
                return None
            self._order.accept((task[0], task[1]), partial(self._ready.append, task))
        return self._ready.pop(0)


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
