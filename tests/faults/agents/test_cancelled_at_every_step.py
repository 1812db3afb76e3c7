"""Cancelled at every step of the loop: by whoever waits for the run, and by whoever wants it to end.

The n-th time around the loop, for every n until the run is over by then.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crash_programs import compute, everything_agent, gather_agent, mail, parent_agent, saw, sleep_agent, wait_agent

import onrecord
from kit import crash_ledger
from kit.killed_runs import check_journals, settle_by_the_ledger
from kit.soak import SOAK
from onrecord.core.events import TERMINAL_KINDS
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.runtime.engine.stops import InDoubt, RecordEnded
from onrecord.store.memory import MemoryStore

MOST_STEPS = 3_000
DENSE, APART = (60, 12) if SOAK else (8, 4)


@onrecord.agent
async def cleaning_up_agent(book: str) -> Any:
    async def branch(number: int) -> Any:
        return saw(book, f"once {number}", await mail(book, f"once {number}"))

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(branch(number)) for number in range(2)]
        found = [task.result() for task in tasks]
        async with asyncio.timeout(30):
            found.append(saw(book, "again 3", await compute(book, "again 3")))
        await asyncio.sleep(0.001)
        return found
    finally:
        saw(book, "again cleaned up", await compute(book, "again cleaned up"))


AGENTS = [cleaning_up_agent, sleep_agent, gather_agent, parent_agent, wait_agent, everything_agent]


@pytest.fixture(autouse=True)
def _keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys"))


def at_step(number: int, made: Any, act: Callable[[asyncio.Task[Any]], None]) -> tuple[bool, Any]:
    """(it was over before, what came of it)"""

    async def main() -> tuple[bool, Any]:
        task = asyncio.ensure_future(made)
        for _ in range(number):
            await asyncio.sleep(0)
            if task.done():
                break
        over = task.done()
        if not over:
            act(task)
        try:
            return over, await task
        except asyncio.CancelledError:
            return over, "cancelled"

    return asyncio.run(main())


def done(book: Path) -> list[str]:
    return [line.tag for line in crash_ledger.read(book) if line.what == "did"]


def ended(store: MemoryStore, run: str) -> bool:
    return any(event.kind in TERMINAL_KINDS for event in JournalReader(store, run).scan())


def replayed(agent: Any, store: MemoryStore, run: str, book: Path) -> Any:
    """What a replay says of the record as it stands. It does nothing."""
    before = done(book)
    try:
        found = at_step(0, agent.replay(run, store=store), lambda _: None)[1]
    except RecordEnded:
        found = None
    assert done(book) == before, "a replay did something"
    return found


def steps(number: int) -> int:
    """Return the next step: every one of the beginning, then further apart. Most of a run that sleeps is waiting."""
    return number + 1 if number < DENSE else number + max(1, number // APART)


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_whoever_waits_for_it_is_cancelled(agent: Any, tmp_path: Path) -> None:
    store, number, looked = MemoryStore(), 1, 0
    while number < MOST_STEPS:
        book, run = tmp_path / f"{number}.ledger", f"run-{number}"
        over, _ = at_step(number, agent.run(str(book), run_id=run, store=store), lambda task: task.cancel())
        if over:
            break
        number = steps(number)
        if ended(store, run):  # the last step wrote the end in the round in which its caller was cancelled
            check_journals(store, run)
            continue
        assert verify_run(store, run, deep=True).valid
        crash_ledger.check(book)
        if looked % 8 == 0:  # each takes a while: a replay is patient with a record that does not go on
            replayed(agent, store, run, book)
        looked += 1
        for _ in range(20):
            try:
                _, result = at_step(0, agent.resume(run, store=store), lambda _: None)
                break
            except InDoubt:
                settle_by_the_ledger(store, run, str(book))
        check_journals(store, run)
        crash_ledger.check(book)
        assert replayed(agent, store, run, book) == result
    assert number > 5
    assert looked > 3


def test_cancelled_before_its_first_step(tmp_path: Path) -> None:
    store = MemoryStore()
    made = sleep_agent.run(str(tmp_path / "ledger"), run_id="run", store=store)
    assert at_step(0, made, lambda task: task.cancel()) == (False, "cancelled")
    assert store.run_row("default", "run") is None or store.claim("default", "run", "somebody else", 1.0).granted


@pytest.mark.parametrize("agent", [agent for agent in AGENTS if agent is not everything_agent], ids=lambda a: a.name)
def test_the_run_is_told_to_end(agent: Any, tmp_path: Path) -> None:
    store, number = MemoryStore(), 0
    while number < MOST_STEPS:
        book, run = tmp_path / f"{number}.ledger", f"run-{number}"
        made = agent.run(str(book), run_id=run, store=store)

        def told(_: asyncio.Task[Any], run: str = run) -> None:
            onrecord.cancel(store, run)

        over, result = at_step(max(number, 1), made, told)
        if over:
            break
        number = steps(number)
        assert ended(store, run)
        report = verify_run(store, run, deep=True)
        assert report.valid
        crash_ledger.check(book)
        assert report.terminal == ("Cancelled" if result == "cancelled" else "Completed")
        assert replayed(agent, store, run, book) == result
        crash_ledger.check(book)
    assert number > 5


LEFT_BEHIND = """
import asyncio, time
import onrecord
from onrecord.store.memory import MemoryStore

store = MemoryStore()

@onrecord.tool
def block():
    time.sleep(0.2)

@onrecord.agent(store=store)
async def agent():
    await asyncio.to_thread(block)

async def main():
    task = asyncio.ensure_future(agent.run(run_id="run"))
    await asyncio.sleep(0.05)
    onrecord.cancel(store, "run")
    await asyncio.gather(task, return_exceptions=True)

asyncio.run(main())
"""


def test_a_job_does_not_outlive_a_run_that_was_told_to_end() -> None:
    subprocess.run([sys.executable, "-c", LEFT_BEHIND], timeout=10, check=True)
