"""Simulated programs as Python with asyncio and threads, to read and to try against a real driver."""

from __future__ import annotations

from collections.abc import Iterator

from kit.simulation.programs import THREADED, Node, Program

_PRELUDE = """\
import asyncio
import concurrent.futures
import queue
import random
import threading
import time

memory = []
locks = threading.Lock(), threading.Lock()
async_locks = asyncio.Lock(), asyncio.Lock()


def effect(kind, *input):  # make these two effects of the agent
    if kind == "failing":
        raise ValueError(input)
    return random.random()


async def aeffect(kind, *input):
    await asyncio.sleep(random.random() / 100)
    return effect(kind, *input)


def stream(*input):
    yield from (random.random() for _ in range(3))


def caught(call, *args):
    try:
        memory.append(call(*args))
    except ValueError as failure:
        memory.append(failure.args)


async def acaught(awaitable):
    try:
        memory.append(await awaitable)
    except ValueError as failure:
        memory.append(failure.args)


"""


def render_program(program: Program, *, sees_memory: bool) -> str:
    """Return a module that can be run. Time-outs and streams are only as in the simulation as Python allows."""
    seen = "memory[-3:]" if sees_memory else "()"
    lines = ["async def main():", *_indent(_Renderer(seen).body(program, in_thread=False)), "", "asyncio.run(main())"]
    return _PRELUDE + "\n".join(lines) + "\n"


