"""Nodes that tasks execute. Leaves and branches of threads are executed too, and block the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import agent_effects as effects
from agent_shapes import Node
from sync_nodes import View, message_of, run_node

import onrecord


async def run_async(view: View, node: Node) -> Any:
    kind, number, amount, branches = node
    if branches and kind in BRANCHES:
        return await BRANCHES[kind](view, number, amount, branches)
    if not branches and kind in LEAVES:
        return await LEAVES[kind](view, number, amount)
    return run_node(view, node)


def branch(view: View, node: Node) -> Any:
    """Return a coroutine that runs the node in a lane of its own."""
    return run_async(view.branch(), node)


async def wait_for_tasks(view: View) -> None:
    """Wait for the tasks that have outlived their node."""
    if view.tasks:
        await asyncio.wait(view.tasks)
        view.tasks.clear()
    for _ in range(3):
        await asyncio.sleep(0)  # the ends of jobs whose task was cancelled are still in the queue of the loop


def run_loop(view: View, node: Node) -> Any:
    """Run the node in an event loop of its own."""
    own = View(view.book, view.run, view.memory, view.seen)

    async def run() -> Any:
        found = await run_async(own, node)
        await wait_for_tasks(own)
        return found

    return asyncio.run(run())


# Leaves


def asking(effect: Callable[..., Any], prefix: str) -> Callable[[View, int, int], Awaitable[Any]]:
    async def ask(view: View, number: int, amount: int) -> Any:
        tag = f"{prefix} {number}"
        try:
            return view.saw(tag, await effect(view.book, tag, view.last()))
        except (ValueError, onrecord.OnrecordError) as error:
            return view.saw(tag, message_of(error))

    return ask


async def hasty(view: View, number: int, amount: int) -> Any:
    try:
        return view.saw(f"again {number}", await effects.hasty(view.book, f"again {number}", view.last()))
    except TimeoutError:
        return view.saw(f"late {number}", "late")


async def pay(view: View, number: int, amount: int) -> Any:
    return view.saw(f"paid {number}", await effects.pay_async(view.run, f"paid {number}", view.last()))


async def sleep(view: View, number: int, amount: int) -> Any:
    await asyncio.sleep(amount * 0.001)
    return view.add(number)


async def durable_sleep(view: View, number: int, amount: int) -> Any:
    await onrecord.sleep(amount * 0.001)
    return view.add(number)


async def wait(view: View, number: int, amount: int) -> Any:
    key = onrecord.wait_key(f"w{number}")
    view.saw(f"again {number}", await effects.send_key(view.book, f"again {number}", key))
    return view.saw(f"answer {number}", await onrecord.wait_for(f"w{number}", timeout=60))


async def first_wait(view: View, number: int, amount: int) -> Any:
    key = onrecord.wait_key(f"w{number}")
    view.saw(f"again {number}", await effects.send_key(view.book, f"again {number}", key))
    return view.saw(f"answer {number}", await onrecord.wait_for_first(f"v{number}", f"w{number}", timeout=60))


async def late_wait(view: View, number: int, amount: int) -> Any:
    try:
        await onrecord.wait_for(f"late {number}", timeout=amount * 0.001)
    except TimeoutError:
        return view.saw(f"late {number}", "late")


async def stream(view: View, number: int, amount: int) -> Any:
    """Read a stream, and act on its chunks if the amount is above 1."""
    words: list[Any] = []
    try:
        async for word in effects.speak(view.book, f"again {number}", view.last()):
            words.append(word)
            if len(words) < amount:
                view.add(word)
                await asking(effects.compute, f"again word {len(words)} of")(view, number, amount)
    except ConnectionError:
        return view.saw(f"cut {number}", len(words))
    return view.saw(f"again {number}", words[0].split(".")[0])


async def left_stream(view: View, number: int, amount: int) -> Any:
    """Read a stream to its first word only."""
    words = effects.speak(view.book, f"again {number}", view.last())
    try:
        async for _ in words:
            break
    except ConnectionError:
        return view.add("cut")
    if amount == 1:
        await words.aclose()
    return view.add("left")


async def keyed(view: View, number: int, amount: int) -> Any:
    tag = f"once {number}"
    try:
        return view.saw(tag, await effects.mail.keyed(f"key {number}", view.book, tag, view.last()))
    except onrecord.OnrecordError as error:
        return view.saw(tag, message_of(error))


async def give_way(view: View, number: int, amount: int) -> Any:
    for _ in range(amount):
        await asyncio.sleep(0)


LEAVES: dict[str, Callable[[View, int, int], Awaitable[Any]]] = {
    "async mail": asking(effects.mail, "once"),
    "async compute": asking(effects.compute, "again"),
    "upsert": asking(effects.upsert, "again"),
    "async refused": asking(effects.refused, "once"),
    "async flaky": asking(effects.flaky, "again"),
    "hasty": hasty,
    "async pay": pay,
    "async sleep": sleep,
    "async durable sleep": durable_sleep,
    "async wait": wait,
    "first wait": first_wait,
    "async late wait": late_wait,
    "stream": stream,
    "left stream": left_stream,
    "keyed": keyed,
    "yield": give_way,
}


# Branches


async def gather(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    return await gather_all(view, [branch(view, node) for node in nodes])


async def gather_all(view: View, coroutines: list[Any]) -> list[Any]:
    """Gather tasks. If one of them is cancelled, the others may outlive this node."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    view.tasks.extend(tasks)
    return list(await asyncio.gather(*tasks))


