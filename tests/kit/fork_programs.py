"""Random programs whose result follows from the answers that they are given, whatever the order these come in.

What they do is drawn from a seed; their effects are functions of their input. So a fork of such a run that is answered
from its record, or that does the same again, ends with the same result, wherever it was forked.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import onrecord
from kit.forks import Ledger
from onrecord.runtime.api.agent import agent
from onrecord.runtime.api.retry import Retry
from onrecord.runtime.api.tool import step, tool

ledger = Ledger()
_latency = random.Random()
tried: set[str] = set()
TOOLS = ("act", "act_blocking", "act_failing", "act_yielding", "linger")


def digest(*what: Any) -> int:
    return int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:2], "big")


async def a_moment(*what: Any) -> None:
    await asyncio.sleep((digest("moment", *what) % 3) * 0.0005)


def long_or_short() -> None:
    """Around the time for which a thread that asks for nothing is waited for, another one every time."""
    time.sleep(_latency.random() * 0.05)


@step
async def fetch(what: str) -> int:
    ledger.did("fetch", what)
    await a_moment(what)
    return digest("fetch", what)


@tool(kind="model_call")
async def think(model: str, prompt: str) -> int:
    ledger.did("think", prompt)
    await a_moment(prompt)
    return digest("think", model, prompt)


@tool
async def act(what: str) -> int:
    ledger.did("act", what)
    await a_moment(what)
    return digest("act", what)


@tool
async def linger(what: str) -> None:
    await asyncio.sleep(3600)


@tool
def act_blocking(what: str) -> int:
    ledger.did("act_blocking", what)
    return digest("act_blocking", what)


@tool
async def act_failing(what: str) -> int:
    ledger.did("act_failing", what)
    if digest("failing", what) % 2:
        raise ValueError(f"no {what}")
    return digest("act_failing", what)


@step(retry=Retry(attempts=3, delay_seconds=0.0005))
async def retried(what: str) -> int:
    ledger.did("retried", what)
    if digest("retried", what) % 3 and (key := onrecord.idempotency_key()) not in tried:
        tried.add(key)
        raise ConnectionError(what)
    return digest("retried", what)


@tool
async def act_yielding(what: str) -> Any:
    ledger.did("act_yielding", what)
    for number in range(digest("yielding", what) % 4):
        yield digest("yielding", what, number)


@agent(name="fork.child")
async def child(what: str) -> list[int]:
    found = await asyncio.gather(fetch(f"{what}.1"), act(f"{what}.2"))
    return [*found, await think("small", f"{what}.3")]


class Program:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    async def main(self) -> Any:
        shapes: list[Callable[[str], Awaitable[Any]]] = [
            *(self.single, self.gathered, self.failing, self.jobs, self.slept, self.drawn, self.stated),
            *(self.streamed, self.called, self.nested, self.given_up, self.blocked, self.mixed),
            *(self.slow_threads, self.slow_pool, self.slow_branches),
        ]
        return [await self.rng.choice(shapes)(f"{number}") for number in range(self.rng.randrange(2, 6))]

    async def single(self, name: str) -> Any:
        effect: Any = self.rng.choice((fetch, act, retried))
        return await effect(name)

    async def gathered(self, name: str) -> Any:
        width = self.rng.randrange(2, 5)

        async def branch(number: int) -> list[Any]:
            first = await fetch(f"{name}.{number}")
            return [first, await (act if first % 2 else retried)(f"{name}.{number}.{first}")]

        return await asyncio.gather(*(branch(number) for number in range(width)))

    async def failing(self, name: str) -> Any:
        found = await asyncio.gather(*(act_failing(f"{name}.{one}") for one in range(3)), return_exceptions=True)
        return [str(one) for one in found]

    async def jobs(self, name: str) -> Any:
        return await asyncio.gather(*(asyncio.to_thread(act_blocking, f"{name}.{one}") for one in range(3)))

    async def slept(self, name: str) -> Any:
        async def after(number: int) -> Any:
            await onrecord.sleep(0.0005 * number)
            return await fetch(f"{name}.{number}")

        return await asyncio.gather(*(after(number) for number in range(3)))

    async def drawn(self, name: str) -> Any:
        async def draw(number: int) -> Any:
            await fetch(f"{name}.{number}")
            return [onrecord.random() < 2, await act(f"{name}.{number}")]

        return await asyncio.gather(*(draw(number) for number in range(2)))

    async def stated(self, name: str) -> Any:
        onrecord.set_state({"at": name})
        found = await fetch(name)
        onrecord.set_state({"at": name, "found": found})
        return onrecord.state()

    async def streamed(self, name: str) -> Any:
        return [chunk async for chunk in act_yielding(name)]

    async def called(self, name: str) -> Any:
        return await child(name)

    async def nested(self, name: str) -> Any:
        return await asyncio.gather(self.gathered(f"{name}.a"), self.failing(f"{name}.b"))

    async def given_up(self, name: str) -> Any:
        task = asyncio.create_task(linger(name))
        await fetch(name)
        task.cancel()
        return await asyncio.gather(task, return_exceptions=True) and None

    async def blocked(self, name: str) -> Any:
        return [act_blocking(f"{name}.{one}") for one in range(2)]

    async def mixed(self, name: str) -> Any:
        return await asyncio.gather(self.slept(f"{name}.a"), self.jobs(f"{name}.b"), self.drawn(f"{name}.c"))

    # Threads and jobs that begin alike and are slow to ask: who is first, and gets the first number, is chance.

    async def slow_threads(self, name: str) -> Any:
        found: dict[Any, Any] = {}

        times = self.rng.randrange(1, 4)

        def ask(one: int) -> None:
            long_or_short()
            found[one] = [*(act_blocking(f"{name}.same") for _ in range(times)), act_blocking(f"{name}.{one}")]

        threads = [threading.Thread(target=ask, args=(one,)) for one in range(2)]
        for thread in threads:
            thread.start()
        await asyncio.gather(*(asyncio.to_thread(ask, one) for one in range(2, 4)))
        for thread in threads:
            await asyncio.to_thread(thread.join)
        return sorted(found.items())

    async def slow_pool(self, name: str) -> Any:
        """Nothing tells these apart but the order in which they were begun."""
        times = self.rng.randrange(1, 4)

        def ask(box: dict[str, int]) -> Any:
            long_or_short()
            alike = [act_blocking(f"{name}.same") for _ in range(times)]
            return [*alike, act_blocking(f"{name}.{box['number']}")]

        def ask_all() -> Any:
            with ThreadPoolExecutor(3) as pool:
                futures = [pool.submit(ask, {"number": number}) for number in range(3)]
                return [future.result() for future in futures]

        return await asyncio.to_thread(ask_all)

    async def slow_branches(self, name: str) -> Any:
        """Tasks and threads that begin others before they ask: who is known first is chance as well."""
        found: dict[Any, Any] = {}

        def below(one: int) -> None:
            long_or_short()
            found["below", one] = [act_blocking(f"{name}.same"), act_blocking(f"{name}.below.{one}")]

        def above(one: int) -> None:
            thread = threading.Thread(target=below, args=(one,))
            thread.start()
            long_or_short()
            found["above", one] = [act_blocking(f"{name}.same"), act_blocking(f"{name}.above.{one}")]
            thread.join()

        async def task(one: int) -> None:
            job = asyncio.get_running_loop().run_in_executor(None, above, one)
            await asyncio.sleep(_latency.choice((0.001, 0.02)))  # never 0, which is no timer
            found["task", one] = [await fetch(f"{name}.same"), await fetch(f"{name}.{one}")]
            await job

        await asyncio.gather(*map(task, range(2)))
        return sorted(found.items())


@agent(name="fork.random")
async def program(seed: int) -> Any:
    return await Program(seed).main()


@agent(name="fork.random.failing")
async def failing_program(seed: int) -> Any:
    await Program(seed).main()
    return await act_failing(next(f"{n}" for n in range(99) if digest("failing", f"{n}") % 2))
