"""Random concurrent programs replay exactly: same result, same order of steps, no effect executed again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kit import random_programs
from kit.soak import SOAK
from onrecord.runtime.api.agent import agent
from onrecord.store.memory import MemoryStore

SCHEDULES, CHUNKS = (20_000, 20) if SOAK else (60, 2)

store = MemoryStore()


@agent(store=store)
async def program(seed: int) -> Any:
    return await random_programs.Program(seed, slow=True).main()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_replay_equals_its_record(chunk: int) -> None:
    for seed in range(chunk, SCHEDULES, CHUNKS):
        recorded = asyncio.run(program.run(seed, run_id=f"schedule-{seed}"))
        before = random_programs.live_calls
        again = asyncio.run(program.replay(f"schedule-{seed}"))
        assert again == recorded
        assert random_programs.live_calls == before
