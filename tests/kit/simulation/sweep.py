"""A thousand schedules at a time, each of another seed."""

from __future__ import annotations

import gc

import pytest

from kit.simulation.cases import make_case
from kit.simulation.life import Machine
from kit.simulation.schedules import Tally, run_schedule
from kit.simulation.shrinker import describe

CHUNK = 1_000


def sweep(chunk: int) -> None:
    """Run the schedules of a chunk, and check that each kind of thing happened in them."""
    tally = Tally()
    gc.disable()  # lanes of a run that has ended are collected between chunks
    try:
        for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
            case = make_case(seed)
            try:
                run_schedule(case, tally)
            except Exception:
                pytest.fail(describe(case, Machine()), pytrace=False)
    finally:
        gc.enable()
        gc.collect()
    # A simulation in which little happens tests little.
    for name in ("deaths", "resumes", "forks", "edits reported", "edits without a difference"):
        assert tally[name] > CHUNK / 20, name
    for name in ("in doubt", "resumes from a checkpoint", "settled retry", "settled done", "settled fail"):
        assert tally[name] > 0, name
    for name in ("accepted with drops", "resumes of accepted code"):
        assert tally[name] > 0, name
    assert tally["deadlocked programs"] < CHUNK / 20
