"""Processes killed at any time, also while they take over from a killed one: nothing happens twice, every run ends.

A round is one kill. `ONRECORD_SEED=n` repeats a failed test, `ONRECORD_SOAK=1` makes the rounds many more.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from crash_programs import KINDS, everything_agent
from crash_scene import Scene

from kit import crash_ledger
from kit.chance import repeatable, seeded
from kit.life_server import LifeServer
from kit.soak import SOAK, seeds

ROUNDS = 1_000 if SOAK else 12
"""Of each shard, on each kind of store."""
LARGEST_DELAY = 0.08
MOST_LIVES = 200


@pytest.mark.parametrize("shard", seeds(1, 5))
def test_killed_at_any_time(shard: int, server: LifeServer, url: str, tmp_path: Path) -> None:
    rng = seeded("kill", shard, url.startswith("postgres"))
    killed = runs = 0
    most_lives = 1
    while killed < ROUNDS:
        runs += 1
        agent = everything_agent if runs == 1 or rng.random() < 0.6 else rng.choice(KINDS)
        scene = Scene(server, url, tmp_path, agent.name, f"run-{runs}")
        with repeatable(shard=shard, run=runs, agent=agent.name, ledger=scene.book):
            # Some lives begin while the one before has hardly begun: then coming back is what is killed.
            patience = rng.choice((0.02, 0.04, LARGEST_DELAY))
            while True:
                pid = scene.begin()
                # The first run comes back twice at least: a life takes longer than that.
                time.sleep(rng.uniform(0, 0.01 if runs == 1 and scene.lives < 3 else patience))
                killed += server.kill(pid) == -signal.SIGKILL
                crash_ledger.check(scene.book)
                reported = scene.report()
                if reported is not None and reported["status"] == "completed":
                    break
                if reported is not None:
                    assert reported["status"] == "in_doubt", reported
                    # Tried again, it may be killed again; then it is in doubt again.
                    scene.settle(by_hand=rng.random() < 0.5)
                assert scene.lives < MOST_LIVES, reported
                if scene.lives % 8 == 0:
                    patience *= 2  # a life has to be long enough to come to something
            scene.check()
        most_lives = max(most_lives, scene.lives)
    assert most_lives > 2, "hardly anything was killed while it came back"
