"""Cases: a program and everything that is done to it, as data."""

from __future__ import annotations

import random
from typing import NamedTuple

from kit.simulation.journal import Death
from kit.simulation.programs import ACTING, Node, Program, make_program, walk


class Edit(NamedTuple):
    """A change of one node: `changed`, `removed`, `added` (another before it) or `appended` (after it).

    `drawn` and `undrawn` add or remove a draw that has no influence; `repeatable` changes only a policy. `renamed`
    gives other names to lanes.

    `slept` and `unslept` add or remove sleeps, `looked` and `known` acts that leave nothing in the record.
    """

    how: str
    number: int


_EDITS = (*("changed", "added", "removed") * 2, "appended", "drawn", "undrawn", "repeatable")

_SHIFTS = ("slept", "slept", "unslept", "unslept", "looked", "known")

_EDITED = {
    "undrawn": ("glance", "measure"),
    "appended": ("note",),
    "drawn": ("compute", "measure", "touch"),
    "repeatable": ("once",),
    "unslept": ("sleep",),
    "known": ("touch",),
}
"""Kinds of the nodes that are edited so; the others edit an act."""


_PLAIN = ("effect", "effect", "once", "own", "failing", "blocking", "yield")


class Case(NamedTuple):
    seed: int
    """Chooses all latencies and values."""
    program: Program
    sees_memory: bool = False
    deaths: tuple[Death | None, ...] = ()
    """Of the first life, the second and so on. Later lives do not die."""
    edit: Edit | None = None
    fork: float | None = None
    """The position of a fork, as a share of the journal."""
    fork_deaths: tuple[Death | None, ...] = ()
    cut: float | None = None
    """The position up to which the journal is replayed, as a share of it."""
    accept: float | None = None
    """The position from which the edited program continues, as a share of the journal."""
    is_cancelled: bool = False
    """An order to cancel the run comes from outside, unless the run ends before."""
    knows_begun: bool = False
    """It is known which effects were never begun: these are not in doubt."""
    shift: Edit | None = None
    """Another edit, of what is not compared."""


def make_case(seed: int) -> Case:
    rng = random.Random(seed)
    program = make_program(rng)
    return Case(
        seed,
        program,
        rng.random() < 0.6,
        _make_deaths(rng, 0.5),
        _make_edit(rng, program) if rng.random() < 0.4 else None,
        rng.random() if rng.random() < 0.25 else None,
        _make_deaths(rng, 0.3),
        rng.random() if rng.random() < 0.25 else None,
        rng.random() if rng.random() < 0.5 else None,
        rng.random() < 0.1,
        rng.random() < 0.3,
        _make_shift(random.Random(~seed), program),
    )


def _make_deaths(rng: random.Random, share: float) -> tuple[Death | None, ...]:
    deaths: list[Death | None] = []
    while rng.random() < share and len(deaths) < 6:
        how = ("after", "after", "after", "before", "before", "power")[int(rng.random() * 6)]
        deaths.append(Death(1 + int(rng.random() * rng.random() * 20), how))
        share = 0.65
    return tuple(deaths)


def make_plain_case(seed: int) -> Case:
    """Return a program that only asks, and whose lanes are renamed: only requests are known by the names of lanes."""
    rng = random.Random(seed)
    numbers = iter(range(1, 1_000))

    def make(depth: int) -> Node:
        if depth and (depth > 2 or rng.random() < 0.6):
            return Node(rng.choice(_PLAIN), next(numbers), rng.randrange(3))
        branches = tuple(tuple(make(depth + 1) for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 3)))
        return Node("gather", next(numbers), 0, branches)

    program = tuple(make(0) for _ in range(rng.randint(1, 2)))
    named = [node.number for node in walk(program) if node.kind == "gather"]
    return Case(seed, program, deaths=_make_deaths(rng, 0.3), edit=Edit("renamed", rng.choice(named)))


def _make_edit(rng: random.Random, program: Program) -> Edit | None:
    how = _EDITS[int(rng.random() * len(_EDITS))]
    kinds = _EDITED.get(how, ACTING)
    nodes = [node.number for node in walk(program) if node.kind in kinds]
    return Edit(how, nodes[int(rng.random() * len(nodes))]) if nodes else None


def _make_shift(rng: random.Random, program: Program) -> Edit | None:
    if rng.random() < 0.5:
        return None
    how = rng.choice(_SHIFTS)
    kinds = _EDITED.get(how)
    nodes = [node.number for node in walk(program) if node.kind != "checkpoint" and (not kinds or node.kind in kinds)]
    return Edit(how, rng.choice(nodes)) if nodes else None
