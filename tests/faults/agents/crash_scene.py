"""A run that is killed and goes on until it ends, and what must hold then."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

from kit import crash_ledger
from kit.killed_runs import check_journals, settle_by_the_ledger
from kit.life_server import LifeServer, reported, state_of
from onrecord.store.factory import open_store

MOST_LIVES = 60


def stands_still(pid: int) -> bool:
    """The first thread of the process sleeps, and has not been awake for a while."""

    def moved() -> list[str]:
        lines = Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines()
        return [line for line in lines if "ctxt_switches" in line]

    before = moved()
    time.sleep(0.03)
    return state_of(pid) == "S" and moved() == before


class Scene:
    """One run of one agent over one store."""

    def __init__(self, server: LifeServer, url: str, folder: Path, agent: str, run: str) -> None:
        self.server, self.url, self.agent, self.run = server, url, agent, run
        self.book = str(folder / f"{run}.ledger")
        self.out = folder / f"{run}.json"
        self.lives = 0

    def begin(self, die_at: int | None = None, work: str = "carry", **more: Any) -> int:
        """Begin a life that executes the run, and return its pid."""
        self.lives += 1
        self.out.unlink(missing_ok=True)
        options = {"url": self.url, "agent": self.agent, "run": self.run, "book": self.book, "out": str(self.out)}
        return self.server.begin(work, **options, die_at=die_at, **more)

    def live(self, die_at: int | None = None, **more: Any) -> dict[str, Any] | None:
        """Live once and return the report; None if the life was killed before it."""
        self.server.wait(self.begin(die_at, **more))
        return self.report()

    def report(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = reported(self.out)
        return found

    def settle(self, *, by_hand: bool = False) -> None:
        with closing(open_store(self.url)) as store:
            settle_by_the_ledger(store, self.run, self.book, by_hand=by_hand)

    def to_the_end(self) -> Any:
        """Resume until the run has ended, and return its result."""
        for _ in range(MOST_LIVES):
            report = self.live()
            assert report is not None
            if report["status"] == "completed":
                return report["result"]
            assert report["status"] == "in_doubt", report
            self.settle()
        raise AssertionError(f"run {self.run} does not come to its end: {report}")

    def check(self) -> None:
        """Everything that must hold once the run has ended."""
        last = self.report()
        assert last is not None
        assert last["status"] == "completed", last
        assert last["again"] == {"status": "completed", "result": last["result"]}
        assert last["redone"] == [], "a replay did something"
        crash_ledger.check(self.book)
        with closing(open_store(self.url)) as store:
            check_journals(store, self.run)
