"""A record that was not written by us is damage with a name, never a traceback or a hang."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import onrecord
from onrecord.core.events import (
    ActionRequested,
    ActionSucceeded,
    AttemptRecorded,
    ChunkReceived,
    Event,
    ProcessAttached,
    TurnTaken,
    ValuesDrawn,
)
from onrecord.errors import Damaged
from onrecord.journal.chain import Draft
from onrecord.store.memory import MemoryStore


@onrecord.step
async def ask(what: int) -> int:
    return what


REQUEST = Draft(ActionRequested("main/ask/0", {"what": 1}, "ask", "durable_step"), key="main/ask/0")
ANSWER = ActionSucceeded("main/ask/0", 1)


@pytest.mark.parametrize(
    "events",
    [
        [TurnTaken(None)],
        [TurnTaken([["timer"]])],
        [TurnTaken([["timer", "0", 0, 0, 0, 0, 0, 0]])],
        [TurnTaken([["busy", []]])],
        [TurnTaken([5])],
        [ValuesDrawn([["0", "now"]])],
        [ValuesDrawn({"a": 1})],
        [REQUEST, AttemptRecorded("main/ask/0", "many", "failed")],  # type: ignore[arg-type]
        [ChunkReceived("nothing", 0, "x")],
        [REQUEST, TurnTaken([["away", "main"]])],
        [REQUEST, Draft(ANSWER, key="whenever")],
        [ProcessAttached({"accepted": 5})],
        [ProcessAttached({"accepted": {"dropped": [[]], "turns": []}})],
    ],
)
def test_malformed_bookkeeping_is_damage(events: list[Event | Draft]) -> None:
    store = MemoryStore()

    @onrecord.agent(store=store, name="hostile")
    async def agent() -> int:
        answer: int = await ask(1)
        return answer

    with onrecord.Journal.create(store, "r", facts=_facts(agent)) as journal:
        for event in events:
            journal.append(event)
    with pytest.raises(Damaged):
        asyncio.run(asyncio.wait_for(_replayed(agent), 30))


@pytest.mark.parametrize(
    "turns",
    [
        [["timer", "main>no such lane", 3, 0, 0]],
        [["timer", "", 0, 0]],
        [["unheard of", "main", 0, 0, 0]],
        [["start", "main", 99, 99, 99]],
        [["timer", "main", 0, 0, -1]],
        [["away", "main", 7, 7]],
        [["began", "main/ask/7"]],
    ],
)
def test_turns_that_nobody_takes_are_a_divergence_or_do_no_harm(turns: list[Any]) -> None:
    store = MemoryStore()

    @onrecord.agent(store=store, name="hostile")
    async def agent() -> int:
        answer: int = await ask(1)
        return answer

    with onrecord.Journal.create(store, "r", facts=_facts(agent)) as journal:
        journal.append([TurnTaken(turns), REQUEST])
        journal.append([ANSWER, onrecord.Completed(1)])
    assert asyncio.run(asyncio.wait_for(_outcome(agent), 30)) in (1, "not_awaited", "missing_request")


async def _replayed(agent: onrecord.Agent) -> Any:
    return await agent.replay("r")


async def _outcome(agent: onrecord.Agent) -> Any:
    try:
        return await agent.replay("r")
    except onrecord.Divergence as divergence:
        return divergence.code


def _facts(agent: onrecord.Agent) -> dict[str, Any]:
    return {"agent": agent.name, "input": {"args": [], "kwargs": {}}, "code": agent.code()}
