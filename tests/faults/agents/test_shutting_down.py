"""Whatever shuts a process down suspends its runs: it is no cancellation by the agent, and none of the run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import onrecord
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

done: list[str] = []


@onrecord.tool
async def mail(text: str) -> str:
    done.append(text)
    return text


@onrecord.step
async def long_work() -> str:
    done.append("long")
    while done.count("long") < 2:
        await asyncio.sleep(0.001)
    return "worked"


async def in_one_task() -> Any:
    try:
        return await long_work()
    finally:
        await mail("cleaned up")


async def in_a_group() -> Any:
    async with asyncio.TaskGroup() as group:
        work = group.create_task(in_one_task())
        await asyncio.sleep(0.001)
    return work.result()


async def in_time() -> Any:
    async with asyncio.timeout(60):
        return await asyncio.wait_for(in_one_task(), 60)


SHAPES = [in_one_task, in_a_group, in_time]


def agent_of(shape: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    @onrecord.agent(name=f"shut down {shape.__name__}")
    async def agent() -> Any:
        return await shape()

    return agent


async def begun() -> None:
    while "long" not in done:
        await asyncio.sleep(0.001)


def by_an_exit(run: Coroutine[Any, Any, Any]) -> None:
    """Out of the loop itself, as from a signal handler that raises while the loop sleeps."""

    async def main() -> None:
        task = asyncio.ensure_future(run)
        await begun()
        asyncio.get_running_loop().call_soon(sys.exit, 143)
        await task

    with pytest.raises(SystemExit):
        asyncio.run(main())


def by_cancelling_everybody(run: Coroutine[Any, Any, Any], *, backwards: bool = False) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(run)
        await begun()
        others = sorted(asyncio.all_tasks() - {asyncio.current_task()}, key=id, reverse=backwards)
        for one in others:
            one.cancel()
        with pytest.raises((asyncio.CancelledError, onrecord.OnrecordError)):
            await task

    asyncio.run(main())


def by_cancelling_everybody_backwards(run: Coroutine[Any, Any, Any]) -> None:
    by_cancelling_everybody(run, backwards=True)


def by_cancelling_the_agents_own_task(run: Coroutine[Any, Any, Any]) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(run)
        before = asyncio.all_tasks()
        await asyncio.sleep(0)
        own = next(iter(asyncio.all_tasks() - before))
        await begun()
        own.cancel()
        with pytest.raises(onrecord.OnrecordError) as stopped:
            await task
        assert stopped.value.code == "suspended"

    asyncio.run(main())


HOW = [by_an_exit, by_cancelling_everybody, by_cancelling_everybody_backwards, by_cancelling_the_agents_own_task]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("how", HOW, ids=lambda how: how.__name__)
def test_a_process_that_shuts_down_suspends(how: Any, shape: Any, memory: MemoryStore) -> None:
    check_suspended(how, shape, memory)


@pytest.mark.parametrize("how", [by_an_exit, by_cancelling_everybody], ids=lambda how: how.__name__)
def test_the_same_in_every_store(how: Any, store: Store) -> None:
    check_suspended(how, in_a_group, store)


def check_suspended(how: Any, shape: Any, store: Store) -> None:
    done.clear()
    agent = agent_of(shape)
    how(agent.run(run_id="run", store=store))
    assert done == ["long"]
    kinds = [one.kind for one in JournalReader(store, "run").scan()]
    assert kinds.count("ActionRequested") == 1
    assert not {"ActionSucceeded", "ActionFailed", "Cancelled", "Failed"} & set(kinds)
    assert store.holder("default", "run") is None
    assert asyncio.run(agent.resume("run", store=store)) == "worked"
    assert done == ["long", "long", "cleaned up"]
    assert asyncio.run(agent.replay("run", store=store)) == "worked"


def test_what_cannot_be_come_back_to_is_let_go(store: Store) -> None:
    done.clear()
    one, other = agent_of(in_one_task), agent_of(in_time)
    by_an_exit(one.run(run_id="run", store=store))
    with pytest.raises(onrecord.OnrecordError) as refused:
        asyncio.run(other.resume("run", store=store))
    assert refused.value.code == "other_agent"
    assert store.holder("default", "run") is None


def test_a_run_that_ended_since_somebody_looked(sqlite: Any, tmp_path: Path) -> None:
    """A worker has seen that it is unfinished; meanwhile another one ends it."""

    @onrecord.agent
    async def quick() -> str:
        return await mail("quick")

    class EndedMeanwhile:
        def __getattr__(self, name: str) -> Any:
            return getattr(sqlite, name)

        def last_event(self, *_: Any) -> Any:
            if seen:
                return sqlite.last_event("default", "run")
            seen.append(True)
            return None

    seen: list[bool] = []
    done.clear()
    assert asyncio.run(quick.run(run_id="run", store=sqlite)) == "quick"
    before = JournalReader(sqlite, "run").head()
    assert asyncio.run(quick.resume("run", store=EndedMeanwhile())) == "quick"  # type: ignore[arg-type]
    assert (done, JournalReader(sqlite, "run").head()) == (["quick"], before)
    assert sqlite.holder("default", "run") is None


def test_a_renewal_does_not_adopt_what_somebody_else_has_had(store: Store) -> None:
    journal = Journal.create(store, "run")
    epoch = journal.epoch
    store.release("default", "run", epoch)
    store.release("default", "run", store.claim("default", "run", "somebody else", 60).epoch)
    with pytest.raises(onrecord.OnrecordError) as stale:
        journal.renew()
    assert (stale.value.code, journal.epoch) == ("stale_epoch", epoch)
    assert store.holder("default", "run") is None
