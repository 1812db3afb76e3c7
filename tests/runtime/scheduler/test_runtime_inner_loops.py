"""A synchronous agent that runs loops of its own: what the loop does for itself goes by the real clock."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import onrecord
from kit.runtime import recorded_and_replayed
from onrecord.core.events import TurnTaken
from onrecord.store.memory import MemoryStore


@onrecord.step
def slow(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@onrecord.step
async def ask(number: int) -> int:
    await asyncio.sleep(0.001)
    return number


async def _one(number: int) -> int:
    await asyncio.to_thread(time.sleep, 0.001)
    return await ask(number)


async def _all() -> list[int]:
    return await asyncio.gather(*map(_one, range(5)))


def test_the_recorded_time_is_no_reason_to_give_up() -> None:
    """The record is ahead of the real clock by what its steps took: nobody has stood still for that long."""

    @onrecord.agent(name="slow_then_loop")
    def agent() -> list[Any]:
        return [slow(1.5), asyncio.run(_all()), slow(0.0)]

    store = MemoryStore()
    result = agent.run(run_id="r", store=store)
    for _ in range(5):
        assert agent.replay("r", store=store) == result


def test_how_many_threads_a_pool_had_is_no_part_of_the_record() -> None:
    @onrecord.agent(name="pooled")
    def agent() -> float:
        pool = ThreadPoolExecutor(given[0])
        waits = [pool.submit(slow, 0.01) for _ in range(6)]
        for one in waits:
            one.result()
        slow(0.0)
        pool.shutdown()
        return slow(0.0)

    for recorded in (6, 1):
        store, given = MemoryStore(), [recorded]
        assert agent.run(run_id="r", store=store) == 0.0
        turns = [
            turn[0]
            for event in onrecord.JournalReader(store, "r").scan()
            if isinstance(event.event, TurnTaken)
            for turn in event.event.turns
        ]
        assert turns == ["start"] * 6, "when a worker takes a job is the pool's business; its end is not recorded"
        for given[0] in (6, 1, 3):
            assert agent.replay("r", store=store) == 0.0


def test_a_stopped_loop_runs_the_rest_of_its_round() -> None:
    """`run_until_complete` stops the loop in the first callback of its task. Libraries end their threads in another."""
    ended: list[str] = []

    async def main() -> int:
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda _: loop.call_soon(ended.append, "next round"))
        task.add_done_callback(lambda _: ended.append("same round"))
        return await ask(1)

    @onrecord.agent(name="stopped_loop")
    def agent() -> int:
        return loop.run_until_complete(main())

    store = MemoryStore()
    for run in (lambda: agent.run(run_id="r", store=store), lambda: agent.replay("r", store=store)):
        loop = asyncio.new_event_loop()
        assert run() == 1
        loop.close()
    assert ended == ["same round", "same round"]


def test_a_loop_that_ends_does_not_wait_for_a_task_of_an_effect(memory: Any) -> None:
    """A replay has no such task. Waiting for it would be a rest of the recording alone."""
    may_end, has_ended = threading.Event(), threading.Event()
    left: list[Any] = []

    async def end_late() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.to_thread(has_ended.wait)
            await asyncio.sleep(0.01)

    @onrecord.step
    async def leave_a_task() -> None:
        left.append(asyncio.create_task(end_late()))
        await asyncio.sleep(0.001)

    @onrecord.step
    def wait_for_the_loop() -> None:
        may_end.wait()
        has_ended.set()

    @onrecord.agent
    def ending_a_loop() -> Any:
        order: list[str] = []

        def other() -> None:
            wait_for_the_loop()
            order.append("other")

        async def inner() -> None:
            await leave_a_task()
            may_end.set()

        thread = threading.Thread(target=other)
        thread.start()
        asyncio.run(inner())
        order.append("main")
        thread.join()
        return order

    recorded_and_replayed(ending_a_loop, store=memory)
    assert left[0].cancelled()


def test_a_pool_that_only_an_effect_used_takes_no_turns_at_the_end_of_a_loop(memory: Any) -> None:
    """A replay has no such pool. A loop that never rests counts how often others run."""

    @onrecord.step
    async def use_a_pool() -> int:
        return await asyncio.to_thread(int)

    async def inner() -> int:
        return await use_a_pool()

    @onrecord.agent
    async def counting() -> int:
        job = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(inner())))
        steps = 0
        while not job.done():
            await asyncio.sleep(0)
            steps += 1
        return steps

    for _ in range(3):
        recorded_and_replayed(counting, store=memory)
