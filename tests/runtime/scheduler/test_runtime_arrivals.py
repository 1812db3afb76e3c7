"""Threads that reach a queue, a lock or a condition in another order than when they were recorded.

A thread that goes on for long without asking for anything is not waited for, and others run beside it. The pauses here
are as long as that, and others in the replay than in the record: they stand for a processor that was busy elsewhere.
"""

from __future__ import annotations

import queue
import select
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import onrecord
from kit.runtime import Died, broken_off, events, new_id, replay, resume, run
from kit.soak import SOAK
from onrecord.runtime.scheduler.drivers.coordinator import GRACE_SECONDS

WIDTH = 3
NOBODY = (0, 0, 0, 0, 0)
"""How many graces each of the threads pauses, and the agent's own code before and after it has begun to serve them."""
ORDERS = {
    "all wait when the first item comes, and again none does": ((0, 0, 0, 4, 0), NOBODY),
    "none waits when the first item comes, and again all do": (NOBODY, (0, 0, 0, 4, 0)),
    "the last comes first, and again last": ((6, 4, 2, 8, 2), NOBODY),
    "one order, and again another": ((2, 0, 4, 3, 0), (0, 4, 2, 0, 2)),
    "all at once, and again one by one": ((3, 3, 3, 3, 3), (6, 4, 2, 0, 2)),
}
END = 99
_pauses = list(NOBODY)
_died: list[str] = []


@pytest.fixture(autouse=True)
def nobody_pauses() -> Iterator[None]:
    _died.clear()
    yield
    _pauses[:] = NOBODY


def pause(who: int) -> None:
    if _pauses[who]:
        select.select([], [], [], _pauses[who] * GRACE_SECONDS * 1.2)  # a wait that no driver sees


@onrecord.tool
def ask(what: Any) -> Any:
    return what


def begun(work: Callable[[int], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work, args=(who,)) for who in range(WIDTH)]
    for thread in threads:
        thread.start()
    pause(WIDTH)
    return threads


