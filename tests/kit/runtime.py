"""Run, interrupt, resume and replay agents of either kind, and read their journals."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

import onrecord

_numbers = itertools.count(1)


def new_id(name: str = "run") -> str:
    return f"{name}-{next(_numbers)}"


class Died(SystemExit):
    """End the process's part in a run as a signal does: the agent's own handlers do not catch it."""


def events(store: Any, run: str) -> list[Any]:
    return [one.event for one in onrecord.JournalReader(store, run).scan()]


def kinds(store: Any, run: str) -> list[str]:
    """Return the kinds of a run's events without turns and draws."""
    return [event.kind for event in events(store, run) if event.kind not in ("TurnTaken", "ValuesDrawn")]


def requests(store: Any, run: str) -> list[Any]:
    return [event for event in events(store, run) if event.kind == "ActionRequested"]


def complete(agent: Any, call: Callable[[], Any]) -> Any:
    """Return the result of the call; await it if the agent is asynchronous."""
    if not agent.is_async:
        return call()

    async def awaited() -> Any:
        return await call()

    return asyncio.run(awaited())


def run(agent: Any, *args: Any, **options: Any) -> Any:
    return complete(agent, lambda: agent.run(*args, **options))


def resume(agent: Any, *args: Any, **options: Any) -> Any:
    return complete(agent, lambda: agent.resume(*args, **options))


def replay(agent: Any, *args: Any, **options: Any) -> Any:
    return complete(agent, lambda: agent.replay(*args, **options))


def recorded_and_replayed(agent: Any, *args: Any, store: Any) -> Any:
    """Run the agent, replay the run, and return the result that both must have."""
    run_id = new_id()
    result = run(agent, *args, store=store, run_id=run_id)
    before = len(events(store, run_id))
    assert replay(agent, run_id, store=store) == result
    assert len(events(store, run_id)) == before, "a replay writes nothing"
    return result


def broken_off(agent: Any, *args: Any, store: Any) -> str:
    """Run an agent that raises `Died` somewhere. Return the id of the run, which can be resumed."""
    run_id = new_id()
    with pytest.raises(Died):
        run(agent, *args, store=store, run_id=run_id)
    return run_id


def divergence_of(call: Callable[[], Any]) -> Any:
    with pytest.raises(onrecord.Divergence) as caught:
        call()
    return caught.value
