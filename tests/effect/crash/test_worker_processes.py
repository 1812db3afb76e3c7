"""Several workers on one Postgres, killed and stopped at random: never two hold a run at once, and all runs end."""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import crash_ledger
import pytest
from crash_programs import everything_agent, grown_child, long_step_agent, long_tool_agent
from crash_scene import SOAK, ForkServer, Scene, check_journals, seeded, settle_by_the_ledger, told

from reenact.core.events import TERMINAL_KINDS
from reenact.journal.reader import JournalReader
from reenact.store.opening import open_store

pytestmark = pytest.mark.skipif(
    not os.environ.get("REENACT_SOAK"),
    reason="kills whole processes by the clock and is not yet steady on a busy machine: `make soak` runs it",
)

LEASE_SECONDS = 0.5
RUNS = 10
SHOCKS = 12 * SOAK
BEGUN = 4
"""The point at which a run is on record and held, and nothing else has happened."""
HANG_SECONDS = 80


def begun(scenes: list[Scene]) -> None:
    for scene in scenes:
        assert scene.live(BEGUN) is None


def all_ended(url: str, scenes: list[Scene]) -> bool:
    with closing(open_store(url)) as store:
        rows = [store.run_row("default", scene.run) for scene in scenes]
    return all(row is not None and row.last is not None and row.last.kind in TERMINAL_KINDS for row in rows)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_workers_that_are_killed_and_stopped(count: int, server: ForkServer, database_url: str, tmp_path: Path) -> None:
    rng, claims = seeded("workers", count), str(tmp_path / "claims")
    scenes = [Scene(server, database_url, tmp_path, everything_agent.name, f"run-{n}") for n in range(RUNS)]
    begun(scenes)

    def worker(lease_seconds: float = LEASE_SECONDS) -> int:
        agents = [everything_agent.name, grown_child.name]
        return server.begin(
            "work_for_all",
            url=database_url,
            agents=agents,
            claims=claims,
            lease_seconds=lease_seconds,
            pace_seconds=0.02,
        )

    with told(workers=count):
        workers = [worker() for _ in range(count)]
        stopped: dict[int, float] = {}
        for _ in range(SHOCKS):
            time.sleep(rng.uniform(0.05, 0.25))
            for pid in [pid for pid, since in stopped.items() if time.monotonic() > since + 3 * LEASE_SECONDS]:
                os.kill(pid, signal.SIGCONT)
                del stopped[pid]
            victim = rng.choice(workers)
            if rng.random() < 0.5 and victim not in stopped:
                os.kill(victim, signal.SIGSTOP)
                stopped[victim] = time.monotonic()
            else:
                os.kill(victim, signal.SIGKILL)
                server.wait(victim)
                stopped.pop(victim, None)
                workers[workers.index(victim)] = worker()
        if stopped:
            time.sleep(3 * LEASE_SECONDS)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        time.sleep(LEASE_SECONDS)  # what a zombie had begun comes to its end
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
            server.wait(pid)
        # Nothing is under way any more, so the ledger tells what has become of everything in doubt.
        with closing(open_store(database_url)) as store:
            for scene in scenes:
                settle_by_the_ledger(store, scene.run, scene.book)
        # On a busy machine a short lease may be lost again, and nobody settles what is in doubt then.
        workers = [worker(lease_seconds=30) for _ in range(count)]
        until = time.monotonic() + HANG_SECONDS
        while not all_ended(database_url, scenes) and time.monotonic() < until:
            time.sleep(0.05)
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
            server.wait(pid)
        with closing(open_store(database_url)) as store:
            for scene in scenes:
                crash_ledger.check(scene.book)
                check_journals(store, scene.run)
        holders: dict[tuple[str, int], set[int]] = defaultdict(set)
        for claim in crash_ledger.read(claims):
            holders[claim.tag, claim.value].add(claim.more)
        assert holders
        assert all(len(pids) == 1 for pids in holders.values()), "two processes held the same epoch of a run"


def stopped_in_the_middle(scene: Scene, tag: str) -> int:
    """A life that was stopped for three lease times while it carried an effect out."""
    pid = scene.begin(lease_seconds=LEASE_SECONDS)
    while not crash_ledger.done(scene.book, tag):
        time.sleep(0.01)
    time.sleep(0.2)  # not while it holds the lock of the file, which nobody can take away from it
    os.kill(pid, signal.SIGSTOP)
    time.sleep(3 * LEASE_SECONDS)
    Path(f"{scene.book}.go").touch()
    return pid


def test_a_zombie_cannot_record(server: ForkServer, url: str, tmp_path: Path) -> None:
    scene = Scene(server, url, tmp_path, long_step_agent.name, "run")
    zombie = stopped_in_the_middle(scene, "again long")
    heir = Scene(server, url, tmp_path, long_step_agent.name, "run")
    heir.out = tmp_path / "heir.json"
    heir.to_the_end()
    heir.check()
    with closing(open_store(url)) as store:
        before = JournalReader(store, "run").head()
    os.kill(zombie, signal.SIGCONT)
    server.wait(zombie)
    reported = scene.told()
    assert reported is not None
    assert reported["status"] in ("superseded", "closed_run"), reported
    with closing(open_store(url)) as store:
        assert JournalReader(store, "run").head() == before
    heir.check()


def test_a_zombie_cannot_record_what_was_settled_meanwhile(server: ForkServer, url: str, tmp_path: Path) -> None:
    """It is alive and its lease is free again: all the same, what it knows of the run is out of date."""
    scene = Scene(server, url, tmp_path, long_tool_agent.name, "run")
    zombie = stopped_in_the_middle(scene, "once long")
    heir = Scene(server, url, tmp_path, long_tool_agent.name, "run")
    heir.out = tmp_path / "heir.json"
    reported = heir.live()
    assert reported is not None
    assert reported["status"] == "in_doubt", reported
    heir.settle()
    os.kill(zombie, signal.SIGCONT)
    server.wait(zombie)
    late = scene.told()
    assert late is not None
    assert late["status"] == "superseded", late
    heir.to_the_end()
    heir.check()
