"""A process is killed around the transaction of a step: afterwards there is one row and one outcome, never two."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.journal.verify import verify_run
from reenact.store.opening import open_store

sys.path.insert(0, str(Path(__file__).resolve().parent))
import transaction_life
from transaction_life import POINTS, STEPS

LIFE = Path(__file__).with_name("transaction_life.py")
SECONDS = 50
RUN = "run-1"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found = str(tmp_path / "store.db") if request.param == "sqlite" else request.getfixturevalue("database_url")
    store: Any = open_store(found)
    with_table(store)
    store.close()
    return str(found)


def with_table(store: Any) -> None:
    @reenact.step(transactional=True)
    def create(db: Any) -> None:
        db.execute("CREATE TABLE paid(what TEXT)")

    @reenact.agent
    def creating() -> None:
        create()

    creating.run(store=store)


def live(url: str, agent: str, *point: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(LIFE), url, agent, RUN, *point]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def check(url: str, agent: str, told: str) -> None:
    store: Any = open_store(url)
    assert sorted(json.loads(told)) == [1, 2, 3]
    seen: list[str] = []

    @reenact.step(transactional=True)
    def look(db: Any) -> list[str]:
        return [row[0] for row in db.execute("SELECT what FROM paid ORDER BY what").fetchall()]

    @reenact.agent
    def looking() -> None:
        seen.extend(look())

    looking.run(store=store)
    assert seen == [f"item {number}" for number in range(STEPS)]
    events = [one.event for one in reenact.JournalReader(store, RUN).scan()]
    kinds = [event.kind for event in events]
    assert kinds.count("ActionRequested") == kinds.count("ActionSucceeded") == STEPS
    assert kinds[-1] == "Completed"
    assert verify_run(store, RUN).valid
    replayed = getattr(transaction_life, agent).replay(RUN, store=store)
    if agent != "blocking_agent":
        replayed = asyncio.run(_awaited(replayed))
    assert replayed == json.loads(told)
    store.close()


async def _awaited(made: Any) -> Any:
    return await made


@pytest.mark.parametrize("agent", ["blocking_agent", "async_agent", "gathering_agent"])
def test_killed_at_every_point(url: str, agent: str) -> None:
    """One life after another, each killed a point later than the one before, until one gets to the end."""
    kills = 0
    for point in POINTS:
        died = live(url, agent, f"{point}:1")
        if died.returncode == 0:  # everything had been done before
            check(url, agent, died.stdout)
            break
        assert died.returncode == -signal.SIGKILL, died.stderr
        kills += 1
    else:
        done = live(url, agent)
        assert done.returncode == 0, done.stderr
        check(url, agent, done.stdout)
    assert kills >= 4


@pytest.mark.parametrize("point", ["linked:2", "committed:2", "rows:2", "handed:1"])
def test_killed_once_and_carried_on(url: str, point: str) -> None:
    died = live(url, "async_agent", point)
    assert died.returncode == -signal.SIGKILL, died.stderr
    done = live(url, "async_agent")
    assert done.returncode == 0, done.stderr
    check(url, "async_agent", done.stdout)


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_time(url: str, seed: int) -> None:
    chance = random.Random(f"transactions/{os.environ.get('REENACT_SEED', '')}/{seed}")
    for _ in range(4):
        child = subprocess.Popen(
            [sys.executable, str(LIFE), url, "gathering_agent", RUN],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(chance.uniform(0.2, 0.8))
        child.kill()
        child.wait(SECONDS)
    done = live(url, "gathering_agent")
    assert done.returncode == 0, done.stderr
    check(url, "gathering_agent", done.stdout)
