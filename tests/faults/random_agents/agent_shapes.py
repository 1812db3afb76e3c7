"""Shapes of random agents: a tree of nodes, made from a seed, as plain data.

A node is `[kind, number, amount, branches]`. Its number names its effects in the ledger. Kinds of leaves and of
branches are in `async_nodes` and `sync_nodes`.

A shape says how the nodes of a run are executed:

    memory        "shared": every lane reads and writes one list; "own": each lane has a list of its own
    checkpoints   one is taken after each node of the root
    fails         the agent ends with an error
    grace         seconds after which a strand is away
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

Node = list[Any]
Shape = dict[str, Any]

LEAVES_OF_THREADS = {
    "mail": 4,
    "compute": 4,
    "refused": 1,
    "flaky": 1,
    "pay": 2,
    "sleep": 2,
    "durable sleep": 1,
    "draw": 2,
    "state": 2,
    "wait": 1,
    "late wait": 1,
    "touch": 1,
    "work": 1,
}
_WAITS = ("durable sleep", "wait", "late wait")
LEAVES_OF_TASKS = {
    **{
        kind: weight for kind, weight in LEAVES_OF_THREADS.items() if kind not in ("durable sleep", "wait", "late wait")
    },
    "async mail": 5,
    "async compute": 5,
    "upsert": 2,
    "async refused": 1,
    "async flaky": 1,
    "hasty": 1,
    "async pay": 2,
    "async sleep": 3,
    "async durable sleep": 1,
    "async wait": 2,
    "first wait": 1,
    "async late wait": 1,
    "stream": 2,
    "left stream": 1,
    "keyed": 1,
    "yield": 1,
}
BRANCHES_OF_THREADS = {
    "threads": 3,
    "pool": 2,
    "completed jobs": 2,
    "lock": 2,
    "reentrant lock": 1,
    "condition": 2,
    "queue": 2,
    "event": 1,
    "barrier": 1,
    "semaphore": 1,
    "timer thread": 1,
    "loop": 2,
    "sequence": 2,
    "child": 1,
}
_CANCELLING = {"first": 2, "timeout": 2, "wait for": 2, "cancel": 2, "failing group": 2}
_CALM = {"to thread": 2, "threads of tasks": 2, "loop in a thread": 1, "shield": 1}
"""Not below a node that cancels: what these start may outlive it, and the agent too."""
BRANCHES_OF_TASKS = {
    "gather": 4,
    "group": 2,
    "as completed": 2,
    "async queue": 1,
    "async semaphore": 1,
    "async lock": 1,
    "async condition": 1,
    "timer": 1,
    "spin": 1,
    "pool of tasks": 2,
    "async sequence": 2,
    "async child": 2,
    "threads": 1,
    **_CANCELLING,
    **_CALM,
}
_OF_THREADS = {*BRANCHES_OF_THREADS, "to thread", "threads of tasks", "pool of tasks"} - {"loop"}
"""Kinds whose branches are executed by threads."""
_LONELY = {"loop", "loop in a thread", "shield", "spin", "timer thread", "child", "async child"}
"""Kinds with one branch."""


def make_shape(seed: int) -> Shape:
    """Return the shape of that seed."""
    rng = random.Random(seed)
    memory = rng.choice(("shared", "own"))
    grace = 5.0 if memory == "shared" else rng.choice((0.004, 0.05, 5.0))
    is_async = rng.random() < 0.75
    nodes = _Maker(rng).make_many(rng.randrange(1, 5), 0, is_async=is_async, is_calm=True)
    has_checkpoints = rng.random() < 0.25
    return {
        "is_async": is_async,
        "memory": memory,
        "checkpoints": has_checkpoints,
        "fails": rng.random() < 0.08,
        "grace": grace,
        "nodes": nodes,
    }


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._numbers = 0
        self._left = rng.choice((4, 8, 14, 24))

    def make_many(self, count: int, depth: int, *, is_async: bool, is_calm: bool) -> list[Node]:
        return [self._make(depth, is_async=is_async, is_calm=is_calm) for _ in range(count)]

    def _make(self, depth: int, *, is_async: bool, is_calm: bool) -> Node:
        rng = self._rng
        self._numbers += 1
        self._left -= 1
        number, amount = self._numbers, rng.randrange(1, 4)
        if self._left <= 0 or depth >= 3 or rng.random() < 0.25 + 0.15 * depth:
            return [_choose(rng, LEAVES_OF_TASKS if is_async else LEAVES_OF_THREADS), number, amount, []]
        kinds = BRANCHES_OF_TASKS if is_async else BRANCHES_OF_THREADS
        if not is_calm:
            kinds = {kind: weight for kind, weight in kinds.items() if kind not in _CALM}
        kind = _choose(rng, kinds)
        count = 1 if kind in _LONELY else rng.randrange(1, 4)
        is_calm = is_calm and kind not in _CANCELLING
        is_async = kind == "loop" or (is_async and kind not in _OF_THREADS)
        return [kind, number, amount, self.make_many(count, depth + 1, is_async=is_async, is_calm=is_calm)]


def _choose(rng: random.Random, weights: dict[str, int]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]


# Smaller shapes


def smaller_shapes(shape: Shape) -> Iterator[Shape]:
    """Yield shapes with a node or a property less."""
    for name in ("checkpoints", "fails"):
        if shape[name]:
            yield {**shape, name: False}
    if shape["memory"] == "shared":
        yield {**shape, "memory": "own"}
    for nodes in _smaller_lists(shape["nodes"], shape["is_async"], is_root=True):
        yield {**shape, "nodes": nodes}


def _smaller_lists(nodes: list[Node], is_async: bool, *, is_root: bool) -> Iterator[list[Node]]:
    for at, node in enumerate(nodes):
        before, after = nodes[:at], nodes[at + 1 :]
        if is_root or before or after:
            yield before + after
        kind, number, amount, branches = node
        is_async_below = kind == "loop" or (is_async and kind not in _OF_THREADS)
        if is_async_below == is_async:
            for branch in branches:
                yield [*before, branch, *after]
        for smaller in _smaller_lists(branches, is_async_below, is_root=False):
            yield [*before, [kind, number, amount, smaller], *after]


def render(shape: Shape) -> str:
    """Return the shape as an outline, a node a line."""
    properties = {name: value for name, value in shape.items() if name != "nodes"}
    return "\n".join([str(properties), *_outline(shape["nodes"], 1)])


def _outline(nodes: list[Node], depth: int) -> Iterator[str]:
    for kind, number, amount, branches in nodes:
        yield f"{'    ' * depth}{kind} ({number}, amount {amount})"
        yield from _outline(branches, depth + 1)
