"""What effects leave behind in a loop, and a replay does not have: an executor that has looked up names, and
connections that have to be closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import httpx
import pytest

import onrecord
from kit.numbered_server import Server
from onrecord.store.memory import MemoryStore


async def by_httpx(url: str) -> Any:
    async with httpx.AsyncClient() as client:
        return (await client.get(url)).json()["number"]


async def by_aiohttp(url: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return (await response.json())["number"]


async def after_a_job(url: str) -> Any:
    return [await asyncio.to_thread(lambda: httpx.get(url).json()["number"]), await by_httpx(url)]


@pytest.mark.parametrize("ask", [by_httpx, by_aiohttp, after_a_job])
def test_one_loop_after_the_other(ask: Callable[[str], Any], server: Server, store: MemoryStore) -> None:
    url = f"http://localhost:{server.port}/number"

    @onrecord.agent(store=store)
    def agent() -> list[Any]:
        return [asyncio.run(ask(url)), asyncio.run(ask(url)), httpx.get(url).json()["number"]]

    recorded = agent.run(run_id="r")
    server.stop()
    assert agent.replay("r", store=store) == recorded


def test_a_run_that_comes_back_goes_on_in_a_loop_of_its_own(server: Server, store: MemoryStore) -> None:
    url, dies = f"http://localhost:{server.port}/number", [True]

    @onrecord.agent(store=store)
    def agent() -> list[int]:
        seen = []
        for _ in range(4):
            seen.append(asyncio.run(by_httpx(url)))
            if len(seen) == 2 and dies:
                raise KeyboardInterrupt
        return seen

    with pytest.raises(KeyboardInterrupt):
        agent.run(run_id="r")
    dies.clear()
    assert agent.resume("r", store=store) == [1, 2, 3, 4]
    assert server.requests == 4


def test_a_session_that_closes_its_connections(server: Server, store: MemoryStore) -> None:
    """It does so in a task, which is no lane: the job behind it would be another one in a replay."""

    async def ask(url: str) -> list[Any]:
        first = await by_aiohttp(f"{url}/number")
        return [first, await asyncio.to_thread(lambda: httpx.get(f"{url}/number").json()["number"])]

    @onrecord.agent(store=store)
    def agent(url: str) -> list[Any]:
        return asyncio.run(ask(url))

    recorded = agent.run(server.url, run_id="r")
    server.stop()
    assert agent.replay("r", store=store) == recorded
