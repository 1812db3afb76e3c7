"""SIGKILL at any time: what was acknowledged is there, the rest is whole or absent, and the run goes on at once.

Only the process dies here, so events appended with sync=False count as much as synced ones.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.chance import repeatable, seeded
from kit.children import Child, Pipe, no_hanging
from kit.soak import SOAK, seeds
from kit.store_writers import Agent, check_acknowledged, check_crash_site, check_valid, open_run
from onrecord.store.sqlite.store import SqliteStore

ROUNDS = 2_500 if SOAK else 16
ROUNDS_OF_A_RUN = 20 if SOAK else 8
LARGEST_DELAY = 0.015
GROUP_ROUNDS = 240 if SOAK else 4
WRITERS = 3


def writing(path: Path, run: str, seed: tuple[object, ...]) -> Callable[[Pipe, Callable[[], bool]], None]:
    """Return the work of a child: it writes until it is stopped or killed."""

    def work(pipe: Pipe, stopped: Callable[[], bool]) -> None:
        store = SqliteStore(path)
        journal = open_run(store, run)
        pipe.ready()
        agent = Agent(journal, seeded(*seed), pipe.ack)
        while not stopped():
            agent.step()
        journal.release()
        store.close()

    return work


def acknowledged_by(child: Child, *, killed: bool) -> dict[int, bytes]:
    status, acked, error = child.end()
    assert error == ""
    assert status == (-signal.SIGKILL if killed else 0)
    return dict(acked)


@pytest.mark.parametrize("shard", seeds(1, 8))
def test_a_killed_writer_loses_nothing(tmp_path: Path, shard: int) -> None:
    rng = seeded("kill", shard)
    path = tmp_path / "store.db"
    acked: dict[int, bytes] = {}
    total = productive = 0
    largest_delay = LARGEST_DELAY
    for number in range(ROUNDS):
        run = f"run-{number // ROUNDS_OF_A_RUN}"
        if number % ROUNDS_OF_A_RUN == 0:
            acked = {}
        with repeatable(shard=shard, round=number), no_hanging():
            child = Child(writing(path, run, ("kill", shard, number)))
            # Otherwise also while it is made, opened and recovered.
            if number % 2:
                child.wait_acknowledged()
            elif rng.random() < 0.7:
                child.wait_ready()
            time.sleep(rng.uniform(0, largest_delay))
            child.kill()
            fresh = acknowledged_by(child, killed=True)
            total += len(fresh)
            productive += bool(fresh)
            # On a busy machine a child needs longer to come to anything.
            largest_delay = max(LARGEST_DELAY, largest_delay * 0.9) if fresh else min(0.5, largest_delay * 1.3)
            acked.update(fresh)
            if rng.random() < 0.6:
                check_crash_site(path, {run: acked}, deep=number % 10 == 0)
            elif path.exists() and path.stat().st_size and acked:
                # Looked at and left: the next child takes over from the dead one itself.
                store = SqliteStore(path, read_only=True)
                check_acknowledged(store, run, acked)
                check_valid(store, run)
                store.close()
    assert productive > ROUNDS // 4, "hardly any round acknowledged anything: the kills come too early"
    assert total > ROUNDS


@pytest.mark.parametrize("shard", seeds(1, 4))
def test_one_of_several_writers_is_killed(tmp_path: Path, shard: int) -> None:
    """Different runs, one file: the others neither stop nor fail, and lose as little."""
    rng = seeded("group", shard)
    path = tmp_path / "store.db"
    runs: dict[str, dict[int, bytes]] = {f"w{number}": {} for number in range(WRITERS)}
    SqliteStore(path).close()
    for number in range(GROUP_ROUNDS):
        with repeatable(shard=shard, round=number), no_hanging():
            children = {run: Child(writing(path, run, ("group", shard, number, run))) for run in runs}
            for child in children.values():
                child.wait_acknowledged() if number % 4 == 3 else child.wait_ready()
            victims = rng.sample(sorted(children), rng.choice((1, 1, 1, 2, WRITERS)))
            time.sleep(rng.uniform(0, LARGEST_DELAY))
            for run in victims:
                children[run].kill()
            time.sleep(0.003)
            survivors = [run for run in children if run not in victims]
            for run in survivors:
                children[run].stop()
            for run, child in children.items():
                runs[run].update(acknowledged_by(child, killed=run in victims))
            check_crash_site(path, runs, deep=number == GROUP_ROUNDS - 1)
    assert all(len(acked) > GROUP_ROUNDS for acked in runs.values())


def test_the_check_can_fail(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    child = Child(writing(path, "r", ("check",)))
    child.wait_acknowledged()
    child.kill()
    acked = acknowledged_by(child, killed=True)
    last = max(acked)
    with pytest.raises(AssertionError, match="acknowledged and gone"):
        check_crash_site(path, {"r": {**acked, last + 1000: bytes(32)}})
    with pytest.raises(AssertionError, match="another hash"):
        check_crash_site(path, {"r": {**acked, last: bytes(32)}})
    check_crash_site(path, {"r": acked})
