"""Due times outlive the process, and what is said while nobody runs is heard.

The clock of a later life is put forward, so that nothing here takes long: the agents sleep and wait for 3,000 seconds.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from crash_programs import long_blocking_sleep_agent, long_blocking_wait_agent, long_sleep_agent, long_wait_agent
from crash_scene import Scene

from kit import crash_ledger
from kit.life_server import LifeServer
from kit.soak import cases
from onrecord.core.wait_keys import Resolution, WaitIdentity
from onrecord.journal.reader import JournalReader
from onrecord.runtime.waits import WaitRegistry
from onrecord.store.contract import Store
from onrecord.store.factory import open_store

SLEEPS = [long_sleep_agent.name, long_blocking_sleep_agent.name]
WAITS = [long_wait_agent.name, long_blocking_wait_agent.name]


def killed_once_it_waits(scene: Scene, clock_ahead: float = 0) -> None:
    pid = scene.begin(clock_ahead=clock_ahead)
    with closing(open_store(scene.url)) as store:
        scene.server.until(pid, "it comes to wait", lambda: requests(scene, store) == 2)
    scene.server.kill(pid)
    assert scene.report() is None
    assert crash_ledger.done(scene.book, "once 2") == []


def requests(scene: Scene, store: Store) -> int:
    if store.run_row("default", scene.run) is None:
        return 0
    kinds = [event.kind for event in JournalReader(store, scene.run).scan()]
    return kinds.count("ActionRequested") + kinds.count("WaitCreated")


STORES = ("sqlite", "postgres")
DUE = cases(
    [*((agent, "sqlite") for agent in (*SLEEPS, *WAITS)), (SLEEPS[0], "postgres")],
    [(agent, "postgres") for agent in (*SLEEPS, *WAITS)],
)
ANSWERED = cases(
    [(WAITS[0], 0, "sqlite"), (WAITS[1], 5_000, "sqlite"), (WAITS[0], 5_000, "postgres")],
    [(agent, clock_ahead, url) for agent in WAITS for clock_ahead in (0, 5_000) for url in STORES],
)


@pytest.mark.parametrize(("agent", "url"), DUE, indirect=["url"])
def test_a_due_time_outlives_the_process(agent: str, server: LifeServer, url: str, tmp_path: Path) -> None:
    scene = Scene(server, url, tmp_path, agent, "run")
    killed_once_it_waits(scene)
    killed_once_it_waits(scene, clock_ahead=2_000)  # not due yet, and not any later for having been waited for again
    reported = scene.live(clock_ahead=2_999.9)  # waits for the rest of it, not for 3,000 seconds more
    assert reported is not None
    assert reported["status"] == "completed", reported
    with closing(open_store(url)) as store:
        assert requests(scene, store) == 3, "the sleep or wait was asked for once"
    if agent in WAITS:
        assert reported["result"][1] == "late"
    scene.check()


@pytest.mark.parametrize(("agent", "clock_ahead", "url"), ANSWERED, indirect=["url"])
def test_a_word_that_came_while_nobody_ran(
    agent: str, clock_ahead: float, server: LifeServer, url: str, tmp_path: Path
) -> None:
    """Also after the deadline: nobody had looked at the clock before it came."""
    scene = Scene(server, url, tmp_path, agent, "run")
    killed_once_it_waits(scene)
    with closing(open_store(url)) as store:
        desk = WaitRegistry(store)
        outcome = desk.resolve(desk.key("run", WaitIdentity.named("approval", 1)), Resolution.ok({"by": "Ann"}))
        assert outcome.status == "accepted"
    reported = scene.live(clock_ahead=clock_ahead)
    assert reported is not None
    assert reported["status"] == "completed", reported
    assert reported["result"][1] == {"by": "Ann"}
    scene.check()