def ended(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join()


@onrecord.agent
def queueing(kind: str) -> Any:
    items, seen = getattr(queue, kind)(), []

    def work(who: int) -> None:
        pause(who)
        while (item := items.get()) != END:
            seen.append((who, ask(item)))
            pause(who)

    threads = begun(work)
    for item in range(5):
        items.put(item)
    pause(WIDTH + 1)
    for _ in threads:
        items.put(END)
    ended(threads)
    return seen


@onrecord.agent
def notifying(_: str) -> Any:
    condition, items, seen = threading.Condition(), [], []

    def work(who: int) -> None:
        pause(who)
        with condition:
            while not items:
                condition.wait()
            item = items.pop(0)
        seen.append((who, ask(item)))

    threads = begun(work)
    for item in range(WIDTH):
        with condition:
            items.append(item)
            condition.notify()
        pause(WIDTH + 1)
    ended(threads)
    return seen


@onrecord.agent
def setting(_: str) -> Any:
    event, seen = threading.Event(), []

    def work(who: int) -> None:
        pause(who)
        was_set = event.wait(5 * GRACE_SECONDS if who == 0 else None)
        seen.append((who, was_set, ask("the same")))

    threads = begun(work)
    event.set()
    ended(threads)
    return seen


@onrecord.agent
def sharing(kind: str) -> Any:
    """Held for longer than anybody is waited for, and wanted again."""
    lock, seen = threading.Semaphore(2) if kind == "Semaphore" else getattr(threading, kind)(), []

    def work(who: int) -> None:
        for _ in range(2):
            pause(who)
            with lock:
                seen.append(who)
                place = len(seen)
                pause(who)
            ask(place)

    ended(begun(work))
    return seen


@onrecord.agent
def trying(_: str) -> Any:
    lock, seen = threading.Lock(), []

    def work(who: int) -> None:
        for _ in range(2):
            pause(who)
            place = -1
            if lock.acquire(blocking=False):
                seen.append(who)
                place = len(seen)
                pause(who)
                lock.release()
            ask(place)

    ended(begun(work))
    return seen


@onrecord.agent
def hurrying(_: str) -> Any:
    lock, seen = threading.Lock(), []

    def work(who: int) -> None:
        for _ in range(2):
            pause(who)
            place = -1
            if lock.acquire(timeout=GRACE_SECONDS):
                seen.append(who)
                place = len(seen)
                pause(who)
                lock.release()
            ask(place)

    ended(begun(work))
    return seen


@onrecord.agent
def meeting(_: str) -> Any:
    barrier, seen = threading.Barrier(WIDTH), []

    def work(who: int) -> None:
        for _ in range(2):
            pause(who)
            seen.append((who, ask(barrier.wait())))

    ended(begun(work))
    return seen


@onrecord.agent
def pooling(_: str) -> Any:
    items: queue.Queue[int] = queue.Queue()

    def work(who: int) -> Any:
        pause(who)
        return who, ask(items.get())

    with ThreadPoolExecutor(WIDTH) as pool:
        jobs = [pool.submit(work, who) for who in range(WIDTH)]
        pause(WIDTH)
        for item in range(WIDTH):
            items.put(item)
        return [job.result() for job in jobs]


AGENTS: list[tuple[Any, str]] = [
    *((queueing, kind) for kind in ("Queue", "LifoQueue", "PriorityQueue")),
    *((sharing, kind) for kind in ("Lock", "RLock", "Semaphore")),
    *((agent, "") for agent in (notifying, setting, trying, hurrying, meeting, pooling)),
]


def arrivals() -> Iterator[Any]:
    """Yield every agent with every order; in `make test` with two of them, so that each order has several agents."""
    for number, (agent, kind) in enumerate(AGENTS):
        for place, order in enumerate(ORDERS):
            if SOAK or (number + place) % len(ORDERS) in (0, 2):
                yield pytest.param(agent, kind, order, id="-".join(filter(None, (agent.name, kind, order))))


@pytest.mark.parametrize(("agent", "kind", "order"), list(arrivals()))
def test_threads_that_arrive_in_another_order_are_served_in_the_recorded_one(
    memory: Any, agent: Any, kind: str, order: str
) -> None:
    recorded, again = ORDERS[order]
    _pauses[:] = recorded
    result = run(agent, kind, store=memory, run_id=(run_id := new_id()))
    _pauses[:] = again
    assert replay(agent, run_id, store=memory) == result


@onrecord.agent
def dying() -> Any:
    items: queue.Queue[int] = queue.Queue()
    done: queue.Queue[Any] = queue.Queue()

    def work(who: int) -> None:
        pause(who)
        while (item := items.get()) != END:
            done.put((who, ask(item)))

    threads, seen = begun(work), []
    for first in (0, 10):
        for item in range(WIDTH):
            items.put(first + item)
        seen += [done.get() for _ in range(WIDTH)]
        die_once()
    for _ in threads:
        items.put(END)
    ended(threads)
    return seen


@onrecord.tool(idempotent=True)
def die_once() -> None:
    if not _died:
        _died.append("once")
        raise Died


@pytest.mark.parametrize("order", list(ORDERS)[:4])
def test_a_run_that_died_goes_on_whoever_arrives_first(memory: Any, order: str) -> None:
    recorded, again = ORDERS[order]
    _pauses[:] = recorded
    run_id = broken_off(dying, store=memory)
    asked = [event.content() for event in events(memory, run_id) if event.kind == "ActionRequested"]
    _pauses[:] = again
    result = resume(dying, run_id, store=memory)
    assert [event.content() for event in events(memory, run_id) if event.kind == "ActionRequested"][
        : len(asked)
    ] == asked
    assert sorted(item for _, item in result) == [0, 1, 2, 10, 11, 12]
    _pauses[:] = NOBODY
    assert replay(dying, run_id, store=memory) == result


# What it costs


def turns(store: Any, run_id: str) -> list[Any]:
    return [turn for event in events(store, run_id) if event.kind == "TurnTaken" for turn in event.content()["turns"]]


def test_an_agent_with_a_single_thread_notes_nothing_of_its_locks(memory: Any) -> None:
    @onrecord.agent
    def alone() -> Any:
        lock, items = threading.RLock(), queue.Queue[int]()
        with lock:
            items.put(ask(1))
        return items.get()

    run(alone, store=memory, run_id=(run_id := new_id()))
    assert turns(memory, run_id) == []


def test_locks_are_not_recorded(memory: Any) -> None:
    @onrecord.agent
    def busy() -> Any:
        lock, count = threading.Lock(), 0
        threads = begun(ask)
        for _ in range(20_000):
            with lock:
                count += 1
        ended(threads)
        return count

    _pauses[:] = (0, 0, 0, 2, 0)
    run(busy, store=memory, run_id=(run_id := new_id()))
    assert {turn[0] for turn in turns(memory, run_id)} <= {"away", "back"}
    assert len(turns(memory, run_id)) < 100
    _pauses[:] = NOBODY
    assert replay(busy, run_id, store=memory) == 20_000
