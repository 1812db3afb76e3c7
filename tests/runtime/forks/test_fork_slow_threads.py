"""Forks that are cut in the middle of threads and jobs that begin alike and are slow to ask.

Each program is recorded with its threads going on in one order, and forked at every event with them going on in
another: whoever is known by his birth is given his own answers, and what was not on record is asked for anew.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import onrecord
from kit.chance import seeded
from kit.forks import Ledger, assert_verifies, entries, fork
from kit.runtime import new_id, replay, run
from kit.soak import SOAK
from onrecord.store.memory import MemoryStore

ledger = Ledger()
_when: dict[str, int] = {}
"""Who goes on when, in steps: the first of them is longer than a thread is waited for while recording."""
STEP_SECONDS = 0.025
TOOLS = ("ask", "ask_in_a_task")


@onrecord.tool
def ask(what: str) -> str:
    ledger.did(what)
    return f"answer to {what}"


@onrecord.tool
async def ask_in_a_task(what: str) -> str:
    ledger.did(what)
    return f"answer to {what}"


def late(who: str) -> None:
    time.sleep(STEP_SECONDS * (2 + _when[who]))


def positions(count: int, step: int = 1) -> range:
    """Return every `step`-th position of a run; in `make test` three of them, from a random beginning."""
    if SOAK:
        return range(0, count, step)
    step = max(step, count // 3)
    return range(seeded(count).randrange(step), count, step)


def in_order(names: str) -> None:
    _when.clear()
    _when.update({who: place for place, who in enumerate(names.split())})


def in_threads(work: Callable[[str], None], names: str) -> None:
    threads = [threading.Thread(target=work, args=(who,)) for who in names.split()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@onrecord.agent
def once_alike() -> Any:
    found: dict[str, Any] = {}

    def work(who: str) -> None:
        late(who)
        found[who] = [ask("the same"), ask(f"for {who}")]

    in_threads(work, "a b")
    return sorted(found.items())


@onrecord.agent
def alike_for_long() -> Any:
    found: dict[str, Any] = {}

    def work(who: str) -> None:
        late(who)
        found[who] = [*(ask("the same") for _ in range(3)), ask(f"for {who}")]

    in_threads(work, "a b")
    return sorted(found.items())


@onrecord.agent
def a_pool_in_a_thread() -> Any:
    """Begun with the same: they are told apart by the order in which they were begun, below a thread as well."""
    found: list[Any] = []

    def work(box: dict[str, str]) -> Any:
        late(box["who"])
        return [*(ask("the same") for _ in range(2)), ask(f"for {box['who']}")]

    def above(_: str) -> None:
        with ThreadPoolExecutor(2) as pool:
            found.extend(future.result() for future in [pool.submit(work, {"who": who}) for who in "ab"])

    in_threads(above, "above")
    return found


@onrecord.agent
async def threads_below_jobs() -> Any:
    found: dict[str, Any] = {}

    def below(who: str) -> None:
        late(f"{who}-below")
        found[f"{who}-below"] = [ask("the same"), ask(f"below {who}")]

    def above(who: str) -> None:
        thread = threading.Thread(target=below, args=(who,))
        thread.start()
        late(who)
        found[who] = [ask("the same"), ask(f"above {who}")]
        thread.join()

    await asyncio.gather(*(asyncio.to_thread(above, who) for who in "ab"))
    return sorted(found.items())


@onrecord.agent
async def jobs_beside_their_tasks() -> Any:
    found: dict[str, Any] = {}

    def job(who: str) -> None:
        late(f"{who}-job")
        found[f"{who}-job"] = [ask("the same"), ask(f"job {who}")]

    async def task(who: str) -> None:
        begun = asyncio.get_running_loop().run_in_executor(None, job, who)
        await asyncio.sleep(STEP_SECONDS * (2 + _when[who]))
        found[who] = [await ask_in_a_task("the same"), await ask_in_a_task(f"task {who}")]
        await begun

    await asyncio.gather(*map(task, "ab"))
    return sorted(found.items())


SCHEDULES = [
    pytest.param(once_alike, "a b", "b a", id="a birth is on record, and nobody has asked yet"),
    pytest.param(alike_for_long, "b a", "a b", id="one is ahead of its record, and another record goes on so"),
    pytest.param(a_pool_in_a_thread, "b a", "a b", id="the same below a thread"),
    pytest.param(threads_below_jobs, "a b b-below a-below", "a b a-below b-below", id="the other thread had asked"),
    pytest.param(threads_below_jobs, "b a-below b-below a", "a b a-below b-below", id="only the one below had asked"),
    pytest.param(threads_below_jobs, "a-below b a b-below", "a b a-below b-below", id="the one above is too early"),
    pytest.param(jobs_beside_their_tasks, "b-job a a-job b", "a-job b-job a b", id="only the task had asked"),
]


@pytest.mark.parametrize(("agent", "recorded", "again"), SCHEDULES)
def test_a_fork_ends_as_its_parent_whoever_is_first(agent: Any, recorded: str, again: str, memory: MemoryStore) -> None:
    in_order(recorded)
    name = new_id()
    whole = run(agent, run_id=name, store=memory)
    in_order(again)
    ledger.clear()
    assert replay(agent, name, store=memory) == whole
    for number, at in enumerate(positions(len(entries(memory, name)))):
        forked, twice = new_id("fork"), new_id("fork")
        assert fork(agent, name, at, tail="mocked", fork_id=forked, store=memory) == whole, at
        if number % 3:
            continue
        assert replay(agent, forked, store=memory) == whole, at
        middle = len(entries(memory, forked)) // 2
        assert fork(agent, forked, middle, tail="mocked", fork_id=twice, store=memory) == whole, at
        assert_verifies(memory, twice)
    assert not ledger.lines


@pytest.mark.parametrize(("agent", "recorded", "again"), SCHEDULES)
def test_a_live_fork_asks_for_the_rest_once(agent: Any, recorded: str, again: str, memory: MemoryStore) -> None:
    in_order(recorded)
    name = new_id()
    ledger.clear()
    whole = run(agent, run_id=name, store=memory)
    rows, asked = entries(memory, name), ledger.names
    in_order(again)
    for at in positions(len(rows), 3):
        answers = {one.event.action_id for one in rows[:at] if one.kind == "ActionSucceeded"}
        answered = [one for one in rows[:at] if one.kind == "ActionRequested" and one.event.action_id in answers]
        ledger.clear()
        assert fork(agent, name, at, live_tools=TOOLS, fork_id=new_id("fork"), store=memory) == whole, at
        for one in answered:
            ledger.did(one.event.payload["what"])
        assert ledger.names == asked, at


@onrecord.agent
def begun_in_any_order() -> Any:
    found: dict[str, Any] = {}

    def work(who: str) -> None:
        late(who)
        found[who] = [ask("the same"), ask(f"for {who}")]

    in_threads(work, _begun[0])
    return sorted(found.items())


_begun = ["a b c"]


def test_threads_that_are_started_in_another_order_are_a_divergence(memory: MemoryStore) -> None:
    """A thread is known by its function and by how many of that function were started before it."""
    _begun[0] = "a b c"
    in_order("a b c")
    name = new_id()
    whole = run(begun_in_any_order, run_id=name, store=memory)
    _begun[0] = "c b a"
    in_order("c b a")
    ledger.clear()
    codes = set()
    for at in range(0, len(entries(memory, name)), 1 if SOAK else 4):
        try:
            assert fork(begun_in_any_order, name, at, tail="mocked", fork_id=new_id("fork"), store=memory) == whole, at
        except onrecord.Divergence as divergence:
            codes.add(divergence.code)
    assert codes == {"conflicting_request"}
    assert not ledger.lines
