"""A program of twenty steps, killed by SIGKILL after each event on its record, and resumed: what the world has seen and
what the program said are what they were without."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "http"))
from numbered_server import Server

import reenact
from reenact.capture.terms import VARIABLE, Program, Task
from reenact.store.opening import open_store

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
    def __init__(self, folder: Path, server: Server) -> None:
        self._folder = folder
        self.server = server
        self.store = str(folder / "store.db")
        (folder / "program.py").write_text(PROGRAM)
        self._program = Program(path="program.py", args=(server.url,), cwd=str(folder), hash_seed=1)
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("program_lives.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        assert self._said() == "ready"

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def live(self, run: str, mode: str, die_after: int | None = None) -> int:
        task = Task(program=self._program, run=run, mode=mode, store=f"sqlite:///{self.store}")  # type: ignore[arg-type]
        told = {
            "run": run,
            "task": task.to_environment()[VARIABLE],
            "die_after": die_after,
            "output": str(self._folder / "output"),
            "problems": str(self._folder / "problems"),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        return int(self._said())

    @property
    def output(self) -> str:
        return (self._folder / "output").read_text()

    @property
    def problems(self) -> str:
        return (self._folder / "problems").read_text()

    def events(self, run: str) -> int:
        store = open_store(self.store)
        try:
            assert reenact.verify_run(store, run).valid, "what there is of it verifies"
            return reenact.JournalReader(store, run).head().seq
        finally:
            store.close()

    def settle(self, run: str) -> None:
        """The ledger of the server says that it has not happened: an operator may have it done."""
        store = open_store(self.store)
        try:
            reenact.settle(store, run, decision="retry")
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

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lives]:
    monkeypatch.setenv("REENACT_KEY_FILE", str(tmp_path / "keys.json"))
    server = Server()
    made = Lives(tmp_path, server)
    yield made
    made.end()
    server.gate.set()
    server.stop()


def test_killed_after_each_event(lives: Lives) -> None:
    assert lives.live("whole", "record") == 0, lives.problems
    said, ledger, events = lives.output, lives.ledger, lives.events("whole")
    assert (len(ledger), said.count("\n")) == (20, 21)
    assert events >= 42
    for seq in range(1, events):
        run = f"killed-{seq}"
        lives.begin_anew()
        assert lives.live(run, "record", die_after=seq) == -9
        if lives.events(run) < events:  # otherwise its end was on record, and it had said everything
            lives.to_the_end(run)
        assert (lives.output, lives.ledger) == (said, ledger), f"killed after event {seq}"
    assert lives.live("killed-30", "replay") == 0, lives.problems
    assert lives.output == said


def test_one_run_killed_again_and_again(lives: Lives) -> None:
    assert lives.live("whole", "record") == 0, lives.problems
    said, ledger = lives.output, lives.ledger
    lives.begin_anew()
    status = lives.live("run", "record", die_after=2)
    deaths = 0
    while status == -9 and deaths < 100:
        deaths += 1
        status = lives.live("run", "resume", die_after=lives.events("run") + 3)
        if status == IN_DOUBT:
            lives.settle("run")
            status = -9
    assert status == 0, lives.problems
    assert deaths > 10
    assert (lives.output, lives.ledger) == (said, ledger)
    assert lives.live("run", "replay") == 0, lives.problems
