"""Pools of processes: `concurrent.futures.ProcessPoolExecutor` and `multiprocessing.Pool`.

1. Jobs are runs (`jobs`); workers, and the threads that serve a pool, are nobody's.
2. In which order results come is part of the record: a replay hands them on in that order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from reenact.capture.processes.command_lines import CommandLine
from reenact.capture.processes.jobs import Items, Job, name_of
from reenact.capture.processes.seams import begun, nowhere, starter
from reenact.capture.processes.tickets import Ticket
from reenact.capture.seams.hooks import Replace
from reenact.effect.lanes import Lane
from reenact.effect.live_run import LiveRun
from reenact.effect.places import PLACE
from reenact.effect.sets import put_in_place

_INTERNAL = frozenset(
    {"concurrent.futures.process", "multiprocessing.pool", "multiprocessing.queues", "multiprocessing.resource_sharer"}
)


def put_into(module: ModuleType, replace: Replace) -> None:
    if module.__name__ == "multiprocessing.pool":
        pool = module.Pool
        replace(pool, "_repopulate_pool", _populated)
        replace(pool, "_setup_queues", _queues_set_up)
        replace(pool, "apply_async", _applied)
        replace(pool, "_map_async", _mapped)
        for name in ("imap", "imap_unordered"):
            replace(pool, name, _mapped_lazily)
    else:
        replace(module.ProcessPoolExecutor, "submit", _submitted)
        replace(module.ProcessPoolExecutor, "_spawn_process", _as_nobody)
        replace(module._ExecutorManagerThread, "process_result_item", _came)
    _let_internal_threads_be_nobodys()


_wrapped: list[Any] = []


def _let_internal_threads_be_nobodys() -> None:
    if _wrapped:
        return
    original = threading.Thread.start
    _wrapped.append(original)

    def start(thread: threading.Thread) -> None:
        target = getattr(thread, "_target", None)
        if type(thread).__module__ in _INTERNAL or getattr(target, "__module__", None) in _INTERNAL:
            with nowhere():
                original(thread)
        else:
            original(thread)

    setattr(threading.Thread, "start", start)  # noqa: B010


def _as_nobody(original: Any, *args: Any, **kwargs: Any) -> Any:
    with nowhere():
        return original(*args, **kwargs)


def _ticket(lane: Lane, function: Any) -> Ticket:
    return begun(lane, "job", CommandLine((name_of(function),), None)).ticket


def _initializer(lane: Lane, function: Any) -> Any:
    """What each worker begins with is a run of its own as well."""
    if function is None or isinstance(function, Job):
        return function
    return Job(begun(lane, "worker", CommandLine((name_of(function),), None)).ticket, function)


# The order of results


class _Order:
    """In which order the results of one pool came."""

    def __init__(self, run: LiveRun) -> None:
        self.run = run
        self._kind = f"results:{run.root.next_ordinal('pools')}"
        self._place = Lane(run, run.root, None, ["pool", self._kind])
        """Whatever a result calls, where it comes in, is done in a lane of its own."""
        self._waiting: dict[Any, Callable[[], None]] = {}
        self._next = 0
        run.turns.away.add(self)  # whoever waits for results does not stand still

    def came(self, key: Any, hand_on: Callable[[], None]) -> None:
        run = self.run
        if run.is_stopped:
            hand_on()
            return
        if run.journal is not None and run.is_live:
            run.draw(run.root, self._kind, lambda: key)
            self._hand(hand_on)
            return
        self._waiting[key] = hand_on
        recorded = run.past.drawn("0", self._kind) if run.past is not None else []
        while self._next < len(recorded) and recorded[self._next] in self._waiting:
            following = recorded[self._next]
            run.draw(run.root, self._kind, partial(_same, following))
            self._next += 1
            self._hand(self._waiting.pop(following))
        if self._next >= len(recorded):
            for left in [*self._waiting]:  # the record ends before
                self._hand(self._waiting.pop(left))

    def _hand(self, hand_on: Callable[[], None]) -> None:
        place = PLACE.get()
        PLACE.set(self._place)
        try:
            hand_on()
        finally:
            PLACE.set(place)


def _same(value: Any) -> Any:
    return value


_orders: WeakKeyDictionary[Any, _Order] = WeakKeyDictionary()


def _ordered(pool: Any, lane: Lane) -> None:
    if pool not in _orders:
        _orders[pool] = _Order(lane.run)


# concurrent.futures


def _submitted(original: Any, pool: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    lane = starter()
    if lane is None:
        return original(pool, function, *args, **kwargs)
    _ordered(pool, lane)
    pool._initializer = _initializer(lane, pool._initializer)
    ticket = _ticket(lane, function)
    submitted = original(pool, Job(ticket, function), *args, **kwargs)
    place, _, number = ticket.place.rpartition("/")
    put_in_place(submitted, place, int(number))
    return submitted


def _came(original: Any, manager: Any, item: Any) -> None:
    pool = manager.executor_reference()
    order = _orders.get(pool) if pool is not None else None
    if isinstance(item, int) or order is None or order.run is None:
        original(manager, item)
    else:
        order.came(item.work_id, lambda: original(manager, item))


# multiprocessing.pool


def _is_of_processes(pool: Any) -> bool:
    from multiprocessing.pool import ThreadPool

    return not isinstance(pool, ThreadPool)


def _queues_set_up(original: Any, pool: Any) -> None:
    original(pool)
    lane = starter()
    if lane is not None and _is_of_processes(pool):
        pool._quick_get = _Results(pool._quick_get, _Order(lane.run))


def _populated(original: Any, pool: Any) -> None:
    lane = starter() if _is_of_processes(pool) else None
    if lane is not None:
        pool._initializer = _initializer(lane, pool._initializer)
    _as_nobody(original, pool)


class _Results:
    """What a pool reads its results from: in the recorded order."""

    def __init__(self, get: Callable[[], Any], order: _Order) -> None:
        self._get = get
        self._order = order
        self._ready: list[Any] = []

    def __call__(self) -> Any:
        while not self._ready:
            task = self._get()
            if task is None:
                return None
            self._order.came((task[0], task[1]), partial(self._ready.append, task))
        return self._ready.pop(0)


def _applied(original: Any, pool: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
    lane = starter() if _is_of_processes(pool) else None
    return original(pool, func if lane is None else Job(_ticket(lane, func), func), *args, **kwargs)


def _mapped(original: Any, pool: Any, func: Any, iterable: Any, mapper: Any, *args: Any, **kwargs: Any) -> Any:
    lane = starter() if _is_of_processes(pool) else None
    if lane is None:
        return original(pool, func, iterable, mapper, *args, **kwargs)
    items = Items(_ticket(lane, func), func, star=mapper.__name__ == "starmapstar")
    return original(pool, items, list(enumerate(iterable)), mapper, *args, **kwargs)


def _mapped_lazily(original: Any, pool: Any, func: Any, iterable: Any, *args: Any, **kwargs: Any) -> Any:
    lane = starter() if _is_of_processes(pool) else None
    if lane is None:
        return original(pool, func, iterable, *args, **kwargs)
    return original(pool, Items(_ticket(lane, func), func, star=False), enumerate(iterable), *args, **kwargs)
