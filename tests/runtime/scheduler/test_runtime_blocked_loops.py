"""A step of an asynchronous agent holds its loop while threads of the agent work: nothing hangs, it all comes back."""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, as_completed, wait
from typing import Any

import pytest

import onrecord
from kit.runtime import recorded_and_replayed
from kit.soak import SOAK

_chance = random.Random()
ROUNDS = 5 if SOAK else 2


@onrecord.step
def draw(name: Any) -> float:
    time.sleep(_chance.random() * 0.01)
    return _chance.random()


@onrecord.step
async def draw_async(name: Any) -> float:
    await asyncio.sleep(_chance.random() * 0.01)
    return _chance.random()


def twice(name: Any) -> list[float]:
    return [draw(f"{name}-1"), draw(f"{name}-2")]


def by_map() -> Any:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(twice, range(4)))


def by_results() -> Any:
    with ThreadPoolExecutor(3) as pool:
        return [submitted.result() for submitted in [pool.submit(twice, number) for number in range(3)]]


def in_the_order_they_end() -> Any:
    with ThreadPoolExecutor(3) as pool:
        return [ended.result() for ended in as_completed([pool.submit(draw, number) for number in range(3)])]


def the_first() -> Any:
    pool = ThreadPoolExecutor(3)
    ended, _ = wait([pool.submit(draw, number) for number in range(3)], return_when=FIRST_COMPLETED)
    found = sorted(one.result() for one in ended)
    pool.shutdown()
    return found


def by_join() -> Any:
    found: list[Any] = []
    threads = [threading.Thread(target=lambda n=number: found.append((n, draw(n)))) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def by_event() -> Any:
    found, done = [], threading.Event()

    def work() -> None:
        found.append(draw("event"))
        done.set()

    threading.Thread(target=work).start()
    return [done.wait(30), *found]


def by_queue() -> Any:
    found: queue.Queue[Any] = queue.Queue()
    for number in range(3):
        threading.Thread(target=lambda n=number: found.put((n, draw(n)))).start()
    return [found.get() for _ in range(3)]


def too_late() -> Any:
    go, thread = threading.Event(), threading.Thread(target=lambda: [go.wait(), draw("late")])
    thread.start()
    thread.join(0.05)
    was_alive = thread.is_alive()
    go.set()
    thread.join()
    return [was_alive, thread.is_alive()]


WAYS: list[Callable[[], Any]] = [
    *(by_map, by_results, in_the_order_they_end, the_first, by_join, by_event, by_queue, too_late)
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_threads_go_on_while_a_step_of_the_loop_waits_for_them(way: Callable[[], Any], memory: Any) -> None:
    @onrecord.agent
    async def blocked() -> Any:
        before = await draw_async("before")
        found = way()
        return [before, found, draw("blocking"), await draw_async("after")]

    for _ in range(ROUNDS):
        recorded_and_replayed(blocked, store=memory)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_tasks_beside_it_get_their_answers_when_it_is_over(way: Callable[[], Any], memory: Any) -> None:
    async def beside(number: int) -> list[float]:
        return [await draw_async(f"{number}-1"), await draw_async(f"{number}-2")]

    async def blocked() -> Any:
        await asyncio.sleep(0.005)
        return way()

    @onrecord.agent
    async def several() -> Any:
        return await asyncio.gather(beside(1), blocked(), beside(2))

    for _ in range(ROUNDS):
        recorded_and_replayed(several, store=memory)


def test_outcomes_that_are_recorded_before_those_of_threads_wait_for_the_loop(memory: Any) -> None:
    """They arrive while the loop is busy, and are committed with the first outcome of a thread."""

    async def beside(number: int) -> float:
        return await draw_async(number)

    async def busy_and_then_blocked() -> Any:
        for _ in range(60):
            time.sleep(0.0005)  # with the loop held all the time nothing is handed over
            await asyncio.sleep(0)
        return by_results()

    @onrecord.agent
    async def several() -> Any:
        return await asyncio.gather(beside(1), busy_and_then_blocked(), beside(2))

    for _ in range(ROUNDS):
        recorded_and_replayed(several, store=memory)
