"""A run that is killed and goes on until it ends, and what must hold then."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import crash_ledger

from reenact.effect.settling import in_doubt, settle
from reenact.journal.reader import JournalReader
from reenact.journal.verify import verify_run
from reenact.store.contract import Store
from reenact.store.opening import open_store

HERE = Path(__file__).resolve().parent
SOAK = 20 if os.environ.get("REENACT_SOAK") else 1
SEED = int(os.environ.get("REENACT_SEED") or random.SystemRandom().randrange(1 << 32))
MOST_LIVES = 60


def seeded(*names: object) -> random.Random:
    return random.Random("/".join(map(str, (SEED, *names))))


class ForkServer:
    def __init__(self, folder: Path) -> None:
        self.errors = folder / "errors.txt"
        places = [*filter(None, [os.environ.get("PYTHONPATH")]), str(HERE), str(HERE.parents[1]), str(HERE.parents[2])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "REENACT_KEY_FILE": str(folder / "keys")}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", str(HERE / "fork_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )

    def _ask(self, *command: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer: int = json.loads(self._process.stdout.readline())
        return answer

    def begin(self, work: str, **options: Any) -> int:
        return self._ask("begin", work, options, str(self.errors))

    def wait(self, pid: int) -> int:
        """The exit status; negative: the signal that ended it."""
        status = self._ask("wait", pid)
        if status not in (0, -signal.SIGKILL, -signal.SIGTERM, 130, 143):
            raise AssertionError(f"a process ended with {status}: {self.errors.read_text()[-6000:]}")
        return status

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


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
