"""Random concurrent programs, one after the other with checkpoints in between, come back exactly: from the beginning
and from any of the checkpoints."""

from __future__ import annotations

import os
from typing import Any

import pytest
from checkpoint_support import dies_at, is_sound, new_id, resume, run, tick, ticks, without_snapshots

import reenact
from effect import random_programs
from reenact.errors import InvalidInput
from reenact.store.memory import MemoryStore

RUNS = 1_000 if os.environ.get("REENACT_SOAK") else 48
CHUNKS = 4
PROGRAMS = 3


@reenact.agent
async def programs(seed: int) -> Any:
    state = reenact.restored() or {"seen": [], "refused": 0}
    while len(state["seen"]) < PROGRAMS:
        program = random_programs.Program(PROGRAMS * seed + len(state["seen"]))
        found = await program.main()
        tick()
        state = {"seen": [*state["seen"], found], "refused": state["refused"]}
        try:
            reenact.checkpoint(state)
        except InvalidInput as refusal:
            assert refusal.code == "checkpoint_not_alone"  # noqa: PT017
            state["refused"] += 1
        tick()
    return state


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_programs_with_checkpoints_in_between(chunk: int) -> None:
    store, refused = MemoryStore(), 0
    for seed in range(chunk, RUNS, CHUNKS):
        run_id = new_id()
        ticks[0], dies_at[0] = 0, 1 + seed % (2 * PROGRAMS - 1)
        with pytest.raises(SystemExit):
            run(programs, seed, store=store, run_id=run_id)
        if seed % 5 == 4:
            without_snapshots(store, run_id)
        dies_at[0] = ticks[0] + 1  # the record behind the checkpoint has been used up, or the next program is over
        with pytest.raises(SystemExit):
            resume(programs, run_id, store=store)
        dies_at[0] = 0
        result = resume(programs, run_id, store=store)
        calls = random_programs.live_calls
        assert is_sound(programs, run_id, result, store)
        assert random_programs.live_calls == calls
        refused += result["refused"]
    assert refused < RUNS // CHUNKS, "most of them leave nothing under way"
