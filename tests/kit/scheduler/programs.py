"""Programs whose order is left to chance: other latencies in each process. A replay must return the same."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kit.scheduler.harness import LATENCY, draw, effect, latency, set_state

PROGRAMS: dict[str, Callable[[], Any]] = {}
COROUTINES: dict[str, Callable[[], Any]] = {}
"""Those that can also run beside each other in one loop."""
_REAL_MONOTONIC = time.monotonic


def program(function: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS[function.__name__] = function
    return function


def loop_program(function: Callable[[], Any]) -> Callable[[], Any]:
    COROUTINES[function.__name__] = function
    PROGRAMS[function.__name__] = lambda: asyncio.run(function())
    return function


@effect
async def ask(question: Any) -> str:
    await asyncio.sleep(latency())
    return f"<{question}:{LATENCY.randint(0, 999)}>"


@effect
def ask_blocking(question: Any) -> str:
    time.sleep(latency())
    return f"<{question}:{LATENCY.randint(0, 999)}>"


@effect(once=True)
async def pay(order: Any) -> str:
    await asyncio.sleep(latency())
    return f"paid {order} {LATENCY.randint(0, 999)}"


# Tasks


@loop_program
async def clock_after_effects() -> Any:
    async def timed(number: int) -> Any:
        answer = await ask(number)
        return answer, asyncio.get_running_loop().time()

    return await asyncio.gather(*[timed(number) for number in range(4)], asyncio.sleep(0.005))


@loop_program
async def lone_sleep() -> Any:
    await asyncio.sleep(0.01)
    return "slept"


@loop_program
async def sleeps_and_asks() -> Any:
    for _ in range(3):
        await asyncio.sleep(0.004)
    return await ask("x")


@loop_program
async def as_completed_mixed() -> Any:
    async def visit(number: int) -> str:
        return ask_blocking(number) + await ask(number)

    return [await done for done in asyncio.as_completed([visit(number) for number in range(5)])]


@loop_program
async def gather_in_gather() -> Any:
    async def tool() -> None:
        await asyncio.sleep(latency())

    async def agent(name: str) -> str:
        said = name + await ask(f"plan of {name}")
        await asyncio.gather(tool(), tool(), ask("price?"))
        return name + " " + await ask(said)

    await asyncio.gather(*[agent(f"p{number}") for number in range(3)])
    return [await task for task in asyncio.as_completed([agent(f"q{number}") for number in range(3)])]


@loop_program
async def task_group() -> Any:
    got: list[int] = []

    async def work(number: int) -> str:
        first = await ask(number)
        await asyncio.sleep(latency())
        got.append(number)
        return first + await ask(f"{number} {len(got)}")

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work(number)) for number in range(4)]
    return [task.result() for task in tasks], got


@loop_program
async def wait_first() -> Any:
    async def work(number: int) -> str:
        return await ask(number) + await ask(f"{number}b")

    tasks, got = {asyncio.create_task(work(number)) for number in range(5)}, []
    while tasks:
        done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            got.append(task.result())
            await ask(f"seen {task.result()}")
    return got


@loop_program
async def race_and_cancel() -> Any:
    async def work(number: Any) -> str:
        try:
            return await ask(number) + await ask(f"{number}b")
        except asyncio.CancelledError:
            await ask(f"clean {number}")
            raise

    rounds = []
    for number in range(3):
        tasks = [asyncio.create_task(work((number, one))) for one in range(4)]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        losers = [task for task in tasks if task in pending]
        for task in losers:
            task.cancel()
        rest = await asyncio.gather(*losers, return_exceptions=True)
        rounds.append(([tasks.index(task) for task in done], [type(one).__name__ for one in rest]))
    return rounds


@loop_program
async def time_outs() -> Any:
    got = []
    for number in range(6):
        try:
            async with asyncio.timeout(0.008):
                got.append(await ask(number))
        except TimeoutError:
            got.append(await ask(f"{number} late"))
    return got


@loop_program
async def busy_loop() -> Any:
    task, steps = asyncio.create_task(ask("x")), 0
    while not task.done():
        await asyncio.sleep(0)
        steps += 1
    return await ask(f"{steps} steps")


@loop_program
async def queue_workers() -> Any:
    jobs: asyncio.Queue[int | None] = asyncio.Queue(2)
    results = []

    async def produce() -> None:
        for number in range(8):
            await jobs.put(number)
        for _ in range(3):
            await jobs.put(None)

    async def consume(name: int) -> None:
        while (number := await jobs.get()) is not None:
            results.append((name, await ask(number)))

    await asyncio.gather(produce(), *[consume(name) for name in range(3)])
    return results


@loop_program
async def callbacks_of_timers() -> Any:
    loop, event, got = asyncio.get_running_loop(), asyncio.Event(), []
    loop.call_later(0.004, lambda: (got.append(ask_blocking("callback")), event.set()))
    asked = asyncio.gather(*[ask(number) for number in range(3)])
    await event.wait()
    return got + list(await asked)


@loop_program
async def states_and_draws() -> Any:
    async def note() -> Any:
        set_state(1)
        return draw("note", LATENCY.random)

    async def sleeper() -> Any:
        await asyncio.sleep(0.003)
        set_state(5)
        return draw("sleeper", LATENCY.random)

    return await asyncio.gather(ask(1), note(), sleeper(), asyncio.to_thread(set_state, 7))


@loop_program
async def blocking_effect_in_a_loop() -> Any:
    task = asyncio.create_task(ask("beside"))
    await asyncio.sleep(0.002)
    first = ask_blocking("blocks")
    return [first, await task, ask_blocking("again")]


@loop_program
async def payment_in_a_task() -> Any:
    task = asyncio.create_task(pay("A-1"))
    await asyncio.sleep(0.001)
    first = ask_blocking("compute")
    return [first, await task, await pay("A-2")]


# Executors


@loop_program
async def jobs_in_copied_contexts() -> Any:
    def job(number: int) -> str:
        return ask_blocking(number) + ask_blocking(f"{number}b")

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(3) as pool:
        jobs = [loop.run_in_executor(pool, contextvars.copy_context().run, job, number) for number in range(6)]
        return [await done for done in asyncio.as_completed(jobs)]


@program
def pool_as_completed() -> Any:
    def job(number: int) -> str:
        return ask_blocking(number) + ask_blocking(f"{number}b")

    got: list[str] = []
    with ThreadPoolExecutor(3) as pool:
        for future in concurrent.futures.as_completed([pool.submit(job, number) for number in range(6)]):
            got += [future.result(), ask_blocking(len(got))]
    return got


@loop_program
async def cancelled_in_a_pool() -> Any:
    def job(number: int) -> list[str]:
        return [ask_blocking((number, one)) for one in range(4)]

    async def pooled() -> Any:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(2) as pool:
            return await asyncio.gather(*[loop.run_in_executor(pool, job, number) for number in range(4)])

    task = asyncio.create_task(pooled())
    await asyncio.sleep(0.02)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return "cancelled " + await ask("end")
    return "done"


@loop_program
async def to_thread_cancelled() -> Any:
    def job() -> list[str]:
        return [ask_blocking(one) for one in range(3)]

    task = asyncio.create_task(asyncio.to_thread(job))
    await asyncio.sleep(0.01)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return "cancelled " + await ask("end")
    return "done"


# Threads


def _join_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@program
def locks_conditions_queues() -> Any:
    got: list[Any] = []
    lock, condition, results = threading.Lock(), threading.Condition(), queue.Queue[Any](2)

    def work(name: int) -> None:
        for turn in range(2):
            with lock:
                got.append(ask_blocking((name, turn, len(got))))
            with condition:
                got.append(name)
                condition.notify_all()
            results.put((name, turn))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    seen = [results.get() for _ in range(6)]
    with condition:
        condition.wait_for(lambda: len(got) == 12, timeout=5)
    for thread in threads:
        thread.join()
    return got, seen, ask_blocking("end")


@program
def polling_a_queue() -> Any:
    results: queue.Queue[str] = queue.Queue()
    got: list[str] = []

    def work() -> None:
        for number in range(3):
            results.put(ask_blocking(number))

    thread = threading.Thread(target=work)
    thread.start()
    while len(got) < 3:
        try:
            got.append(results.get(timeout=0.004))
        except queue.Empty:
            ask_blocking(f"polled {len(got)}")
    thread.join()
    return got


@program
def slow_thread_beside_others() -> Any:
    got: list[str] = []

    def slow() -> None:
        end = _REAL_MONOTONIC() + 0.12
        while _REAL_MONOTONIC() < end:
            pass
        got.append(ask_blocking("slow"))

    def quick() -> None:
        got.extend(ask_blocking(number) for number in range(4))

    _join_all([threading.Thread(target=slow), threading.Thread(target=quick)])
    return got


@program
def loops_in_threads() -> Any:
    got: list[Any] = []

    def work(name: int) -> None:
        async def both() -> Any:
            return await asyncio.gather(ask((name, 1)), ask((name, 2)))

        got.append((name, asyncio.run(both())))

    _join_all([threading.Thread(target=work, args=(name,)) for name in range(3)])
    return got


@program
def thread_outlives_the_agent() -> Any:
    def later() -> None:
        time.sleep(0.03)
        ask_blocking("after the end")

    threading.Thread(target=later, daemon=True).start()
    return ask_blocking("look")


@loop_program
async def anyio_worker_threads() -> Any:
    import anyio.from_thread
    import anyio.to_thread

    async def tool(number: int) -> str:
        first = await anyio.to_thread.run_sync(lambda: ask_blocking(number))
        second = await anyio.to_thread.run_sync(lambda: anyio.from_thread.run(ask, f"{number} back"))
        return first + second

    got: list[Any] = [await ask("one")]
    for turn in range(2):
        async with anyio.create_task_group() as group:

            async def one(number: int) -> None:
                got.append(await tool(number))

            for number in range(3):
                group.start_soon(one, number)
        got.append(await asyncio.gather(tool(7), tool(8)))
        got.append(await ask(f"two {turn} {len(got)}"))
    return got
