"""Cancelling, sweeping beside waiting runs, namespaces, and changed code while a wait is open."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import reenact
from reenact.core.events import Cancelled, SignalReceived
from reenact.store.memory import MemoryStore

done: list[int] = []
text = "old"


@pytest.fixture(autouse=True)
def _keys(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REENACT_KEY_FILE", str(tmp_path / "keys"))
    done.clear()


@reenact.step
def work(number: int) -> int:
    time.sleep(0.01)
    done.append(number)
    return number


@reenact.step
async def add(what: str) -> str:
    return what


def _until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_synchronous_agent_is_told_at_its_next_effect() -> None:
    store = MemoryStore()

    @reenact.agent(store=store, name="counting")
    def counting() -> None:
        try:
            for number in range(10_000):
                work(number)
        finally:
            work(-1)  # cleaning up is still allowed, and on record

    handle = counting.start(run_id="c")
    _until(lambda: len(done) > 3)
    assert reenact.cancel(store, "c", reason="enough") is False
    with pytest.raises(asyncio.CancelledError):
        handle.result(60)
    assert done[-1] == -1
    events = [event.event for event in reenact.JournalReader(store, "c").scan()]
    assert isinstance(events[-1], Cancelled)
    assert events[-1].reason == "enough"
    assert [event.payload for event in events if isinstance(event, SignalReceived)] == ["enough"]
    count = len(done)
    with pytest.raises(asyncio.CancelledError):
        counting.replay("c")
    assert len(done) == count


def test_a_waiting_run_does_not_hold_a_sweep_up() -> None:
    store = MemoryStore()

    @reenact.agent(store=store, name="quick")
    async def quick() -> str:
        return await add("quick")

    @reenact.agent(store=store, name="waiting")
    async def waiting() -> Any:
        return await reenact.wait_for("word")

    for agent in (quick, waiting):  # begun, and carried by nobody
        facts = {"agent": agent.name, "input": {"args": [], "kwargs": {}}, "code": agent.code()}
        reenact.Journal.create(store, agent.name, facts=facts).release()
    found = {one.run: one.outcome for one in reenact.sweep(store)}
    assert found == {"quick": "completed", "waiting": "waiting"}
    reenact.cancel(store, "waiting")
    _until(lambda: store.last_event("default", "waiting").kind == "Cancelled")  # type: ignore[union-attr]


def test_runs_of_another_namespace_are_resumed_replayed_and_swept_there() -> None:
    store = MemoryStore()

    @reenact.agent(store=store, name="elsewhere")
    async def elsewhere() -> str:
        return await add("there")

    facts = {"agent": "elsewhere", "input": {"args": [], "kwargs": {}}, "code": elsewhere.code()}
    for run in ("one", "two"):
        reenact.Journal.create(store, run, "other", facts=facts).release()
    assert asyncio.run(reenact.resume("one", store=store, namespace="other")) == "there"
    assert asyncio.run(reenact.replay("one", store=store, namespace="other")) == "there"
    assert [one.outcome for one in reenact.sweep(store, "other")] == ["completed"]


def test_changed_code_is_accepted_while_a_wait_is_open() -> None:
    global text
    store = MemoryStore()

    @reenact.agent(store=store, name="approving")
    async def approving() -> Any:
        return [await add(text), await reenact.wait_for("approval")]

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
        desk = reenact_desk(store)
        from reenact.core.wait_keys import Resolution, WaitIdentity

        key = await asyncio.to_thread(desk.key, "r", WaitIdentity.named("approval"))
        await asyncio.to_thread(desk.resolve, key, Resolution.ok("yes"))
        return await asyncio.wait_for(task, 60)

    assert asyncio.run(resumed()) == ["new", "yes"]
    assert asyncio.run(approving.replay("r")) == ["new", "yes"]


def reenact_desk(store: MemoryStore) -> Any:
    from reenact.effect.waits import WaitDesk

    return WaitDesk(store)


def test_threads_that_are_left_do_not_keep_the_names() -> None:
    assert all(not thread.name.startswith("reenact-quick") for thread in threading.enumerate())
