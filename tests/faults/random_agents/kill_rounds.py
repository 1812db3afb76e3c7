"""Rounds: a random agent is killed and resumed until it ends, then replayed. The ledger says what happened."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from agent_effects import CREATE
from agent_shapes import Shape, make_shape, render, smaller_shapes

import onrecord
from kit import crash_ledger
from kit.killed_runs import check_journals, settle_by_the_ledger
from kit.life_server import LifeServer, reported
from onrecord.store.factory import open_store

MOST_LIVES = 80
REPLAYS = 2
SHRINK_SECONDS = 60.0
SHRINK_ROUNDS = 4
"""Rounds that a smaller shape gets to fail."""


@onrecord.step(transactional=True)
def create_table(db: Any) -> None:
    db.execute(CREATE)


@onrecord.step(transactional=True)
def read_table(db: Any, run: str) -> list[list[str]]:
    return [list(row) for row in db.execute(f"SELECT tag, value FROM paid WHERE run = '{run}'").fetchall()]


@onrecord.agent
def creating() -> None:
    create_table()


@onrecord.agent
def reading(run: str) -> list[list[str]]:
    found: list[list[str]] = read_table(run)
    return found


class Rounds:
    """Rounds over one store, and the count of what happened in them."""

    def __init__(self, server: LifeServer, url: str, folder: Path) -> None:
        self._server, self._url, self._folder = server, url, folder
        self.tally: Counter[str] = Counter()
        with closing(open_store(url)) as store:
            creating.run(store=store)

    def run(self, seed: int) -> None:
        """Run the round of that seed. A failure says how to repeat it, and has a minimal shape."""
        shape = make_shape(seed)
        try:
            self._run(seed, shape)
        except AssertionError as failure:
            failure.add_note(f"seed {seed}:\n{render(shape)}")
            smallest = shrink(shape, self._fails)
            failure.add_note(f"minimal: {smallest}\n{render(smallest)}")
            raise

    def _fails(self, shape: Shape) -> bool:
        try:
            for seed in range(SHRINK_ROUNDS):
                self._run(seed, shape)
        except AssertionError:
            return True
        return False

    def _run(self, seed: int, shape: Shape) -> None:
        self.tally["rounds"] += 1
        Round(self._server, self._url, self._folder, f"run-{self.tally['rounds']}", shape, self.tally).live(seed)


class Round:
    def __init__(self, server: LifeServer, url: str, folder: Path, run: str, shape: Shape, tally: Counter[str]) -> None:
        self._server, self._url, self._run, self._shape, self._tally = server, url, run, shape, tally
        self._book = str(folder / f"{run}.ledger")
        self._out = folder / f"{run}.json"

    def live(self, seed: int) -> None:
        """Live until the run has ended, and check everything that must hold then."""
        rng = random.Random(f"lives of {seed}")
        for life in range(MOST_LIVES):
            report = self._live(rng, life)
            crash_ledger.check(self._book)
            if report is not None and report["status"] in ("completed", "failed", "cancelled"):
                break
            if report is not None:
                assert report["status"] == "in_doubt", report
                self._settle(rng)
        else:
            raise AssertionError(f"the run does not end: {report}")
        self._tally["resumed"] += life > 0
        self._check(report)

    def _live(self, rng: random.Random, life: int) -> dict[str, Any] | None:
        """Live once. Return the report; None if the life was killed before it."""
        self._out.unlink(missing_ok=True)
        how = rng.choice(("point", "moment", "none")) if life < MOST_LIVES // 2 else "none"
        die_at = rng.randrange(1, rng.choice((8, 30, 80))) if how == "point" else None
        pid = self._begin("carry", die_at=die_at)
        if how == "moment":
            time.sleep(rng.uniform(0, rng.choice((0.01, 0.03, 0.1))))
            self._tally["killed"] += self._server.kill(pid) == -signal.SIGKILL
        else:
            self._tally["killed"] += self._server.wait(pid) == -signal.SIGKILL
        return reported(self._out)  # type: ignore[no-any-return]

    def _begin(self, work: str, **more: Any) -> int:
        options = {"url": self._url, "run": self._run, "book": self._book, "out": str(self._out), "shape": self._shape}
        return self._server.begin(work, **options, **more)

    def _settle(self, rng: random.Random) -> None:
        with closing(open_store(self._url)) as store:
            how = rng.choice(("retry", "by hand", "fail"))
            decisions = settle_by_the_ledger(
                store, self._run, self._book, by_hand=how == "by hand", may_fail=how == "fail"
            )
        assert decisions, "in doubt, but there is nothing to settle"
        self._tally.update(decisions)

    # The end

    def _check(self, last: dict[str, Any]) -> None:
        seen = {(line.tag, str(line.value)) for line in crash_ledger.read(self._book) if line.what == "saw"}
        for report in self._replay():
            assert {name: report.get(name) for name in ("status", "result")} == {
                name: last[name] for name in ("status", "result")
            }, report
            assert [line for line in report["lines"] if line[0] == "did"] == [], "a replay executed an effect"
            found = {(tag, str(value)) for _, tag, value in report["lines"]}
            assert self._of_root(seen) <= found, f"acknowledged and lost: {self._of_root(seen) - found}"
            assert found <= seen, f"seen by the replay alone: {found - seen}"
            self._tally["replays"] += 1
        self._check_keys()
        with closing(open_store(self._url)) as store:
            check_journals(store, self._run, may_fail=True, leaves_children=True)
            self._check_paid(seen, reading.run(self._run, store=store))

    def _replay(self) -> list[dict[str, Any]]:
        self._out.unlink()
        self._server.wait(self._begin("replay", times=REPLAYS))
        reports = reported(self._out)
        assert reports is not None, f"the replay has died: {self._server.errors()}"
        return list(reports)

    def _of_root(self, seen: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return what the run itself has seen: a replay does not execute the runs that it called."""
        below = {str(number) for number in _numbers_of_children(self._shape["nodes"])}
        return {(tag, value) for tag, value in seen if tag.split()[-1] not in below}

    def _check_keys(self) -> None:
        """Check that no two effects have one idempotency key."""
        tags: dict[str, set[str]] = {}
        for line in crash_ledger.read(self._book):
            if line.what == "did":
                tags.setdefault(line.more[1], set()).add(line.tag)
        assert all(len(found) == 1 for found in tags.values()), tags

    def _check_paid(self, seen: set[tuple[str, str]], rows: list[list[str]]) -> None:
        """Check that each transaction was committed once, and those whose outcome was seen among them."""
        assert len({tag for tag, _ in rows}) == len(rows), f"paid twice: {rows}"
        paid = {(tag, value) for tag, value in seen if tag.startswith("paid")}
        assert paid <= {(tag, value) for tag, value in rows}, f"lost: {paid} are not all in {rows}"


def _numbers_of_children(nodes: list[Any], is_below: bool = False) -> set[int]:
    found: set[int] = set()
    for kind, number, _, branches in nodes:
        found |= {number} if is_below else set()
        found |= _numbers_of_children(branches, is_below or kind in ("child", "async child"))
    return found


def shrink(shape: Shape, fails: Callable[[Shape], bool]) -> Shape:
    """Return the smallest shape that was found to fail in the time."""
    end, is_smaller = time.monotonic() + SHRINK_SECONDS, True
    while is_smaller:
        is_smaller = False
        for smaller in smaller_shapes(shape):
            if time.monotonic() > end:
                return shape
            if fails(smaller):
                shape, is_smaller = smaller, True
                break
    return shape
