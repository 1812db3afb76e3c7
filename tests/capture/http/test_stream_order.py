"""A part of a stream between two answers: all three are handed over again in the order in which they were."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import onrecord
from onrecord.store.memory import MemoryStore

steps: dict[str, asyncio.Event] = {}


async def _a_while() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@onrecord.tool(idempotent=True)
async def first() -> str:
    await _a_while()
    steps["second"].set()
    return "first"


@onrecord.tool(idempotent=True)
async def second() -> AsyncIterator[str]:
    await steps["second"].wait()
    await _a_while()
    steps["third"].set()
    yield "second"


@onrecord.tool(idempotent=True)
async def third() -> str:
    await steps["third"].wait()
    await _a_while()
    return "third"


def test_a_part_between_two_answers(store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    async def agent() -> list[Any]:
        order: list[str] = []

        async def ask(effect: Any) -> None:
            order.append(await effect())

        async def read() -> None:
            async for part in second():
                order.append(part)  # noqa: PERF401  # among what others append

        tasks = [asyncio.create_task(one) for one in (ask(first), read(), ask(third))]
        for _ in range(60):  # as long as it is busy nothing is handed over, and everything arrives
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        return order

    async def carried(made: Any) -> Any:
        steps.update(second=asyncio.Event(), third=asyncio.Event())
        return await made()

    recorded = asyncio.run(carried(lambda: agent.run(run_id="r")))
    assert recorded == ["first", "second", "third"]
    assert asyncio.run(carried(lambda: agent.replay("r", store=store))) == recorded
