"""What is done for each member of a set of tasks or futures is done in the same order again."""

from __future__ import annotations

import asyncio
import concurrent.futures
import random
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import onrecord
from kit.runtime import new_id, replay, run

MANY = 12
_kept: list[Any] = []
"""Nothing that was in a set goes away, so what comes next is elsewhere in memory."""


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    _kept.clear()


@onrecord.step
def look(number: int) -> int:
    return number


@onrecord.step
async def look_async(number: int) -> int:
    return number


def scattered(make: Callable[[int], Any]) -> list[Any]:
    """Anywhere in memory: in between, room of the size of what is made is taken."""
    made = []
    for number in range(MANY):
        kinds = (asyncio.Task, asyncio.Future, concurrent.futures.Future) * random.randrange(5)
        _kept.extend(kind.__new__(kind) for kind in kinds)
        made.append(make(number))
    _kept.extend(made)
    return made


async def _each(ended: Iterable[Any]) -> list[int]:
    return [await look_async(100 + one.result()) for one in ended]


@onrecord.agent
async def waiting_for_tasks() -> Any:
    ended, _ = await asyncio.wait(scattered(lambda number: asyncio.create_task(look_async(number))))
    return await _each(ended)


@onrecord.agent
async def keeping_tasks_in_a_set() -> Any:
    kept = set(scattered(lambda number: asyncio.create_task(look_async(number))))
    return await asyncio.gather(*kept)


@onrecord.agent
async def waiting_for_jobs() -> Any:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(2) as pool:
        ended, _ = await asyncio.wait(scattered(lambda number: loop.run_in_executor(pool, look, number)))
    return await _each(ended)


@onrecord.agent
def waiting_for_futures() -> Any:
    with ThreadPoolExecutor(2) as pool:
        ended, _ = concurrent.futures.wait(scattered(lambda number: pool.submit(look, number)))
    return [look(100 + one.result()) for one in ended]


@onrecord.agent
def taking_futures_that_have_ended() -> Any:
    with ThreadPoolExecutor(2) as pool:
        submitted = scattered(lambda number: pool.submit(look, number))
    return [look(100 + one.result()) for one in concurrent.futures.as_completed(submitted)]


@pytest.mark.parametrize(
    "agent",
    [
        *(waiting_for_tasks, keeping_tasks_in_a_set, waiting_for_jobs),
        *(waiting_for_futures, taking_futures_that_have_ended),
    ],
    ids=lambda agent: str(agent.name),
)
def test_a_set_has_the_order_that_it_had(memory: Any, agent: Any) -> None:
    run_id = new_id()
    result = run(agent, store=memory, run_id=run_id)
    assert len(result) == MANY
    for _ in range(3):
        assert replay(agent, run_id, store=memory) == result


def test_futures_and_tasks_of_no_run_are_as_ever() -> None:
    future: concurrent.futures.Future[int] = concurrent.futures.Future()

    async def task() -> Any:
        return asyncio.current_task()

    assert hash(future) == object.__hash__(future)
    assert type(asyncio.run(task())) is asyncio.Task
