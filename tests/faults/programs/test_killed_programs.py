"""A program of twenty steps, killed by SIGKILL after each event on its record, and resumed: the server sees the same
requests, and the program prints the same, as without a kill."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import onrecord
from kit.life_server import LifeServer
from kit.numbered_server import Server
from kit.soak import SOAK
from onrecord.capture.program_task import VARIABLE, Program, ProgramTask
from onrecord.store.factory import open_store

PROGRAM = """
import sys, time, uuid, httpx
url = sys.argv[1]
with httpx.Client() as client:
    for step in range(20):
        if step % 4 == 3:
            said = client.post(f"{url}/echo", json={"step": step}).headers["x-number"]
        else:
            said = client.get(f"{url}/number?step={step}").json()["number"]
        print(step, said, len(uuid.uuid4().hex), flush=True)
print("end")
"""
IN_DOUBT = 6


class Lives:
    def __init__(self, lives: LifeServer, folder: Path, server: Server) -> None:
        self._lives, self._folder, self.server = lives, folder, server
        self.store = str(folder / "store.db")
        (folder / "program.py").write_text(PROGRAM)
        self._program = Program(path="program.py", args=(server.url,), cwd=str(folder), hash_seed=1)

    def live(self, run: str, mode: str, die_after: int | None = None) -> int:
        task = ProgramTask(program=self._program, run=run, mode=mode, store=f"sqlite:///{self.store}")  # type: ignore[arg-type]
        return self._lives.live(
            "run_program",
            ends=(0, -signal.SIGKILL, IN_DOUBT),
            run=run,
            task=task.to_environment()[VARIABLE],
            output=str(self._folder / "output"),
            problems=str(self._folder / "problems"),
            cwd=str(self._folder),
            die_after=die_after,
        )

    @property
    def output(self) -> str:
        return (self._folder / "output").read_text()

    @property
    def problems(self) -> str:
        return (self._folder / "problems").read_text()

    def events(self, run: str) -> int:
        store = open_store(self.store)
        try:
            assert onrecord.verify_run(store, run).valid, "what there is of it verifies"
            return onrecord.JournalReader(store, run).head().seq
        finally:
            store.close()

    def settle(self, run: str) -> None:
        """Have the effect in doubt executed: the server has not seen it."""
        store = open_store(self.store)
        try:
            onrecord.settle(store, run, decision="retry")
        finally:
            store.close()

    def to_the_end(self, run: str) -> None:
        for _ in range(3):
            status = self.live(run, "resume")
            if status != IN_DOUBT:
                break
            self.settle(run)
        assert status == 0, self.problems

    def begin_anew(self) -> None:
        self.server.numbers.clear()
        self.server.seen.clear()

    @property
    def ledger(self) -> list[tuple[str, str, bytes]]:
        return [(method, path, body) for method, path, _, body in self.server.seen]


@pytest.fixture
def lives(server: LifeServer, tmp_path: Path) -> Iterator[Lives]:
    numbered = Server()
    yield Lives(server, tmp_path, numbered)
    numbered.gate.set()
    numbered.stop()


def test_killed_after_each_event(lives: Lives) -> None:
    assert lives.live("whole", "record") == 0, lives.problems
    said, ledger, events = lives.output, lives.ledger, lives.events("whole")
    assert (len(ledger), said.count("\n")) == (20, 21)
    assert events >= 42
    for seq in range(1, events, 1 if SOAK else 7):
        run = f"killed-{seq}"
        lives.begin_anew()
        assert lives.live(run, "record", die_after=seq) == -9
        if lives.events(run) < events:  # otherwise its end was on record, and it had said everything
            lives.to_the_end(run)
        assert (lives.output, lives.ledger) == (said, ledger), f"killed after event {seq}"
    assert lives.live("killed-29", "replay") == 0, lives.problems
    assert lives.output == said


def test_one_run_killed_again_and_again(lives: Lives) -> None:
    assert lives.live("whole", "record") == 0, lives.problems
    said, ledger = lives.output, lives.ledger
    lives.begin_anew()
    status = lives.live("run", "record", die_after=2)
    deaths = 0
    while status == -9 and deaths < 100:
        deaths += 1
        status = lives.live("run", "resume", die_after=lives.events("run") + (3 if SOAK else 7))
        if status == IN_DOUBT:
            lives.settle("run")
            status = -9
    assert status == 0, lives.problems
    assert deaths > (10 if SOAK else 4)
    assert (lives.output, lives.ledger) == (said, ledger)
    assert lives.live("run", "replay") == 0, lives.problems
