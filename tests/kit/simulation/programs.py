"""Random programs as data: trees of nodes that can be printed, edited and shrunk."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Node(NamedTuple):
    """One statement of a program. `size` chooses its variant, `branches` are the bodies of the lanes it starts."""

    kind: str
    number: int
    size: int = 0
    branches: tuple[tuple[Node, ...], ...] = ()


Program = tuple[Node, ...]

EFFECTS = ("effect", "once", "own", "keyed", "failing", "blocking", "slow")
ACTING = (*EFFECTS, "note")
"""Kinds that make one recorded act: an edit of them is a divergence."""

_LOOP_LEAVES = (
    *("effect",) * 5,
    *("once", "own", "stream", "sleep", "touch") * 2,
    *("keyed", "failing", "blocking", "stray", "draw", "glance", "note", "yield", "compute", "measure", "slow"),
)
_THREAD_LEAVES = (
    *("effect",) * 5,
    *("once", "touch", "compute") * 2,
    *("own", "keyed", "failing", "sleep", "stray", "draw", "glance", "note", "stream", "measure", "slow"),
)
_LOOP_BRANCHES = (
    *("gather", "first", "threads", "jobs") * 4,
    *("group", "as_completed", "timeout", "cancel", "pipe", "lock", "condition", "late") * 2,
    "spin",  # takes the time of all the others
)
_THREAD_BRANCHES = ("threads", "jobs", "lock", "pipe", "condition", "poll")
_BUDGETS = (3, 5, 8, 12, 20)
_DEPTH = 3
THREADED = ("threads", "jobs")
"""Kinds whose branches run in threads."""


def make_program(rng: random.Random) -> Program:
    """Return a random program of up to about 20 nodes."""
    maker = _Maker(rng)
    program = [maker.node(in_thread=False, depth=0) for _ in range(1 + int(rng.random() * 4))]
    if rng.random() < 0.25:
        for place in range(len(program) - 1, 0, -1):
            program.insert(place, Node("checkpoint", -place))
    return tuple(program)


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._left = _pick(rng, _BUDGETS)
        self._number = 0

    def node(self, *, in_thread: bool, depth: int) -> Node:
        rng = self._rng
        self._left -= 1
        self._number += 1
        number, size = self._number, int(rng.random() * 5)
        if self._left <= 0 or depth > _DEPTH or rng.random() < 0.45 + 0.12 * depth:
            return Node(_pick(rng, _THREAD_LEAVES if in_thread else _LOOP_LEAVES), number, size)
        kind = _pick(rng, _THREAD_BRANCHES if in_thread else _LOOP_BRANCHES)
        below = in_thread or kind in THREADED
        branches = tuple(
            tuple(self.node(in_thread=below, depth=depth + 1) for _ in range(1 + int(rng.random() * 3)))
            for _ in range(1 + int(rng.random() * 3))
        )
        return Node(kind, number, size, branches)


def _pick(rng: random.Random, values: tuple[str, ...] | tuple[int, ...]) -> str | int:
    return values[int(rng.random() * len(values))]


def walk(program: Program) -> Iterator[Node]:
    """Yield every node, a parent before its branches."""
    for node in program:
        yield node
        for branch in node.branches:
            yield from walk(branch)


def change(program: Program, number: int, new: Callable[[Node], Program]) -> Program:
    """Return the program with the node of that number replaced by other nodes."""
    changed: list[Node] = []
    for node in program:
        if node.number == number:
            changed.extend(new(node))
        elif node.branches:
            changed.append(node._replace(branches=tuple(change(branch, number, new) for branch in node.branches)))
        else:
            changed.append(node)
    return tuple(changed)
