"""Random concurrent programs, one after the other with checkpoints in between, come back exactly: from the beginning
and from any of the checkpoints."""

from __future__ import annotations

from typing import Any

import pytest

import onrecord
from kit import random_programs
from kit.checkpoints import dies_at, is_sound, tick, ticks, without_snapshots
from kit.runtime import new_id, resume, run
from kit.soak import SOAK
from onrecord.errors import InvalidInput
from onrecord.store.memory import MemoryStore

RUNS, CHUNKS = (1_000, 4) if SOAK else (10, 1)  # ten: twice every step to die at
PROGRAMS = 3


@onrecord.agent
async def programs(seed: int) -> Any:
    state = onrecord.restored() or {"seen": [], "refused": 0}
    while len(state["seen"]) < PROGRAMS:
        program = random_programs.Program(PROGRAMS * seed + len(state["seen"]))
        found = await program.main()
        tick()
        state = {"seen": [*state["seen"], found], "refused": state["refused"]}
        try:
            onrecord.checkpoint(state)
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
        if seed % 3 == 2:
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
