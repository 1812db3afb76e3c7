"""A run that is killed and goes on until it ends, and what must hold then."""

from __future__ import annotations

import hashlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import crash_ledger
from fork_server import HANG_SECONDS

from reenact.effect.settling import in_doubt, settle
from reenact.journal.reader import JournalReader
from reenact.journal.verify import verify_run
from reenact.store.contract import Store
from reenact.store.opening import open_store

HERE = Path(__file__).resolve().parent
SOAK = 20 if os.environ.get("REENACT_SOAK") else 1
SEED = int(os.environ.get("REENACT_SEED") or random.SystemRandom().randrange(1 << 32))
MOST_LIVES = 60
PATIENCE_SECONDS = 60.0
"""For anything that takes a moment: the machine may be busy with something else."""


def seeded(*names: object) -> random.Random:
    return random.Random("/".join(map(str, (SEED, *names))))


class ForkServer:
    """Serves test after test; each says in which folder it is."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path()

    def serve_in(self, folder: Path) -> None:
        self._folder = folder
        if self._process is not None:
            return
        places = [*filter(None, [os.environ.get("PYTHONPATH")]), str(HERE), str(HERE.parents[1]), str(HERE.parents[2])]
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", str(HERE / "fork_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
            start_new_session=True,
        )

    def _ask(self, *command: Any, seconds: float = PATIENCE_SECONDS) -> Any:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(command).encode() + b"\n")
        came, _, _ = select.select([process.stdout], [], [], seconds)
        answer = process.stdout.readline() if came else b""
        if not answer:
            self.close()
            how = f"ended with {process.wait()}" if came else f"did not answer within {seconds:g} seconds"
            raise AssertionError(f"the fork server {how}, asked for {command[:2]}: {self.said()}")
        return json.loads(answer)

    def end_all(self) -> None:
        if self._process is not None:
            self._ask("end_all")

    def begin(self, work: str, **options: Any) -> int:
        pid: int = self._ask("begin", work, options, str(self._folder))
        return pid

    def signal(self, pid: int, number: int) -> bool:
        """False: the process was over already."""
        lived: bool = self._ask("signal", pid, number)
        return lived

    def wait(self, pid: int, seconds: float = HANG_SECONDS + 30) -> int:
        """The exit status; negative: the signal that ended it."""
        status: int | None = self._ask("wait", pid, seconds, seconds=seconds + PATIENCE_SECONDS)
        if status not in (0, -signal.SIGKILL, -signal.SIGTERM, 130, 143):
            how = f"ended with {status}" if status is not None else f"does not end ({state_of(pid)})"
            raise AssertionError(f"a process {how}: {self.said()}")
        return status

    def kill(self, pid: int) -> int:
        self.signal(pid, signal.SIGKILL)
        return self.wait(pid)

    def said(self) -> str:
        """What the processes had to say about what went wrong."""
        errors = self._folder / "errors.txt"
        return errors.read_text()[-6000:] if errors.exists() else ""

    def until(self, pid: int, what: str, holds: Callable[[], object]) -> None:
        """Waits for something that the process does in its life."""
        until = time.monotonic() + PATIENCE_SECONDS
        state = state_of(pid)
        while not holds():
            assert state not in ("Z", ""), f"{what}: the process is over. {self.said()}"
            assert time.monotonic() < until, f"{what}: not within {PATIENCE_SECONDS} s ({state}). {self.said()}"
            time.sleep(0.003)
            state = state_of(pid)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()  # it kills whatever lives, and ends
        try:
            process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def state_of(pid: int, thread: int | None = None) -> str:
    """As the kernel calls it: R, S, D, T, Z; empty when there is no such process any more."""
    try:
        text = Path(f"/proc/{pid}/task/{thread or pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return text.rpartition(")")[2].split()[0]


def stands_still(pid: int) -> bool:
    """The first thread of the process sleeps, and has not been awake for a while."""

    def moved() -> list[str]:
        lines = Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines()
        return [line for line in lines if "ctxt_switches" in line]

    before = moved()
    time.sleep(0.03)
    return state_of(pid) == "S" and moved() == before


@contextmanager
def told(**where: object) -> Iterator[None]:
    """Adds to any failure what is needed to repeat it."""
    try:
        yield
    except BaseException as failure:
        failure.add_note(f"REENACT_SEED={SEED} repeats this; {where}")
        raise


class Scene:
    """One run of one agent over one store."""

    def __init__(self, server: ForkServer, url: str, folder: Path, agent: str, run: str) -> None:
        self.server, self.url, self.agent, self.run = server, url, agent, run
        self.book = str(folder / f"{run}.ledger")
        self.out = folder / f"{run}.json"
        self.lives = 0

    def begin(self, die_at: int | None = None, work: str = "carry", **more: Any) -> int:
        """A life of the process that carries the run."""
        self.lives += 1
        self.out.unlink(missing_ok=True)
        options = {"url": self.url, "agent": self.agent, "run": self.run, "book": self.book, "out": str(self.out)}
        return self.server.begin(work, **options, die_at=die_at, **more)

    def live(self, die_at: int | None = None, **more: Any) -> dict[str, Any] | None:
        """A life to its end. What it told; None when it was killed before."""
        self.server.wait(self.begin(die_at, **more))
        return self.told()

    def told(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = json.loads(self.out.read_text()) if self.out.exists() else None
        return found

    def settle(self, *, by_hand: bool = False) -> None:
        with closing(open_store(self.url)) as store:
            settle_by_the_ledger(store, self.run, self.book, by_hand=by_hand)

    def to_the_end(self) -> Any:
        """Goes on until the run has ended; what came of it."""
        for _ in range(MOST_LIVES):
            told_now = self.live()
            assert told_now is not None
            if told_now["status"] == "completed":
                return told_now["result"]
            assert told_now["status"] == "in_doubt", told_now
            self.settle()
        raise AssertionError(f"run {self.run} does not come to its end: {told_now}")

    def check(self) -> None:
        """Everything that must hold once the run has ended."""
        told_last = self.told()
        assert told_last is not None
        assert told_last["status"] == "completed", told_last
        assert told_last["again"] == {"status": "completed", "result": told_last["result"]}
        assert told_last["redone"] == [], "a replay did something"
        crash_ledger.check(self.book)
        with closing(open_store(self.url)) as store:
            check_journals(store, self.run)


def settle_by_the_ledger(store: Store, run: str, book: str, *, by_hand: bool = False) -> None:
    """As an operator does who looks what has happened, of the run and of the runs that it began. What has not happened
    is to be tried again, or was done by hand meanwhile."""
    for one in [run, *children_of(store, run)]:
        for doubt in in_doubt(store, one):
            request = JournalReader(store, one).event(doubt.seq).event
            if not (request.meta or {}).get("once") or doubt.settled is not None:
                continue
            tag = request.payload["tag"]
            if by_hand and not crash_ledger.done(book, tag):
                key = f"{one}/{request.action_id}"
                crash_ledger.write(book, "did", tag, "by hand", [request.payload.get("given"), key])
            found = crash_ledger.done(book, tag)
            if not found:
                settle(store, one, doubt.seq, decision="retry")
            elif request.name == "refused_by_the_world":
                settle(store, one, doubt.seq, decision="fail", message=found[-1])
            else:
                settle(store, one, doubt.seq, decision="done", value=found[-1])


def check_journals(store: Store, run: str) -> None:
    for one in [run, *children_of(store, run)]:
        report = verify_run(store, one, deep=True)
        assert report.valid, (report.line, report.problems)
        events = [f"{event.seq} {event.event}" for event in JournalReader(store, one).scan()]
        assert report.terminal == "Completed", "\n".join([f"run {one} has not completed:", *events[-12:]])
        assert report.orphans == []


def children_of(store: Store, run: str) -> list[str]:
    """Runs that were begun by an effect of this one."""
    if store.run_row("default", run) is None:
        return []
    requests = [one.event for one in JournalReader(store, run).scan() if one.kind == "ActionRequested"]
    keys = [request.action_id for request in requests if request.effect == "process"]
    named = [hashlib.sha256(f"child\0{run}/{key}".encode()).hexdigest()[:20] for key in keys]
    return [child for child in named if store.run_row("default", child) is not None]
