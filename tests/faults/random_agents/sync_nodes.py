"""Nodes that threads execute. Each returns plain data that depends on the outcomes which its lane received."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import agent_effects as effects
from agent_shapes import Node

import onrecord
from kit.crash_effects import saw


class View:
    """The memory of a lane: its last values are the input of its effects."""

    def __init__(self, book: str, run: str, memory: str, seen: list[Any]) -> None:
        self.book, self.run, self.memory, self.seen = book, run, memory, seen
        self.tasks: list[asyncio.Task[Any]] = []
        """Tasks that may outlive the node which started them."""

    def branch(self) -> View:
        """Return the memory of a new lane."""
        if self.memory == "shared":
            return self
        new = View(self.book, self.run, self.memory, self.seen[-2:])
        new.tasks = self.tasks
        return new

    def last(self) -> list[Any]:
        return self.seen[-3:]

    def add(self, value: Any) -> Any:
        self.seen.append(value)
        return value

    def saw(self, tag: str, value: Any) -> Any:
        """Acknowledge an outcome."""
        return self.add(saw(self.book, tag, value))


def run_node(view: View, node: Node) -> Any:
    kind, number, amount, branches = node
    if branches:
        return BRANCHES[kind](view, number, amount, branches)
    return LEAVES[kind](view, number, amount)


# Leaves


def ask(view: View, effect: Callable[..., Any], tag: str) -> Any:
    try:
        return view.saw(tag, effect(view.book, tag, view.last()))
    except (ValueError, onrecord.OnrecordError) as error:
        return view.saw(tag, message_of(error))


def message_of(error: Exception) -> str:
    return getattr(error, "message", None) or str(error)


def sleep(view: View, number: int, amount: int) -> Any:
    time.sleep(amount * 0.001)
    return view.add(number)


def durable_sleep(view: View, number: int, amount: int) -> Any:
    onrecord.sleep(amount * 0.001)
    return view.add(number)


def draw(view: View, number: int, amount: int) -> Any:
    return view.add([onrecord.random(), str(onrecord.uuid()), onrecord.now().isoformat()][amount - 1])


def set_state(view: View, number: int, amount: int) -> Any:
    onrecord.set_state({"node": number, "seen": view.last()})
    return None


def touch(view: View, number: int, amount: int) -> Any:
    view.add(number)
    return len(view.seen)


def work(view: View, number: int, amount: int) -> Any:
    """Compute for longer than a short grace."""
    end = time.perf_counter() + amount * 0.004
    while time.perf_counter() < end:
        pass
    return view.add(number)


def wait(view: View, number: int, amount: int) -> Any:
    key = onrecord.wait_key(f"w{number}")
    view.saw(f"again {number}", effects.send_key_blocking(view.book, f"again {number}", key))
    return view.saw(f"answer {number}", onrecord.wait_for(f"w{number}", timeout=60))


def late_wait(view: View, number: int, amount: int) -> Any:
    try:
        onrecord.wait_for(f"late {number}", timeout=amount * 0.001)
    except TimeoutError:
        return view.saw(f"late {number}", "late")


LEAVES: dict[str, Callable[[View, int, int], Any]] = {
    "mail": lambda view, number, _: ask(view, effects.mail_blocking, f"once {number}"),
    "compute": lambda view, number, _: ask(view, effects.compute_blocking, f"again {number}"),
    "refused": lambda view, number, _: ask(view, effects.refused_blocking, f"once {number}"),
    "flaky": lambda view, number, _: ask(view, effects.flaky_blocking, f"again {number}"),
    "pay": lambda view, number, _: view.saw(f"paid {number}", effects.pay(view.run, f"paid {number}", view.last())),
    "sleep": sleep,
    "durable sleep": durable_sleep,
    "draw": draw,
    "state": set_state,
    "touch": touch,
    "work": work,
    "wait": wait,
    "late wait": late_wait,
}


# Branches


def start_all(calls: list[Callable[[], Any]]) -> list[threading.Thread]:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def join_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join()


def in_threads(view: View, nodes: list[Node], around: Callable[[Callable[[], Any]], Any]) -> Any:
    """Run each node in a thread, inside `around`."""
    found: list[Any] = [None] * len(nodes)

    def call(at: int) -> None:
        own = view.branch()
        found[at] = around(lambda: run_node(own, nodes[at]))

    join_all(start_all([lambda at=at: call(at) for at in range(len(nodes))]))  # type: ignore[misc]
    return found


def threads(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    return in_threads(view, nodes, lambda call: call())


def locked(make: Callable[[], Any]) -> Callable[[View, int, int, list[Node]], Any]:
    def run(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
        lock, order = make(), []

        def around(call: Callable[[], Any]) -> Any:
            with lock:
                order.append(call())

        in_threads(view, nodes, around)
        return order

    return run


def barrier(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    meeting = threading.Barrier(len(nodes))

    def around(call: Callable[[], Any]) -> Any:
        meeting.wait()
        return call()

    return in_threads(view, nodes, around)


def pool(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    with ThreadPoolExecutor(amount) as executor:
        return list(executor.map(lambda node: run_node(view.branch(), node), nodes))


def completed_jobs(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    with ThreadPoolExecutor(amount) as executor:
        jobs = [executor.submit(run_node, view.branch(), node) for node in nodes]
        return [view.add(job.result()) for job in as_completed(jobs)]


def condition(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    changed, done = threading.Condition(), []

    def call(node: Node) -> None:
        value = run_node(view.branch(), node)
        with changed:
            done.append(value)
            changed.notify_all()

    started = start_all([lambda node=node: call(node) for node in nodes])  # type: ignore[misc]
    with changed:
        is_done = changed.wait_for(lambda: len(done) == len(nodes), timeout=None if amount == 1 else amount * 0.003)
    join_all(started)
    return [view.add(is_done), done]


def queued(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    jobs: queue.Queue[Node | None] = queue.Queue(maxsize=2)
    done: queue.Queue[Any] = queue.Queue()

    def serve() -> None:
        own = view.branch()
        while (node := jobs.get()) is not None:
            done.put(run_node(own, node))

    started = start_all([serve] * amount)
    for node in [*nodes, *[None] * amount]:
        jobs.put(node)
    join_all(started)
    return [view.add(done.get()) for _ in nodes]


def event(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    happened = threading.Event()
    own = [view.branch() for _ in nodes]

    def call(at: int) -> None:
        run_node(own[at], nodes[at])
        happened.set()

    started = start_all([lambda at=at: call(at) for at in range(len(nodes))])  # type: ignore[misc]
    view.add(happened.wait(timeout=amount * 0.002))
    join_all(started)
    return None


def timer_thread(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    found: list[Any] = []
    own = view.branch()
    timer = threading.Timer(amount * 0.001, lambda: found.append(run_node(own, nodes[0])))
    timer.start()
    first = ask(view, effects.compute_blocking, f"again {number}")
    timer.join()
    return [first, found]


def loop(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    from async_nodes import run_loop

    return run_loop(view, nodes[0])


def sequence(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    return [run_node(view, node) for node in nodes]


def child(view: View, number: int, amount: int, nodes: list[Node]) -> Any:
    from tree_agents import sync_child

    return view.add(sync_child(view.book, view.run, nodes))


BRANCHES: dict[str, Callable[[View, int, int, list[Node]], Any]] = {
    "threads": threads,
    "lock": locked(lambda: threading.Lock()),
    "reentrant lock": locked(lambda: threading.RLock()),
    "semaphore": locked(lambda: threading.Semaphore(1)),
    "barrier": barrier,
    "pool": pool,
    "completed jobs": completed_jobs,
    "condition": condition,
    "queue": queued,
    "event": event,
    "timer thread": timer_thread,
    "loop": loop,
    "sequence": sequence,
    "child": child,
}
