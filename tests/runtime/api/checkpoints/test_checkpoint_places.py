"""Where a checkpoint is allowed: where the run is alone."""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import queue
import threading
from typing import Any

import pytest

import onrecord
from kit.checkpoints import Refused, ask, ask_in_thread, ask_later, checkpoints, is_sound
from kit.runtime import new_id, replay, run
from kit.stores import any_store
from onrecord.errors import InvalidInput
from onrecord.store.memory import MemoryStore

# Where it is allowed


async def _in_a_task() -> None:
    async def checkpointed() -> None:
        onrecord.checkpoint(1)

    with Refused("checkpoint_in_branch"):
        await asyncio.create_task(checkpointed())
    with Refused("checkpoint_in_branch"):
        await asyncio.gather(checkpointed())


async def _beside_a_task() -> None:
    task = asyncio.create_task(ask_later("beside"))
    with Refused("checkpoint_not_alone"):
        onrecord.checkpoint({"now": "it may"})
    await asyncio.sleep(0)
    with Refused("checkpoint_not_alone"):
        onrecord.checkpoint({"now": "it may"})
    await task


async def _beside_a_timer() -> None:
    timer = asyncio.get_running_loop().call_later(60, print)
    with Refused("checkpoint_not_alone"):
        onrecord.checkpoint(1)
    timer.cancel()
    with Refused("checkpoint_not_alone"):
        async with asyncio.timeout(60):
            onrecord.checkpoint(1)


async def _beside_a_job() -> None:
    goes_on = threading.Event()
    job = asyncio.create_task(asyncio.to_thread(goes_on.wait))
    await ask_later("the job is under way")
    with Refused("checkpoint_not_alone"):
        onrecord.checkpoint(1)
    goes_on.set()
    await job


async def _in_a_job() -> None:
    with Refused("checkpoint_in_branch"):
        await asyncio.to_thread(onrecord.checkpoint, 1)


async def _in_wait_for() -> None:
    async def checkpointed() -> None:
        onrecord.checkpoint(1)

    with pytest.raises(InvalidInput, match="`checkpoint` was called"):  # in a task, before Python 3.12
        await asyncio.wait_for(checkpointed(), 60)


REFUSED = [_in_a_task, _beside_a_task, _beside_a_timer, _beside_a_job, _in_a_job, _in_wait_for]


@pytest.mark.parametrize("refused", REFUSED, ids=lambda one: one.__name__)
@any_store
def test_refused_where_something_is_under_way(refused: Any, store: Any) -> None:
    @onrecord.agent(name=f"refused{refused.__name__}")
    async def agent() -> Any:
        await ask_later("first")
        await refused()
        onrecord.checkpoint({"now": "it may"})
        return await ask_later("last")

    run_id = new_id()
    assert run(agent, store=store, run_id=run_id) == "last"
    assert [one.event.payload for one in checkpoints(store, run_id)] == [{"now": "it may"}]
    assert is_sound(agent, run_id, "last", store)


@any_store
def test_refused_beside_a_thread_and_in_one(store: Any) -> None:
    @onrecord.agent(name="refused_threads")
    def agent() -> Any:
        goes_on = threading.Event()
        codes: list[str] = []

        def work() -> None:
            try:
                onrecord.checkpoint(1)
            except InvalidInput as error:
                codes.append(error.code)
            goes_on.wait()
            ask("thread")

        thread = threading.Thread(target=work)
        thread.start()
        ask("beside")
        try:
            onrecord.checkpoint(1)
        except InvalidInput as error:
            codes.append(error.code)
        goes_on.set()
        thread.join()
        onrecord.checkpoint(2)
        return [sorted(codes), ask("last")]

    run_id = new_id()
    result = run(agent, store=store, run_id=run_id)
    assert result == [["checkpoint_in_branch", "checkpoint_not_alone"], "last"]
    assert is_sound(agent, run_id, result, store)


