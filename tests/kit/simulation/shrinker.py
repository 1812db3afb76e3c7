"""Minimal cases: removes nodes and lives from a failing case while it still fails in the same way."""

from __future__ import annotations

from collections.abc import Iterator

from kit.simulation.cases import Case
from kit.simulation.life import Machine
from kit.simulation.outside import Wrong
from kit.simulation.programs import Node, Program
from kit.simulation.render import render_program
from kit.simulation.schedules import Tally, run_schedule

_MOST_RUNS = 6_000
_SEEDS = 12
"""Other latencies to try for each smaller case: with fewer nodes the same seed gives other ones."""


def find_failure(case: Case, machine: Machine) -> str | None:
    """Return the message of the failing case; None if it passes."""
    try:
        run_schedule(case, Tally(), machine)
    except Wrong as wrong:
        return str(wrong)
    except Exception as failure:  # a control may break the kernel in any way
        return f"{type(failure).__name__}: {failure}"
    return None


def shrink(case: Case, machine: Machine) -> Case:
    """Return the smallest case that was found to fail as this one does."""
    kind = _kind(find_failure(case, machine))
    runs, is_smaller = 0, True
    while is_smaller:
        is_smaller = False
        for smaller in _smaller_cases(case):
            for seed in (case.seed, *range(_SEEDS)):
                runs += 1
                candidate = smaller._replace(seed=seed)
                if _kind(find_failure(candidate, machine)) == kind:
                    case, is_smaller = candidate, True
                    break
                if runs > _MOST_RUNS:
                    return case
            if is_smaller:
                break
    return case


def describe(case: Case, machine: Machine) -> str:
    """Return a report of a failing case: its message, its minimal program and how to repeat it."""
    smallest = shrink(case, machine)
    lives = smallest._replace(program=())
    return "\n".join(
        (
            f"seed {case.seed}: {find_failure(case, machine)}",
            f"minimal: {find_failure(smallest, machine)}",
            f"repeat with run_schedule(make_case({case.seed}), Tally())",
            f"minimal program: {smallest.program}",
            f"with {lives}",
            "",
            render_program(smallest.program, sees_memory=smallest.sees_memory),
        )
    )


def _kind(message: str | None) -> str | None:
    return None if message is None else " ".join(message.split()[:2])


def _smaller_cases(case: Case) -> Iterator[Case]:
    for number in range(len(case.deaths)):
        yield case._replace(deaths=case.deaths[:number] + case.deaths[number + 1 :])
    for number in range(len(case.fork_deaths)):
        yield case._replace(fork_deaths=case.fork_deaths[:number] + case.fork_deaths[number + 1 :])
    for name in ("fork", "cut", "accept", "edit", "shift"):
        if getattr(case, name) is not None:
            yield case._replace(**{name: None})
    if case.is_cancelled:
        yield case._replace(is_cancelled=False)
    if case.sees_memory:
        yield case._replace(sees_memory=False)
    for program in _smaller_programs(case.program):
        yield case._replace(program=program)


def _smaller_programs(program: Program) -> Iterator[Program]:
    for number, node in enumerate(program):
        before, after = program[:number], program[number + 1 :]
        yield before + after
        for branch in node.branches:
            yield before + branch + after
        for smaller in _smaller_nodes(node):
            yield (*before, smaller, *after)


def _smaller_nodes(node: Node) -> Iterator[Node]:
    for number, branch in enumerate(node.branches):
        before, after = node.branches[:number], node.branches[number + 1 :]
        if before or after:
            yield node._replace(branches=before + after)
        for smaller in _smaller_programs(branch):
            if smaller:
                yield node._replace(branches=(*before, smaller, *after))
