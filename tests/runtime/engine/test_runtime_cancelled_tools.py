"""A tool that ends with a cancellation which nobody of the agent asked for: that is what came of it, and on record."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

import onrecord
from kit.runtime import events, kinds, new_id, replay, resume, run
from kit.stores import any_store

calls: list[str] = []


@pytest.fixture(autouse=True)
def as_new() -> None:
    calls.clear()


async def _gives_up() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


def _in_a_loop_of_its_own() -> None:
    calls.append("called")
    asyncio.run(_gives_up())


plain = onrecord.tool(_in_a_loop_of_its_own, name="plain")
limited = onrecord.tool(_in_a_loop_of_its_own, name="limited", timeout=30)
retried = onrecord.tool(_in_a_loop_of_its_own, name="retried", retry=onrecord.Retry(attempts=2, delay_seconds=0))


@onrecord.step
def once() -> int:
    return 1


@onrecord.agent
def caller(which: str) -> Any:
    try:
        {"plain": plain, "limited": limited, "retried": retried}[which]()
    except BaseException as error:
        return [type(error).__name__, once()]


@onrecord.agent
def in_a_thread(which: str) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(_caught(which)))
    thread.start()
    thread.join()
    return found


def _caught(which: str) -> list[Any]:
    try:
        {"plain": plain, "limited": limited, "retried": retried}[which]()
    except BaseException as error:
        return [type(error).__name__, once()]
    return []


@pytest.mark.parametrize("which", ["plain", "limited", "retried"])
@pytest.mark.parametrize("agent", [caller, in_a_thread], ids=["main", "thread"])
@any_store
def test_a_blocking_tool(store: Any, agent: Any, which: str) -> None:
    name = new_id()
    assert run(agent, which, store=store, run_id=name) == ["CancelledError", 1]
    recorded = [event for event in events(store, name) if event.kind == "ActionFailed"]
    assert [type(event.error) for event in recorded] == [asyncio.CancelledError]
    assert replay(agent, name, store=store) == ["CancelledError", 1]
    assert calls == ["called"]


@any_store
def test_a_blocking_tool_that_nobody_catches_cancels_the_run(store: Any) -> None:
    @onrecord.agent
    def trusting() -> None:
        plain()

    name = new_id()
    with pytest.raises(asyncio.CancelledError):
        run(trusting, store=store, run_id=name)
    assert kinds(store, name) == ["ActionRequested", "ActionFailed", "Cancelled"]
    with pytest.raises(asyncio.CancelledError):
        replay(trusting, name, store=store)
    assert calls == ["called"]


@any_store
def test_a_blocking_tool_inside_a_loop(store: Any) -> None:
    @onrecord.tool
    def raising() -> None:
        calls.append("called")
        raise asyncio.CancelledError("of another loop")

    @onrecord.agent
    async def looping() -> Any:
        try:
            raising()
        except asyncio.CancelledError as error:
            return [str(error), once()]

    name = new_id()
    assert run(looping, store=store, run_id=name) == ["of another loop", 1]
    assert kinds(store, name)[:2] == ["ActionRequested", "ActionFailed"]
    assert replay(looping, name, store=store) == ["of another loop", 1]
    assert calls == ["called"]


@any_store
def test_a_stream_that_gives_up_ends_with_it(store: Any) -> None:
    @onrecord.tool
    async def parts() -> AsyncIterator[int]:
        yield 1
        raise asyncio.CancelledError

    @onrecord.agent
    async def reading() -> Any:
        found: list[Any] = []
        try:
            async for part in parts():
                found.append(part)  # noqa: PERF401
        except asyncio.CancelledError:
            found.append("cancelled")
        return found

    name = new_id()
    assert run(reading, store=store, run_id=name) == [1, "cancelled"]
    assert kinds(store, name) == ["ActionRequested", "ChunkReceived", "ActionFailed", "Completed"]
    assert replay(reading, name, store=store) == [1, "cancelled"]


@pytest.mark.parametrize("with_what", [KeyboardInterrupt, SystemExit])
@any_store
def test_what_ends_the_process_is_no_outcome(store: Any, with_what: type[BaseException]) -> None:
    ends = [True]

    @onrecord.step
    def ending() -> int:
        if ends.pop() if ends else False:
            raise with_what
        return 2

    @onrecord.agent
    def going_on() -> int:
        found: int = ending()
        return found

    name = new_id()
    with pytest.raises(BaseException):  # noqa: B017
        run(going_on, store=store, run_id=name)
    assert kinds(store, name) == ["ActionRequested"]
    assert resume(going_on, name, store=store) == 2