def test_a_thread_that_nobody_joins_may_take_its_time_to_end() -> None:
    slow = [False]

    @onrecord.agent(name="unjoined")
    def agent() -> Any:
        told: queue.Queue[Any] = queue.Queue()

        def work() -> None:
            told.put(ask_in_thread("thread"))
            if slow[0]:
                _pause()

        thread = threading.Thread(target=work)
        thread.start()
        told.get()
        while not slow[0] and thread.is_alive():
            _pause()
        onrecord.checkpoint(1)
        return ask("last")

    store, run_id = MemoryStore(), new_id()
    assert run(agent, store=store, run_id=run_id) == "last"
    slow[0] = True
    assert replay(agent, run_id, store=store) == "last"


def _pause() -> None:
    """Not asked for, and of no effect: as slow as a thread may be to end."""
    lock = _thread.allocate_lock()
    lock.acquire()
    lock.acquire(timeout=0.05)


@any_store
def test_refused_in_an_effect_and_in_a_loop_of_its_own(store: Any) -> None:
    @onrecord.step
    def inside() -> Any:
        assert onrecord.restored() is None
        with Refused("checkpoint_in_effect"):
            onrecord.checkpoint(1)
        return "inside"

    async def looped() -> None:
        with Refused("checkpoint_in_branch"):
            onrecord.checkpoint(1)

    @onrecord.agent(name="refused_inside")
    def agent() -> Any:
        inside()
        asyncio.run(looped())
        with Refused("state_without_value"):
            onrecord.checkpoint({"lock": threading.Lock()})
        onrecord.checkpoint(2)
        return ask("last")

    run_id = new_id()
    assert run(agent, store=store, run_id=run_id) == "last"
    assert is_sound(agent, run_id, "last", store)


@any_store
def test_a_context_from_before_belongs_to_the_lane_after(store: Any) -> None:
    @onrecord.agent(name="old_context")
    def agent() -> Any:
        ask("first")
        before = contextvars.copy_context()
        onrecord.checkpoint(1)
        for call in (lambda: ask(1), onrecord.random, lambda: onrecord.set_state(1), lambda: onrecord.checkpoint(2)):
            before.run(call)
        return ask("last")

    run_id = new_id()
    assert run(agent, store=store, run_id=run_id) == "last"
    assert is_sound(agent, run_id, "last", store)
    requests = [one for one in onrecord.JournalReader(store, run_id).scan() if one.kind == "ActionRequested"]
    assert [one.lane for one in requests] == ["main", "main@1", "main@2"]


async def _in_a_callback(called: list[str]) -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def call() -> None:
        try:
            onrecord.checkpoint(1)
        except InvalidInput as error:
            called.append(error.code)
        future.set_result(None)

    loop.call_soon(call)
    with Refused("checkpoint_not_alone"):
        onrecord.checkpoint(1)
    await future


@any_store
def test_refused_in_a_callback_and_before_one(store: Any) -> None:
    @onrecord.agent(name="refused_callback")
    async def agent() -> Any:
        called: list[str] = []
        await _in_a_callback(called)
        onrecord.checkpoint(called)
        return [called, await ask_later("last")]

    run_id = new_id()
    result = [["checkpoint_in_branch"], "last"]
    assert run(agent, store=store, run_id=run_id) == result
    assert is_sound(agent, run_id, result, store)


@any_store
def test_a_task_that_is_to_be_cancelled_sets_a_state_only(store: Any) -> None:
    @onrecord.agent(name="cancels_itself")
    async def agent() -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        onrecord.checkpoint("not taken")
        seen = [onrecord.state(), onrecord.restored()]
        try:
            await ask_later("never")
        except asyncio.CancelledError:
            seen.append(task.cancelling())
        onrecord.checkpoint("taken")
        return [*seen, task.cancelling(), onrecord.restored(), await ask_later("last")]

    run_id = new_id()
    result = ["not taken", None, 1, 0, "taken", "last"]
    assert run(agent, store=store, run_id=run_id) == result
    assert [one.event.payload for one in checkpoints(store, run_id)] == ["taken"]
    assert is_sound(agent, run_id, result, store)


def test_outside_of_a_run_it_says_so_once() -> None:
    import onrecord.runtime.engine.boundary as boundary

    boundary._warned -= {"checkpoint", "restored"}
    with pytest.warns(UserWarning, match="checkpoint was called outside"):
        onrecord.checkpoint({"turn": 1})
    with pytest.warns(UserWarning, match="restored was called outside"):
        assert onrecord.restored() is None
    onrecord.checkpoint({"turn": 2})