class _Renderer:
    def __init__(self, seen: str) -> None:
        self._seen = seen

    def body(self, program: Program, *, in_thread: bool) -> list[str]:
        lines = [line for node in program for line in self._node(node, in_thread)]
        return lines or ["pass"]

    def _node(self, node: Node, in_thread: bool) -> Iterator[str]:
        if not node.branches:
            yield from self._leaf(node, in_thread)
            return
        below = in_thread or node.kind in THREADED
        names = []
        for number, branch in enumerate(node.branches):
            names.append(f"{node.kind}_{node.number}_{number}")
            yield f"{'' if below else 'async '}def {names[-1]}():"
            yield from _indent(self._branch(node, branch, below))
        yield from (self._in_thread if in_thread else self._in_loop)(node, names)

    def _leaf(self, node: Node, in_thread: bool) -> Iterator[str]:
        kind, number, size = node.kind, node.number, node.size
        if kind in ("effect", "once", "again", "own", "keyed", "failing"):
            call = f"{'' if in_thread else 'a'}effect({kind!r}, {number}, {self._seen})"
            yield f"caught(lambda: {call})" if in_thread else f"await acaught({call})"
        elif kind == "slow":
            yield "time.sleep(0.3)  # reaches no act"
            yield f"memory.append({'' if in_thread else 'await a'}effect('effect', {number}))"
        elif kind == "blocking":
            yield f"caught(lambda: effect({kind!r}, {number}, {self._seen}))  # blocks the loop"
        elif kind == "stream":
            yield f"for chunk in stream({number}, {self._seen}):"
            yield "    memory.append(chunk)"
            if size == 4:
                yield f"    {'' if in_thread else 'await a'}effect('effect', {number}, chunk)"
            if size == 3:
                yield "    break  # after two chunks"
        elif kind in ("sleep", "stray"):
            comment = "  # ended by a thread that is no lane" if kind == "stray" else ""
            yield f"{'time.sleep' if in_thread else 'await asyncio.sleep'}({size} / 100){comment}"
        elif kind == "draw":
            yield "memory.append(random.random())"
        elif kind == "glance":
            yield "random.random()"
        elif kind == "note":
            yield f"state = ({number}, {self._seen})  # set the state"
        elif kind == "checkpoint":
            yield "pass  # take a checkpoint"
        elif kind == "touch":
            yield f"memory.append({number})"
        elif kind == "yield":
            yield from ["await asyncio.sleep(0)"] * size
        elif kind == "compute":
            yield "time.sleep(0.3)  # reaches no act"
        elif kind == "measure":
            yield from ("time.sleep(0.3)  # reaches no act", "random.random()", "time.sleep(0.3)")

    def _branch(self, node: Node, branch: Program, in_thread: bool) -> list[str]:
        wait = "" if in_thread else "await "
        if node.kind == "pipe":
            lines = []
            for one in branch:
                lines += self._node(one, in_thread)
                lines.append(f"{wait}mailbox_{node.number}.put({one.number})")
            return lines
        lines = self.body(branch, in_thread=in_thread)
        if node.kind == "lock":
            lock = f"locks[{node.size % 2}]"
            return [f"with {lock}:" if in_thread else f"async with async_{lock}:", *_indent(lines)]
        if node.kind == "condition":
            lines.append(f"{wait}mailbox_{node.number}.put(None)")
        if node.kind == "group":
            lines.append("raise ValueError  # in every third branch")
        return lines

    def _in_loop(self, node: Node, names: list[str]) -> Iterator[str]:
        kind, number, size = node.kind, node.number, node.size
        if kind in THREADED:
            yield from _threads(node, names, blocks=size == 3)
            return
        if kind in ("pipe", "condition"):
            yield f"mailbox_{number} = asyncio.Queue()"
        yield f"tasks_{number} = [asyncio.create_task(branch()) for branch in ({', '.join(names)},)]"
        tasks = f"tasks_{number}"
        if kind in ("pipe", "condition"):
            count = sum(map(len, node.branches)) if kind == "pipe" else len(names)
            yield f"for _ in range({count}):"
            yield f"    memory.append(await mailbox_{number}.get())"
        if kind in ("gather", "lock", "pipe", "condition"):
            yield f"await asyncio.gather(*{tasks})"
        elif kind == "group":
            yield f"await asyncio.wait({tasks}, return_when=asyncio.FIRST_EXCEPTION)"
            yield from _cancel_all(tasks)
        elif kind == "first":
            yield f"await asyncio.wait({tasks}, return_when=asyncio.FIRST_COMPLETED)"
            yield from _cancel_all(tasks)
        elif kind == "as_completed":
            yield f"for task in asyncio.as_completed({tasks}):"
            yield "    memory.append(await task)"
        elif kind == "timeout":
            yield f"await asyncio.wait({tasks}[:1], timeout={size} / 100)"
            yield from _cancel_all(tasks)
        elif kind == "cancel":
            yield f"await asyncio.sleep({size} / 100)"
            yield from _cancel_all(tasks)
        elif kind == "spin":
            yield f"while not {tasks}[0].done():"
            yield "    await asyncio.sleep(0)"

    def _in_thread(self, node: Node, names: list[str]) -> Iterator[str]:
        number = node.number
        if node.kind == "poll":
            yield "try:"
            yield f"    queue.Queue().get(timeout={node.size} / 100)"
            yield "except queue.Empty:"
            yield "    pass"
            return
        if node.kind in ("pipe", "condition"):
            yield f"mailbox_{number} = queue.Queue()"
        yield from _threads(node, names, blocks=True)


def _threads(node: Node, names: list[str], *, blocks: bool) -> Iterator[str]:
    branches = f"({', '.join(names)},)"
    if node.kind == "jobs":
        yield f"pool_{node.number} = concurrent.futures.ThreadPoolExecutor({1 + node.size % 2})"
        yield f"jobs_{node.number} = [pool_{node.number}.submit(branch) for branch in {branches}]"
        if node.size == 4:
            yield f"[job.cancel() for job in jobs_{node.number}[1:]]"
        if blocks:
            yield f"concurrent.futures.wait(jobs_{node.number})"
        else:
            yield f"await asyncio.gather(*map(asyncio.wrap_future, jobs_{node.number}), return_exceptions=True)"
        return
    yield f"threads_{node.number} = [threading.Thread(target=branch) for branch in {branches}]"
    yield f"[thread.start() for thread in threads_{node.number}]"
    yield f"for thread in threads_{node.number}:"
    yield "    thread.join()" if blocks else "    await asyncio.to_thread(thread.join)"


def _cancel_all(tasks: str) -> Iterator[str]:
    yield f"[task.cancel() for task in {tasks}]"
    yield f"await asyncio.gather(*{tasks}, return_exceptions=True)"


def _indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
