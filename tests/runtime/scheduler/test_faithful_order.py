"""Random concurrent programs come back exactly: same result, same order of steps, nothing done again."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from effect import random_programs
from reenact.effect.agents import agent
from reenact.store.memory import MemoryStore

SCHEDULES = 20_000 if os.environ.get("REENACT_SOAK") else 1_000
CHUNKS = 20

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
