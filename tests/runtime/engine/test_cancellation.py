"""Cancelling, sweeping beside waiting runs, namespaces, and changed code while a wait is open."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import onrecord
from onrecord.core.events import Cancelled, SignalReceived
from onrecord.runtime.engine.lease_keeper import keeper
from onrecord.runtime.engine.stops import Suspended
from onrecord.store.memory import MemoryStore

done: list[int] = []
text = "old"


@pytest.fixture(autouse=True)
def _keys(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys"))
    done.clear()


@onrecord.step
def work(number: int) -> int:
    time.sleep(0.01)
    done.append(number)
    return number


@onrecord.step
async def add(what: str) -> str:
    return what


def _until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_synchronous_agent_is_told_at_its_next_effect() -> None:
    store = MemoryStore()

    @onrecord.agent(store=store, name="counting")
    def counting() -> None:
        try:
            for number in range(10_000):
                work(number)
        finally:
            work(-1)  # cleaning up is still allowed, and on record

    handle = counting.start(run_id="c")
    _until(lambda: len(done) > 3)
    assert onrecord.cancel(store, "c", reason="enough") is False
    with pytest.raises(asyncio.CancelledError):
        handle.result(60)
    assert done[-1] == -1
    events = [event.event for event in onrecord.JournalReader(store, "c").scan()]
    assert isinstance(events[-1], Cancelled)
    assert events[-1].reason == "enough"
    assert [event.payload for event in events if isinstance(event, SignalReceived)] == ["enough"]
    count = len(done)
    with pytest.raises(asyncio.CancelledError):
        counting.replay("c")
    assert len(done) == count


@pytest.mark.parametrize("how", ["open wait", "effect in doubt", "between effects", "before its end", "setting state"])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("marked", [True, False])
def test_a_run_that_is_cancelled_while_nobody_holds_it(how: str, is_async: bool, marked: bool) -> None:
    """A replay goes as far as the record, and ends as that does: the agent was never told, and has not diverged."""
    if not marked and how not in ("open wait", "effect in doubt"):
        return  # an older record does not tell these from an agent that cancels itself
    store, goes_on = MemoryStore(), [False]

    def body() -> Any:
        work(1)
        if how == "open wait":
            return onrecord.wait_for("word")
        if how == "effect in doubt":
            return cut()
        cut_here()
        if how == "between effects":
            work(2)
        elif how == "setting state":
            onrecord.set_state({"at": "end"})
        return "end"

    @onrecord.tool
    def cut() -> str:
        raise KeyboardInterrupt

    def cut_here() -> None:
        if not goes_on[0]:
            raise KeyboardInterrupt

    @onrecord.agent(store=store, name="cut")
    async def in_a_loop() -> Any:
        if how == "open wait":
            work(1)
            return await onrecord.wait_for("word")
        return body()

    agent: Any = in_a_loop if is_async else onrecord.agent(store=store, name="cut")(body)
    _suspended(in_a_loop if how == "open wait" else agent, store, waits=how == "open wait")
    goes_on[0] = True
    if marked:
        assert onrecord.cancel(store, "r", reason="enough") is True
    else:
        with onrecord.Journal.open(store, "r") as journal:
            journal.append(Cancelled("enough"))
    before = list(done)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(agent.replay("r")) if is_async else agent.replay("r")
    assert done == before


def _suspended(agent: Any, store: MemoryStore, *, waits: bool) -> None:
    if not waits:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(agent.run(run_id="r")) if agent.is_async else agent.run(run_id="r")
        return
    handle = agent.start(run_id="r")
    _until(lambda: (last := store.last_event("default", "r")) is not None and last.kind == "WaitCreated")
    live = keeper.find(store, "r", "default")
    assert live is not None
    live.stop(Suspended("enough"))
    with pytest.raises(Suspended):
        handle.result(60)


def test_an_end_from_outside_does_not_hide_that_the_code_has_changed() -> None:
    global text
    store = MemoryStore()

    @onrecord.agent(store=store, name="changed")
    async def changed() -> Any:
        return [await add(text), await onrecord.wait_for("word")]

    text = "old"
    _suspended(changed, store, waits=True)
    onrecord.cancel(store, "r")
    text = "new"
    with pytest.raises(onrecord.Divergence, match="asked for something else"):
        asyncio.run(changed.replay("r"))


def test_a_waiting_run_does_not_hold_a_sweep_up() -> None:
    store = MemoryStore()

    @onrecord.agent(store=store, name="quick")
    async def quick() -> str:
        return await add("quick")

    @onrecord.agent(store=store, name="waiting")
    async def waiting() -> Any:
        return await onrecord.wait_for("word")

    for agent in (quick, waiting):  # begun, and carried by nobody
        facts = {"agent": agent.name, "input": {"args": [], "kwargs": {}}, "code": agent.code()}
        onrecord.Journal.create(store, agent.name, facts=facts).release()
    found = {one.run: one.outcome for one in onrecord.sweep(store)}
    assert found == {"quick": "completed", "waiting": "waiting"}
    onrecord.cancel(store, "waiting")
    _until(lambda: store.last_event("default", "waiting").kind == "Cancelled")  # type: ignore[union-attr]


def test_runs_of_another_namespace_are_resumed_replayed_and_swept_there() -> None:
    store = MemoryStore()

    @onrecord.agent(store=store, name="elsewhere")
    async def elsewhere() -> str:
        return await add("there")

    facts = {"agent": "elsewhere", "input": {"args": [], "kwargs": {}}, "code": elsewhere.code()}
    for run in ("one", "two"):
        onrecord.Journal.create(store, run, "other", facts=facts).release()
    assert asyncio.run(onrecord.resume("one", store=store, namespace="other")) == "there"
    assert asyncio.run(onrecord.replay("one", store=store, namespace="other")) == "there"
    assert [one.outcome for one in onrecord.sweep(store, "other")] == ["completed"]


def test_changed_code_is_accepted_while_a_wait_is_open() -> None:
    global text
    store = MemoryStore()

    @onrecord.agent(store=store, name="approving")
    async def approving() -> Any:
        return [await add(text), await onrecord.wait_for("approval")]

    async def suspended() -> None:
        task = asyncio.create_task(approving.run(run_id="r"))
        while (last := store.last_event("default", "r")) is None or last.kind != "WaitCreated":
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    text = "old"
    asyncio.run(suspended())
    text = "new"

    async def resumed() -> Any:
        task = asyncio.create_task(approving.resume("r", accept_code=True))
        await asyncio.sleep(0.05)
        desk = onrecord_desk(store)
        from onrecord.core.wait_keys import Resolution, WaitIdentity

        key = await asyncio.to_thread(desk.key, "r", WaitIdentity.named("approval"))
        await asyncio.to_thread(desk.resolve, key, Resolution.ok("yes"))
        return await asyncio.wait_for(task, 60)

    assert asyncio.run(resumed()) == ["new", "yes"]
    assert asyncio.run(approving.replay("r")) == ["new", "yes"]


def onrecord_desk(store: MemoryStore) -> Any:
    from onrecord.runtime.waits import WaitRegistry

    return WaitRegistry(store)


def test_threads_that_are_left_do_not_keep_the_names() -> None:
    assert all(not thread.name.startswith("onrecord-quick") for thread in threading.enumerate())
