"""A process is killed around the transaction of a step: afterwards there is one row and one outcome, never two."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import transaction_lives
from transaction_lives import POINTS, STEPS

import onrecord
from kit.chance import repeatable, seeded
from kit.life_server import LifeServer, reported
from kit.soak import seeds
from onrecord.journal.verify import verify_run
from onrecord.store.factory import open_store

RUN = "run-1"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found = str(tmp_path / "store.db") if request.param == "sqlite" else request.getfixturevalue("database_url")
    with closing(open_store(found)) as store:
        with_table(store)
    return str(found)


def with_table(store: Any) -> None:
    @onrecord.step(transactional=True)
    def create(db: Any) -> None:
        db.execute("CREATE TABLE paid(what TEXT)")

    @onrecord.agent
    def creating() -> None:
        create()

    creating.run(store=store)


class Scene:
    """One run of one agent over one store."""

    def __init__(self, server: LifeServer, url: str, agent: str, folder: Path) -> None:
        self.server, self.url, self.agent = server, url, agent
        self.out = folder / "report"

    def begin(self, die_at: str | None = None) -> int:
        self.out.unlink(missing_ok=True)
        return self.server.begin("carry", url=self.url, agent=self.agent, run=RUN, out=str(self.out), die_at=die_at)

    def live(self, die_at: str | None = None) -> bool:
        """Return True if the life reached the end of the run, and False if it was killed."""
        status = self.server.wait(self.begin(die_at), ends=(0, -signal.SIGKILL))
        assert (status == 0) == self.out.exists()
        return status == 0

    def check(self) -> None:
        check(self.url, self.agent, reported(self.out))


def check(url: str, agent: str, result: list[int]) -> None:
    store: Any = open_store(url)
    assert sorted(result) == [1, 2, 3]
    seen: list[str] = []

    @onrecord.step(transactional=True)
    def look(db: Any) -> list[str]:
        return [row[0] for row in db.execute("SELECT what FROM paid ORDER BY what").fetchall()]

    @onrecord.agent
    def looking() -> None:
        seen.extend(look())

    looking.run(store=store)
    assert seen == [f"item {number}" for number in range(STEPS)]
    events = [one.event for one in onrecord.JournalReader(store, RUN).scan()]
    kinds = [event.kind for event in events]
    assert kinds.count("ActionRequested") == kinds.count("ActionSucceeded") == STEPS
    assert kinds[-1] == "Completed"
    assert verify_run(store, RUN).valid
    replayed = getattr(transaction_lives, agent).replay(RUN, store=store)
    if agent != "blocking_agent":
        replayed = asyncio.run(_awaited(replayed))
    assert replayed == result
    store.close()


async def _awaited(made: Any) -> Any:
    return await made


@pytest.fixture
def scene(server: LifeServer, url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Scene:
    return Scene(server, url, getattr(request, "param", "async_agent"), tmp_path)


@pytest.mark.parametrize("scene", ["blocking_agent", "async_agent", "gathering_agent"], indirect=True)
def test_killed_at_every_point(scene: Scene) -> None:
    """One life after another, each killed a point later than the one before, until one gets to the end."""
    kills = 0
    for point in POINTS:
        if scene.live(f"{point}:1"):  # everything had been done before
            break
        kills += 1
    else:
        assert scene.live()
    scene.check()
    assert kills >= 4


@pytest.mark.parametrize("point", ["linked:2", "committed:2", "rows:2", "handed:1"])
def test_killed_once_and_carried_on(scene: Scene, point: str) -> None:
    assert not scene.live(point)
    assert scene.live()
    scene.check()


@pytest.mark.parametrize("seed", seeds(1, 40))
@pytest.mark.parametrize("scene", ["gathering_agent"], indirect=True)
def test_killed_at_any_time(scene: Scene, seed: int) -> None:
    chance = seeded("transactions", seed)
    with repeatable(seed=seed):
        for _ in range(4):
            pid = scene.begin()
            time.sleep(chance.uniform(0, 0.08))
            scene.server.kill(pid)
        assert scene.live()
        scene.check()
