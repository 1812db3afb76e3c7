"""A program that waits for something outside of it sleeps more or less often in a replay than in its record."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import onrecord
from kit.runtime import Died, broken_off, divergence_of, new_id, replay, resume, run
from kit.stores import any_store

left = [0]
word = ["same"]
dies = [False]


def is_missing() -> bool:
    """Return True while a file, say, is not there."""
    left[0] -= 1
    return left[0] >= 0


@onrecord.step
def ask(what: str) -> str:
    return what


@onrecord.step
async def ask_later(what: str) -> str:
    return what


@onrecord.agent
def sleeping() -> Any:
    while is_missing():
        time.sleep(0.005)
    first = ask(word[0])
    time.sleep(0.005)
    if dies[0]:
        raise Died
    return [first, ask("last")]


@onrecord.agent
async def sleeping_task() -> Any:
    async def poll() -> str:
        while is_missing():
            await asyncio.sleep(0.005)
        return await ask_later(word[0])

    async with asyncio.timeout(60):
        first = await asyncio.create_task(poll())
    await asyncio.sleep(0.005)
    if dies[0]:
        raise Died
    return [first, await ask_later("last")]


@onrecord.agent
def sleeping_thread() -> Any:
    got: list[str] = []

    def poll() -> None:
        while is_missing():
            time.sleep(0.005)
        got.append(ask(word[0]))

    thread = threading.Thread(target=poll)
    thread.start()
    thread.join(60)
    time.sleep(0.005)
    if dies[0]:
        raise Died
    return [*got, ask("last")]


AGENTS = [sleeping, sleeping_task, sleeping_thread]
agents = pytest.mark.parametrize("agent", AGENTS, ids=["sync", "task", "thread"])


@pytest.fixture(autouse=True)
def as_before() -> None:
    word[0], dies[0] = "same", False


@agents
@pytest.mark.parametrize("count", [0, 1, 3, 40])
@any_store
def test_replay_may_sleep_more_or_less_often(count: int, agent: Any, store: Any) -> None:
    left[0], run_id = 3, new_id()
    result = run(agent, store=store, run_id=run_id)
    left[0] = count
    began = time.monotonic()
    assert replay(agent, run_id, store=store) == result
    assert time.monotonic() - began < 5, "and waits for none of it"


@agents
@any_store
def test_request_that_differs_is_reported_however_often_the_program_sleeps(agent: Any, store: Any) -> None:
    left[0], run_id, word[0] = 3, new_id(), "same"
    run(agent, store=store, run_id=run_id)
    for count in (0, 3, 7):
        left[0], word[0] = count, "other"
        assert "/payload/what differs" in str(divergence_of(lambda: replay(agent, run_id, store=store)))


@agents
@pytest.mark.parametrize("count", [0, 3, 7])
@any_store
def test_resume_may_sleep_more_or_less_often(count: int, agent: Any, store: Any) -> None:
    left[0], dies[0] = 3, True
    run_id = broken_off(agent, store=store)
    left[0], dies[0] = count, False
    result = resume(agent, run_id, store=store)
    assert result == ["same", "last"]
    for again in (3, count):
        left[0] = again
        assert replay(agent, run_id, store=store) == result


@any_store
def test_replay_that_only_sleeps_has_diverged(store: Any) -> None:
    left[0], run_id = 3, new_id()
    run(sleeping_task, store=store, run_id=run_id)
    left[0] = 1_000_000
    divergence_of(lambda: replay(sleeping_task, run_id, store=store))
    assert left[0] > 980_000
