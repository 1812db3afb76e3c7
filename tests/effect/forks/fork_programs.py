"""Random programs whose result follows from the answers that they are given, whatever the order these come in.

What they do is drawn from a seed; their effects are functions of their input. So a fork of such a run that is answered
from its record, or that does the same again, ends with the same result, wherever it was forked.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

from fork_support import Ledger

import reenact
from reenact.effect.agents import agent
from reenact.effect.retrying import Retry
from reenact.effect.tools import step, tool

ledger = Ledger()
tried: set[str] = set()
TOOLS = ("act", "act_blocking", "act_failing", "act_yielding", "linger")


def digest(*what: Any) -> int:
    return int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:2], "big")


async def a_moment(*what: Any) -> None:
    await asyncio.sleep((digest("moment", *what) % 3) * 0.0005)


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
    if digest("retried", what) % 3 and (key := reenact.idempotency_key()) not in tried:
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
            await reenact.sleep(0.0005 * number)
            return await fetch(f"{name}.{number}")

        return await asyncio.gather(*(after(number) for number in range(3)))

    async def drawn(self, name: str) -> Any:
        async def draw(number: int) -> Any:
            await fetch(f"{name}.{number}")
            return [reenact.random() < 2, await act(f"{name}.{number}")]

        return await asyncio.gather(*(draw(number) for number in range(2)))

    async def stated(self, name: str) -> Any:
        reenact.set_state({"at": name})
        found = await fetch(name)
        reenact.set_state({"at": name, "found": found})
        return reenact.state()

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


@agent(name="fork.random")
async def program(seed: int) -> Any:
    return await Program(seed).main()


@agent(name="fork.random.failing")
async def failing_program(seed: int) -> Any:
    await Program(seed).main()
    return await act_failing(next(f"{n}" for n in range(99) if digest("failing", f"{n}") % 2))
