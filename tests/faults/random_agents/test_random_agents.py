"""Random agents whose process is killed at any moment, again while they resume: nothing is lost, nothing is repeated.

`ONRECORD_SEED=n` repeats a failed test, `ONRECORD_SOAK=1` makes the rounds many more.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kill_rounds import Rounds

from kit.chance import repeatable, seeded
from kit.life_server import LifeServer
from kit.soak import SOAK, seeds

ROUNDS = {"sqlite": 400 if SOAK else 24, "postgres": 100 if SOAK else 8}
"""Of each shard."""


@pytest.mark.parametrize("shard", seeds(1, 5))
def test_killed_random_agents_end_and_replay(shard: int, server: LifeServer, url: str, tmp_path: Path) -> None:
    kind = "postgres" if url.startswith("postgres") else "sqlite"
    rng, rounds = seeded("random agents", shard, kind), Rounds(server, url, tmp_path)
    with repeatable(shard=shard, store=kind):
        for _ in range(ROUNDS[kind]):
            rounds.run(rng.randrange(1 << 32))
    assert rounds.tally["resumed"] > 0, rounds.tally
    assert rounds.tally["killed"] > 3, rounds.tally
