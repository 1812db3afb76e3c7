"""Random concurrent programs, made from a seed: whatever asyncio and threads offer that can go in several orders.

A program notes each observable step in a list. What it does depends on the seed and on what it observes, never on
chance; how long its effects take is chance. So a replay that hands over in another order ends with another list.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from onrecord.runtime.api.tool import step, tool

_latency = random.Random()
live_calls = 0


def _count() -> None:
    global live_calls
    live_calls += 1


@step
async def fetch(what: str) -> str:
    _count()
    await asyncio.sleep(_latency.choice((0, 0.0005, 0.001, 0.003)))
    if _latency.random() < 0.1:
        raise ValueError(f"no {what}")
    return f"{what}={_latency.randrange(1000)}"


@tool
async def same(_: int = 0) -> int:
    _count()
    await asyncio.sleep(_latency.choice((0, 0.001)))
    return _latency.randrange(1_000_000)


@tool
def blocking(what: str) -> int:
    _count()
    time.sleep(_latency.choice((0, 0.0003, 0.001)))
    return _latency.randrange(1000)


class Program:
    def __init__(self, seed: int, *, slow: bool = False) -> None:
        """Slow: threads among it that nobody waits for."""
        self.rng = random.Random(seed)
        self.slow = slow
        self.steps: list[Any] = []
        self.lock = threading.Lock()

    def note(self, *what: Any) -> None:
        self.steps.append(what)

    async def main(self) -> Any:
        shapes: list[Callable[[int, int], Awaitable[Any]]] = [
            self.gathered,
            self.first_completed,
            self.as_completed,
            self.task_group,
            self.queued,
            self.hedged,
            self.timed_out,
            self.polled,
            self.jobs,
            self.blocking_in_the_loop,
            self.locked_threads,
            self.raced_with_a_sleep,
            self.identical,
            *([self.slow_threads] if self.slow else []),
        ]
        results = []
        for number in range(self.rng.randrange(2, 5)):
            shape = self.rng.choice(shapes)
            try:
                results.append(await shape(number, self.rng.randrange(2, 6)))
            except ValueError as error:
                results.append(str(error))
            self.note("end", number)
        return [results, self.steps]

    def work(self) -> None:
        """Processor work between awaits, of a length that nobody controls."""
        end = time.perf_counter() + _latency.choice((0, 0, 0.0002, 0.001))
        while time.perf_counter() < end:
            pass

    async def branch(self, number: int, depth: int = 0) -> str:
        self.work()
        if (number + depth) % 3 == 0:
            await asyncio.sleep(_latency.choice((0.0001, 0.0003, 0.001)))  # never 0, which is no timer
            self.note("slept", number)
        answer = await fetch(f"b{number}")
        self.note("fetched", number, answer)
        self.work()
        if int(answer.split("=")[1]) % 3 == 0 and depth < 2:
            answer += await self.branch(number * 10 + 1, depth + 1)
        return answer

    async def gathered(self, number: int, width: int) -> Any:
        found = await asyncio.gather(*(self.branch(number * 100 + one) for one in range(width)), return_exceptions=True)
        return [str(one) for one in found]

    async def first_completed(self, number: int, width: int) -> Any:
        tasks = [asyncio.create_task(self.branch(number * 100 + one)) for one in range(width)]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        winners = [index for index, task in enumerate(tasks) if task in done]
        self.note("won", winners)
        for task in pending:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return winners

    async def as_completed(self, number: int, width: int) -> Any:
        order = []
        for future in asyncio.as_completed([self.branch(number * 100 + one) for one in range(width)]):
            try:
                order.append(await future)
            except ValueError as error:
                order.append(str(error))
            self.note("came", order[-1])
        return order

    async def task_group(self, number: int, width: int) -> Any:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.branch(number * 100 + one)) for one in range(width)]
        except* ValueError as errors:
            self.note("group", sorted(str(error) for error in errors.exceptions))
        return ["cancelled" if task.cancelled() else str(task.exception() or task.result()) for task in tasks]

    async def queued(self, number: int, width: int) -> Any:
        queue: asyncio.Queue[Any] = asyncio.Queue(maxsize=2)

        async def produce(one: int) -> None:
            try:
                await queue.put((one, await fetch(f"q{one}")))
            except ValueError as error:
                await queue.put((one, str(error)))

        producers = [asyncio.create_task(produce(one)) for one in range(width)]
        got = []
        for _ in range(width):
            got.append(await queue.get())
            self.note("got", got[-1])
            self.work()
        await asyncio.gather(*producers)
        return got

    async def hedged(self, number: int, width: int) -> Any:
        first = asyncio.create_task(self.branch(number))
        done, _ = await asyncio.wait([first], timeout=_latency.choice((0.0005, 0.002)))
        self.note("hedging", bool(done))
        tasks = [first] if done else [first, asyncio.create_task(self.branch(number + 1))]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return [tasks.index(task) for task in tasks if task in done]

    async def timed_out(self, number: int, width: int) -> Any:
        try:
            if width % 2:
                return await asyncio.wait_for(self.branch(number), timeout=_latency.choice((0.0005, 0.002)))
            async with asyncio.timeout(_latency.choice((0.0005, 0.002))):
                return await self.branch(number)
        except TimeoutError:
            self.note("timed out", number)
            return "late"

    async def polled(self, number: int, width: int) -> Any:
        tasks = [asyncio.create_task(self.branch(number * 10 + one)) for one in range(2)]
        turns = 0
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            turns += 1
        self.note("polled", turns)
        await asyncio.gather(*tasks, return_exceptions=True)
        return turns

    async def jobs(self, number: int, width: int) -> Any:
        def job(one: int) -> int:
            self.note("job", one)
            value = blocking(f"j{one}")
            self.note("job asked", one, value)
            return value

        tasks = [asyncio.create_task(asyncio.to_thread(job, one)) for one in range(width)]
        tasks.append(asyncio.create_task(self.branch(number)))  # type: ignore[arg-type]
        order = []
        for future in asyncio.as_completed(tasks):
            try:
                order.append(await future)
            except ValueError as error:
                order.append(str(error))  # type: ignore[arg-type]
            self.note("job came", order[-1])
        return order

    async def blocking_in_the_loop(self, number: int, width: int) -> Any:
        async def one(index: int) -> Any:
            if index % 2:
                return await self.branch(index)
            value = blocking(f"l{index}")
            self.note("blocked", index, value)
            await asyncio.sleep(0)
            return value

        return [str(r) for r in await asyncio.gather(*map(one, range(width)), return_exceptions=True)]

    async def locked_threads(self, number: int, width: int) -> Any:
        order: list[Any] = []

        def job(one: int) -> None:
            before = blocking(f"before {one}")
            with self.lock:
                value = blocking(f"k{one}")
                order.append((one, before, value))

        await asyncio.gather(*(asyncio.to_thread(job, one) for one in range(min(width, 3))))
        return order

    async def raced_with_a_sleep(self, number: int, width: int) -> Any:
        asked = asyncio.create_task(self.branch(number))
        slept = asyncio.create_task(asyncio.sleep(_latency.choice((0.0001, 0.001, 0.002)), "slept"))
        done, pending = await asyncio.wait([asked, slept], return_when=asyncio.FIRST_COMPLETED)
        winner = ["asked" if task is asked else "slept" for task in (asked, slept) if task in done]
        self.note("race", winner)
        for task in pending:
            task.cancel()
        await asyncio.gather(asked, slept, return_exceptions=True)
        return winner

    async def identical(self, number: int, width: int) -> Any:
        return await asyncio.gather(*(same() for _ in range(width * 3)))

    async def slow_threads(self, number: int, width: int) -> Any:
        """Alike to their first request, which they are slow to make: who is first is chance."""
        found: dict[int, Any] = {}

        def ask(one: int) -> None:
            time.sleep(_latency.random() * 0.05)
            first = blocking("the same")
            found[one] = (first, blocking(f"t{one}"))

        threads = [threading.Thread(target=ask, args=(one,)) for one in range(2)]
        for thread in threads:
            thread.start()
        await asyncio.gather(*(asyncio.to_thread(ask, one) for one in range(2, 4)))
        for thread in threads:
            await asyncio.to_thread(thread.join)
        return sorted(found.items())
