"""What the tests of the runtime share: making runs, breaking them off, and reading what they wrote."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

import reenact

_numbers = itertools.count(1)


def new_id() -> str:
    return f"run-{next(_numbers)}"


class Died(SystemExit):
    """Ends the process's part in a run the way a signal does: the agent's own handlers do not see it."""


def events(store: Any, run: str) -> list[Any]:
    return [one.event for one in reenact.JournalReader(store, run).scan()]


def kinds(store: Any, run: str) -> list[str]:
    """Kinds of a run's events without the bookkeeping of turns and draws."""
    return [event.kind for event in events(store, run) if event.kind not in ("TurnTaken", "ValuesDrawn")]


def requests(store: Any, run: str) -> list[Any]:
    return [event for event in events(store, run) if event.kind == "ActionRequested"]


def run(agent: Any, *args: Any, store: Any, run_id: str, **kwargs: Any) -> Any:
    made = agent.run(*args, run_id=run_id, store=store, **kwargs)
    return asyncio.run(_awaited(made)) if agent.is_async else made


def resume(agent: Any, run_id: str, *, store: Any) -> Any:
    if not agent.is_async:
        return agent.resume(run_id, store=store)

    async def resumed() -> Any:
        return await agent.resume(run_id, store=store)

    return asyncio.run(resumed())


def replay(agent: Any, run_id: str, *, store: Any, **options: Any) -> Any:
    if not agent.is_async:
        return agent.replay(run_id, store=store, **options)

    async def replayed() -> Any:
        return await agent.replay(run_id, store=store, **options)

    return asyncio.run(replayed())


async def _awaited(made: Any) -> Any:
    return await made


def recorded_and_replayed(agent: Any, *args: Any, store: Any) -> Any:
    """Runs the agent, replays the run, and gives the result that both must have."""
    run_id = new_id()
    result = run(agent, *args, store=store, run_id=run_id)
    before = len(events(store, run_id))
    assert replay(agent, run_id, store=store) == result
    assert len(events(store, run_id)) == before, "a replay writes nothing"
    return result


def broken_off(agent: Any, *args: Any, store: Any) -> str:
    """Runs an agent that raises `Died` somewhere; gives the id of the run, which can be resumed."""
    run_id = new_id()
    with pytest.raises(Died):
        run(agent, *args, store=store, run_id=run_id)
    return run_id


def divergence_of(call: Callable[[], Any]) -> Any:
    with pytest.raises(reenact.Divergence) as caught:
        call()
    return caught.value
