"""Tasks that code outside of the run wakes: the wake-up is a turn, and a replay without it ends with its position."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import onrecord
from kit.runtime import divergence_of, new_id
from onrecord.core.events import TurnTaken
from onrecord.runtime.scheduler.drivers import coordinator


@onrecord.step
async def ask(value: Any) -> Any:
    return value


@onrecord.agent
async def waiting(doors: list[str]) -> Any:
    """Wait for an event that only code outside of the run sets."""
    first = await ask("before")
    await opened[doors[0]].wait()
    return [first, await ask("after")]


opened: dict[str, asyncio.Event] = {}


async def beside(made: Any, *, opens: bool) -> Any:
    opened["door"] = asyncio.Event()
    run = asyncio.ensure_future(made)
    if opens:
        await asyncio.sleep(0.05)
        opened["door"].set()
    return await run


def test_a_wake_up_from_outside_is_a_turn(memory: Any) -> None:
    run_id = new_id()
    result = asyncio.run(beside(waiting.run(["door"], run_id=run_id, store=memory), opens=True))
    turns = [
        turn[0]
        for one in onrecord.JournalReader(memory, run_id).scan()
        if isinstance(one.event, TurnTaken)
        for turn in one.event.turns
    ]
    assert turns == ["wake"]
    assert asyncio.run(beside(waiting.replay(run_id, store=memory), opens=True)) == result


def test_a_wake_up_that_never_comes_ends_the_replay(
    memory: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = new_id()
    asyncio.run(beside(waiting.run(["door"], run_id=run_id, store=memory), opens=True))
    monkeypatch.setattr(coordinator, "PATIENCE_SECONDS", 0.2)
    diverged = divergence_of(lambda: asyncio.run(beside(waiting.replay(run_id, store=memory), opens=False)))
    assert diverged.code == "missing_request"
    assert diverged.where["key"] == "main/ask/1"
    assert "lane main waits for another lane" in diverged.message
    assert f"run {run_id} makes no progress" in capsys.readouterr().err
