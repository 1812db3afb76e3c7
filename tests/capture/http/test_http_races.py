"""Races, time-outs and cancelled streams, at random: whatever happened comes back, and nobody is asked again."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import aiohttp
import httpx
import pytest

import onrecord
from kit.numbered_server import Server
from kit.soak import seeds
from onrecord.store.memory import MemoryStore


async def _ask(clients: tuple[Any, Any], url: str, log: list[Any], index: int) -> Any:
    number: int = (await clients[0].get(f"{url}/slow")).json()["number"]
    log.append([index, number])
    return number


async def _get(clients: tuple[Any, Any], url: str, log: list[Any], index: int) -> Any:
    client, session = clients
    if index % 2:
        return (await client.get(f"{url}/slow")).json()["number"]
    async with session.get(f"{url}/slow") as response:
        return (await response.json())["number"]


async def _stream(clients: tuple[Any, Any], url: str, log: list[Any], index: int) -> Any:
    client, session = clients
    parts = []
    if index % 2:
        async with client.stream("GET", f"{url}/parts") as response:
            async for part in response.aiter_text():
                parts.append(part)
                log.append([index, part])
    else:
        async with session.get(f"{url}/parts") as response:
            async for part in response.content.iter_any():
                parts.append(part.decode())
                log.append([index, part.decode()])
    return parts


async def _act(
    clients: tuple[Any, Any], url: str, log: list[Any], index: int, choice: random.Random, works: list[Any]
) -> Any:
    work = choice.choice(works)
    kind, seconds = choice.randrange(3), choice.choice((0.005, 0.03, 0.06, 1.0))
    if kind == 0:
        return await work(clients, url, log, index)
    if kind == 1:
        try:
            async with asyncio.timeout(seconds):
                return await work(clients, url, log, index)
        except TimeoutError:
            log.append([index, "late"])
            return "late"
    tasks = [asyncio.create_task(one(clients, url, log, index)) for one in works]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=seconds)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return sorted(str(task.result()) for task in done)


@pytest.mark.parametrize("seed", seeds(3, 40))
@pytest.mark.parametrize(
    "works", [pytest.param([_ask, _ask], id="whole"), pytest.param([_get, _stream], id="streamed")]
)
def test_whatever_happened_comes_back(works: list[Any], seed: int, server: Server, store: MemoryStore) -> None:
    @onrecord.agent(store=store)
    async def agent(url: str) -> list[Any]:
        choice, log = random.Random(seed), []
        made = [random.Random(choice.random()) for _ in range(8)]
        async with httpx.AsyncClient() as client, aiohttp.ClientSession() as session:
            acts = (_act((client, session), url, log, index, one, works) for index, one in enumerate(made))
            results = await asyncio.gather(*acts)
        return [results, log]

    recorded = asyncio.run(agent.run(server.url, run_id="r"))
    server.stop()
    connections = server.connections
    assert asyncio.run(agent.replay("r", store=store)) == recorded
    assert server.connections == connections
