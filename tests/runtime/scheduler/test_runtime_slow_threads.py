"""Threads that begin alike and work for so long before they ask that nobody waits for them.

Which of them asks first is chance, in the record and again in the replay: they are known by their birth.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest

import onrecord
from kit.runtime import new_id, recorded_and_replayed, replay, run
from kit.soak import SOAK
from onrecord.store.memory import MemoryStore

ROUNDS = 4 if SOAK else 2
WIDTH = 5
_answers = count()
_order: list[int] = []
"""In which order the threads go on."""


@onrecord.tool
def ask(what: str) -> str:
    return f"{what}, the {next(_answers)}th"


@pytest.fixture(autouse=True)
def chance() -> None:
    random.seed()
    _order[:] = random.sample(range(WIDTH), WIDTH)


def late(one: int) -> None:
    """Long after the grace, each at another time than in the run before."""
    time.sleep(0.03 + 0.015 * _order[one])


def two_questions(found: dict[Any, Any], one: int) -> None:
    late(one)
    first = ask("the same")
    found[one] = first, ask("another" if one % 2 else f"for {one}")


def threads(found: dict[Any, Any], work: Callable[..., None], *more: Any) -> None:
    begun = [threading.Thread(target=work, args=(found, one, *more)) for one in range(WIDTH)]
    for thread in begun:
        thread.start()
    for thread in begun:
        thread.join()


@onrecord.agent
def of_threads() -> Any:
    found: dict[Any, Any] = {}
    threads(found, two_questions)
    return sorted(found.items())


@onrecord.agent
def of_a_pool() -> Any:
    found: dict[Any, Any] = {}
    with ThreadPoolExecutor(WIDTH) as pool:
        for future in [pool.submit(two_questions, found, one) for one in range(WIDTH)]:
            future.result()
    return sorted(found.items())


@onrecord.agent
async def of_jobs() -> Any:
    found: dict[Any, Any] = {}
    await asyncio.gather(*(asyncio.to_thread(two_questions, found, one) for one in range(WIDTH)))
    return sorted(found.items())


@onrecord.agent
def of_threads_in_threads() -> Any:
    """Who asks first, the one above or the one below, is chance as well."""
    found: dict[Any, Any] = {}

    def below(one: int) -> None:
        late(one)
        found["below", one] = ask("the same")

    def above(_: dict[Any, Any], one: int) -> None:
        thread = threading.Thread(target=below, args=(WIDTH - 1 - one,))
        thread.start()
        late(one)
        found["above", one] = ask("the same")
        thread.join()

    threads(found, above)
    return sorted(found.items())


@onrecord.agent
async def of_tasks_with_jobs() -> Any:
    """A task that asks for nothing before its job does is known by the job's chance."""
    found: dict[Any, Any] = {}

    async def task(one: int) -> None:
        job = asyncio.get_running_loop().run_in_executor(None, two_questions, found, one)
        await asyncio.sleep(0.001 * (1 + _order[one]))  # never 0, which is no timer
        found["task", one] = await asyncio.to_thread(ask, "the same")
        await job

    await asyncio.gather(*map(task, range(3)))
    return sorted(found.items(), key=str)


AGENTS = [of_threads, of_a_pool, of_jobs, of_threads_in_threads, of_tasks_with_jobs]


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: str(agent.name))
def test_each_is_given_its_own_answers(agent: Any, memory: MemoryStore) -> None:
    for _ in range(ROUNDS):
        name = new_id()
        recorded = run(agent, run_id=name, store=memory)
        made = next(_answers)
        random.shuffle(_order)
        assert replay(agent, name, store=memory) == recorded
        assert next(_answers) == made + 1, "something was done again"


@onrecord.agent
def in_any_order() -> Any:
    found: dict[Any, Any] = {}
    begun = [threading.Thread(target=two_questions, args=(found, one)) for one in _order]
    for thread in begun:
        thread.start()
    for thread in begun:
        thread.join()
    return sorted(found.items())


def test_a_hundred_and_more_that_are_alike(memory: MemoryStore) -> None:
    @onrecord.agent
    def crowd() -> Any:
        found: dict[int, str] = {}

        def one_question(number: int) -> None:
            time.sleep(0.04 * random.random())
            found[number] = ask("the same")

        begun = [threading.Thread(target=one_question, args=(number,)) for number in range(120)]
        for thread in begun:
            thread.start()
        for thread in begun:
            thread.join()
        return sorted(found.items())

    recorded_and_replayed(crowd, store=memory)
