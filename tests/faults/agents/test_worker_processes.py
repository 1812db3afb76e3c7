"""Several workers on one Postgres, killed and stopped at random: never two hold a run at once, and all runs end."""

from __future__ import annotations

import signal
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from crash_programs import everything_agent, grown_child, long_step_agent, long_tool_agent
from crash_scene import Scene

from kit import crash_ledger
from kit.chance import repeatable, seeded
from kit.killed_runs import check_journals, settle_by_the_ledger
from kit.life_server import LifeServer, state_of
from kit.soak import SOAK, cases
from onrecord.core.events import TERMINAL_KINDS
from onrecord.journal.reader import JournalReader
from onrecord.store.factory import open_store

LEASE_SECONDS = 0.5
RUNS = 10 if SOAK else 4
SHOCKS = 240 if SOAK else 6
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


@pytest.mark.parametrize("count", cases([3], [2, 4, 8]))
def test_workers_that_are_killed_and_stopped(count: int, server: LifeServer, database_url: str, tmp_path: Path) -> None:
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

    with repeatable(workers=count):
        workers = [worker() for _ in range(count)]
        stopped: dict[int, float] = {}
        for shock in range(SHOCKS):
            time.sleep(rng.uniform(0.05, 0.25))
            for pid in [pid for pid, since in stopped.items() if time.monotonic() > since + 3 * LEASE_SECONDS]:
                server.signal(pid, signal.SIGCONT)
                del stopped[pid]
            victim = rng.choice(workers)
            if (shock % 2 == 0 if not SOAK else rng.random() < 0.5) and victim not in stopped:
                server.signal(victim, signal.SIGSTOP)
                stopped[victim] = time.monotonic()
            else:
                assert server.kill(victim) == -signal.SIGKILL, "a worker had ended by itself"
                stopped.pop(victim, None)
                workers[workers.index(victim)] = worker()
        if stopped:
            time.sleep(3 * LEASE_SECONDS)
        for pid in stopped:
            server.signal(pid, signal.SIGCONT)
        time.sleep(LEASE_SECONDS)  # what a zombie had begun comes to its end
        for pid in workers:
            assert server.kill(pid) == -signal.SIGKILL, "a worker had ended by itself"
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
            assert server.kill(pid) == -signal.SIGKILL, "a worker had ended by itself"
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
    """Return the pid of a life that was stopped during an effect, until its lease expired."""
    pid = scene.begin(lease_seconds=LEASE_SECONDS)
    scene.server.until(pid, f"{tag} is carried out", lambda: crash_ledger.done(scene.book, tag))
    scene.server.until(pid, "it can be stopped without the lock of the file", lambda: stopped_without_lock(scene, pid))
    with closing(open_store(scene.url)) as store:
        scene.server.until(pid, "the lease expires", lambda: store.holder("default", scene.run) is None)
    Path(f"{scene.book}.go").touch()
    return pid


def stopped_without_lock(scene: Scene, pid: int) -> bool:
    """It renews its lease now and then. Stopped in the middle of that it holds the lock of a file, which nobody can
    take away from it; a server ends what it was told to do."""
    scene.server.signal(pid, signal.SIGSTOP)
    scene.server.until(pid, "all threads stop", lambda: all_stopped(pid))
    if scene.url.startswith("postgres"):
        return True
    probe = apsw.Connection(scene.url)
    try:
        probe.execute("begin immediate; rollback")
        return True
    except apsw.BusyError:
        scene.server.signal(pid, signal.SIGCONT)
        return False
    finally:
        probe.close()


def all_stopped(pid: int) -> bool:
    return {state_of(pid, int(thread.name)) for thread in Path(f"/proc/{pid}/task").iterdir()} <= {"T"}


def test_a_zombie_cannot_record(server: LifeServer, url: str, tmp_path: Path) -> None:
    scene = Scene(server, url, tmp_path, long_step_agent.name, "run")
    zombie = stopped_in_the_middle(scene, "again long")
    heir = Scene(server, url, tmp_path, long_step_agent.name, "run")
    heir.out = tmp_path / "heir.json"
    heir.to_the_end()
    heir.check()
    with closing(open_store(url)) as store:
        before = JournalReader(store, "run").head()
    server.signal(zombie, signal.SIGCONT)
    server.wait(zombie)
    reported = scene.report()
    assert reported is not None
    assert reported["status"] in ("superseded", "closed_run"), reported
    with closing(open_store(url)) as store:
        assert JournalReader(store, "run").head() == before
    heir.check()


def test_a_zombie_cannot_record_what_was_settled_meanwhile(server: LifeServer, url: str, tmp_path: Path) -> None:
    """It is alive and its lease is free again: all the same, what it knows of the run is out of date."""
    scene = Scene(server, url, tmp_path, long_tool_agent.name, "run")
    zombie = stopped_in_the_middle(scene, "once long")
    heir = Scene(server, url, tmp_path, long_tool_agent.name, "run")
    heir.out = tmp_path / "heir.json"
    reported = heir.live()
    assert reported is not None
    assert reported["status"] == "in_doubt", reported
    heir.settle()
    server.signal(zombie, signal.SIGCONT)
    server.wait(zombie)
    late = scene.report()
    assert late is not None
    assert late["status"] == "superseded", late
    heir.to_the_end()
    heir.check()