async def group(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(branch(view, node)) for node in nodes]
    return [task.result() for task in started]


async def failing_group(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    async def fail() -> None:
        await asyncio.sleep(amount * 0.001)
        raise KeyError(number)

    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())
            started = [tasks.create_task(branch(view, node)) for node in nodes]
    except* KeyError:
        view.add([task.cancelled() for task in started])


async def completed(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    async with started(view, nodes) as tasks:
        return [view.add(await one) for one in asyncio.as_completed(tasks)]


async def first(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    async with started(view, nodes) as tasks:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        view.add([task in done for task in tasks])
    return view.add([task.cancelled() for task in tasks])


@asynccontextmanager
async def started(view: View, nodes: list[Node]) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Start a task for each node. At the end of the block cancel the tasks, and wait for them."""
    tasks = [asyncio.create_task(branch(view, node)) for node in nodes]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def timeout(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    try:
        async with asyncio.timeout(amount * 0.002):
            return [await run_async(view, node) for node in nodes]
    except TimeoutError:
        return view.add("late")


async def wait_for(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    try:
        return await asyncio.wait_for(gather(view, number, amount, nodes), amount * 0.002)
    except TimeoutError:
        return view.add("late")


async def cancel(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    async with started(view, nodes) as tasks:
        await asyncio.sleep(amount * 0.002)
    return view.add([task.cancelled() for task in tasks])


async def queued(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    jobs: asyncio.Queue[Node | None] = asyncio.Queue()
    done: list[Any] = []
    for job in [*nodes, *[None] * amount]:
        jobs.put_nowait(job)

    async def serve() -> None:
        own = view.branch()
        while (node := await jobs.get()) is not None:
            done.append(await run_async(own, node))

    await gather_all(view, [serve() for _ in range(amount)])
    return view.add(done)


def within(make: Callable[[int], Any]) -> Callable[[View, int, int, list[Node]], Awaitable[Any]]:
    """Return a branch whose nodes each run inside a lock."""

    async def run(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
        lock, done = make(amount), []

        async def one(node: Node) -> None:
            async with lock:
                done.append(await branch(view, node))

        await gather_all(view, [one(node) for node in nodes])
        return view.add(done)

    return run


async def condition(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    changed, done = asyncio.Condition(), []

    async def one(node: Node) -> None:
        value = await branch(view, node)
        async with changed:
            done.append(value)
            changed.notify_all()

    async def wait() -> None:
        async with changed:
            await changed.wait_for(lambda: len(done) == len(nodes))

    await gather_all(view, [wait(), *map(one, nodes)])
    return view.add(done)


async def timer(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    fired = asyncio.Event()
    handle = asyncio.get_running_loop().call_later(amount * 0.001, fired.set)
    try:
        found = await gather(view, number, amount, nodes)
        view.add(fired.is_set())
        await fired.wait()
    finally:
        handle.cancel()
    return found


async def shield(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    return await asyncio.shield(asyncio.ensure_future(branch(view, nodes[0])))


async def spin(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    steps = 0
    async with started(view, nodes) as tasks:
        while not tasks[0].done():
            await asyncio.sleep(0)
            steps += 1
    return [view.add(steps), tasks[0].result()]


async def to_thread(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    return [await asyncio.to_thread(run_node, view.branch(), node) for node in nodes]


async def threads_of_tasks(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    return list(await asyncio.gather(*(asyncio.to_thread(run_node, view.branch(), node) for node in nodes)))


async def loop_in_a_thread(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    own = view.branch()
    return await asyncio.to_thread(run_loop, own, nodes[0])


async def pool(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    """Run jobs. If this task is cancelled, the loop blocks until the jobs that have begun are over."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(amount) as executor:
        jobs = [loop.run_in_executor(executor, run_node, view.branch(), node) for node in nodes]
        return list(await asyncio.gather(*jobs))


async def sequence(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    return [await run_async(view, node) for node in nodes]


async def child(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    from tree_agents import async_child

    return view.add(await async_child(view.book, view.run, nodes))


BRANCHES: dict[str, Callable[[View, int, int, list[Node]], Awaitable[Any]]] = {
    "gather": gather,
    "group": group,
    "failing group": failing_group,
    "as completed": completed,
    "first": first,
    "timeout": timeout,
    "wait for": wait_for,
    "cancel": cancel,
    "async queue": queued,
    "async semaphore": within(asyncio.Semaphore),
    "async lock": within(lambda _: asyncio.Lock()),
    "async condition": condition,
    "timer": timer,
    "shield": shield,
    "spin": spin,
    "to thread": to_thread,
    "threads of tasks": threads_of_tasks,
    "loop in a thread": loop_in_a_thread,
    "pool of tasks": pool,
    "async sequence": sequence,
    "async child": child,
}
