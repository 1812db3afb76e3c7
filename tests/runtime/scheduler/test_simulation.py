"""The simulation itself: tolerant replays, long runs, and reports of failures."""

from __future__ import annotations

import random

import pytest

from kit.simulation.cases import make_case, make_plain_case
from kit.simulation.controls import kernel_with
from kit.simulation.interpreter import run_root
from kit.simulation.journal import Journal, place
from kit.simulation.life import Life, Machine
from kit.simulation.memory import Memory
from kit.simulation.outside import Ledger, Outside
from kit.simulation.programs import Node
from kit.simulation.render import render_program
from kit.simulation.schedules import Tally, run_schedule
from kit.simulation.shrinker import describe
from kit.soak import seeds
from onrecord.runtime.scheduler.live_side import CommitDraft
from onrecord.runtime.scheduler.window import Digest, digest_history


@pytest.mark.parametrize("chunk", seeds(2, 100))
def test_tolerant_replays(chunk: int) -> None:
    tally = Tally()
    for seed in range(chunk * 500, (chunk + 1) * 500):
        case = make_plain_case(seed)
        try:
            run_schedule(case, tally)
        except Exception:
            pytest.fail(describe(case, Machine()), pytrace=False)
    assert tally["tolerant replays"] > 400


def test_window_of_a_long_run_is_small() -> None:
    program = tuple(Node("effect", number) for number in range(2_000))
    journal = Journal()
    first = Life(run_root(Memory(False), program), Machine(), [], Digest(), _outside(), journal=journal)
    verdict = first.run()
    assert verdict.how == "done"
    history = place(journal.items)
    digest = digest_history(history, writable=False)
    replay = Life(run_root(Memory(False), program), Machine(), history, digest, _outside())
    assert replay.run() == verdict
    assert replay.seen == first.seen
    assert replay.peak < 50


def _outside() -> Outside:
    return Outside(random.Random(0), Ledger(), {})


def test_failure_prints_a_minimal_program() -> None:
    class Forgetful(CommitDraft):
        def take(self, *, sync=False):
            commit = super().take(sync=sync)
            return commit._replace(items=[item for item in commit.items if type(item).__name__ != "Turn"])

    machine = Machine(kernel_with(Forgetful))
    case = next(case for case in map(make_case, range(1_000)) if _fails(case, machine))
    report = describe(case, machine)
    assert f"seed {case.seed}: " in report
    assert "async def main():" in report
    code = report[report.index("import asyncio") :]
    compile(code, "minimal", "exec")
    assert len(code.splitlines()) < 60, report


def _fails(case, machine) -> bool:
    try:
        run_schedule(case, Tally(), machine)
    except Exception:
        return True
    return False


@pytest.mark.parametrize("seed", range(200))
def test_every_program_can_be_rendered(seed: int) -> None:
    case = make_case(seed)
    compile(render_program(case.program, sees_memory=case.sees_memory), "program", "exec")


def test_rendered_program_runs() -> None:
    program = (
        Node("gather", 1, 0, ((Node("effect", 2),), (Node("threads", 3, 0, ((Node("touch", 4),),)),))),
        Node("jobs", 5, 1, ((Node("draw", 6),), (Node("pipe", 7, 0, ((Node("effect", 8),),)),))),
    )
    names: dict = {"__name__": "program"}
    exec(compile(render_program(program, sees_memory=True), "program", "exec"), names)
    assert len(names["memory"]) == 4
