"""Forks at every position of a run that reads a stream, and forks of them: each is a run that replays and verifies."""

from __future__ import annotations

import asyncio
from typing import Any

import onrecord
from kit.runtime import new_id, replay, run
from onrecord.store.memory import MemoryStore


@onrecord.step
async def words(count: int) -> Any:
    for number in range(count):
        yield number


@onrecord.step
async def look(value: int) -> int:
    return value * 10


@onrecord.agent(name="forks.reads")
async def reads() -> list[Any]:
    got: list[Any] = []
    try:
        async for word in words(3):
            got += [word, await look(word)]
    except ConnectionError:
        got += ["cut", await look(99)]
    return got


def length(store: Any, name: str) -> int:
    return len(list(onrecord.JournalReader(store, name).scan()))


def fork_at(store: Any, name: str, at: int) -> tuple[str, list[Any]]:
    branch = new_id("branch")
    result: list[Any] = asyncio.run(reads.fork(name, at, fork_id=branch, store=store))
    assert replay(reads, branch, store=store) == result
    assert onrecord.verify_run(store, branch, deep=True).valid
    return branch, result


def test_a_stream_that_is_open_at_the_cut_is_executed_again_or_cut_off(memory: MemoryStore) -> None:
    name = new_id()
    whole = run(reads, run_id=name, store=memory)
    for at in range(length(memory, name)):
        branch, result = fork_at(memory, name, at)
        assert result == whole or result[-2:] == ["cut", 990]
        for later in range(length(memory, branch)):
            fork_at(memory, branch, later)


def test_the_clock_of_the_shared_part_stays(memory: MemoryStore) -> None:
    @onrecord.agent(name="forks.clock")
    async def clock() -> list[float]:
        loop = asyncio.get_running_loop()
        seen = []
        for number in range(3):
            await look(number)
            seen.append(loop.time())
        return seen

    name = new_id()
    whole = run(clock, run_id=name, store=memory)
    branch = new_id("branch")
    result: list[float] = asyncio.run(clock.fork(name, 4, fork_id=branch, store=memory))
    assert result[:2] == whole[:2]
    assert result[2] >= result[1]
    assert replay(clock, branch, store=memory) == result
