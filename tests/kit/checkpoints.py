"""What the tests of checkpoints share: agents that have some, dying at any step of them, and counting what is read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import onrecord
from kit.runtime import Died, new_id, replay, run
from onrecord.errors import InvalidInput
from onrecord.store.memory import MemoryStore

done: list[Any] = []
ticks = [0]
dies_at = [0]


def tick() -> None:
    """One step of the program: at one of them the process dies."""
    ticks[0] += 1
    if ticks[0] == dies_at[0]:
        raise Died


def broken_off(agent: Any, *args: Any, store: Any) -> str:
    run_id = new_id()
    with pytest.raises(Died):
        run(agent, *args, store=store, run_id=run_id)
    dies_at[0] = 0
    return run_id


def kinds(store: Any, run_id: str) -> list[str]:
    return [one.kind for one in onrecord.JournalReader(store, run_id).scan()]


def checkpoints(store: Any, run_id: str) -> list[Any]:
    return [one for one in onrecord.JournalReader(store, run_id).scan() if one.key == "checkpoint"]


def is_sound(agent: Any, run_id: str, result: Any, store: Any) -> bool:
    """The record is whole, and a replay from its beginning gives the same."""
    assert replay(agent, run_id, store=store) == result
    report = onrecord.verify_run(store, run_id, deep=True)
    assert report.valid, str(report)
    return True


class Counting(MemoryStore):
    """Counts the events that are read, and can be told to have no snapshots or bad ones."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []
        self.lanes_asked = 0

    def scan(self, *args: Any, **options: Any) -> Iterator[Any]:
        for row in super().scan(*args, **options):
            self.read.append(row.seq)
            yield row

    def lanes(self, *args: Any, **options: Any) -> Any:
        self.lanes_asked += 1
        return super().lanes(*args, **options)


def without_snapshots(store: Any, run_id: str) -> None:
    for row in store.snapshots("default", run_id):
        store.delete_snapshot("default", run_id, row.seq)


@onrecord.step
def ask(value: Any) -> Any:
    tick()
    done.append(value)
    tick()
    return value


@onrecord.step
async def ask_later(value: Any) -> Any:
    tick()
    done.append(value)
    await asyncio.sleep(0)
    tick()
    return value


@onrecord.tool
def pay(cents: int) -> str:
    done.append(f"paid {cents}")
    return f"receipt {cents}"


@onrecord.agent
def plain(turns: int) -> Any:
    state = onrecord.restored() or {"turn": 0, "sum": 0}
    while state["turn"] < turns:
        tick()
        value = ask(state["turn"])
        onrecord.random()
        onrecord.set_state({"between": value})
        value += ask(100 * state["turn"])
        state = {"turn": state["turn"] + 1, "sum": state["sum"] + value}
        tick()
        onrecord.checkpoint(state)
        assert onrecord.state() == onrecord.restored() == state
    return [state, ask("end")]


async def _slow(seconds: float, value: Any) -> Any:
    await asyncio.sleep(seconds)
    return await ask_later(value)


@onrecord.agent
async def branching(turns: int) -> Any:
    state = onrecord.restored() or {"turn": 0, "seen": []}
    while state["turn"] < turns:
        turn = state["turn"]
        tick()
        seen = list(await asyncio.gather(*(ask_later(f"{turn}.{n}") for n in range(3))))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_slow(0.001 * (2 - n), f"{turn}-{n}")) for n in range(2)]
        seen += [task.result() for task in tasks]
        await onrecord.sleep(0)
        try:
            async with asyncio.timeout(0):
                await asyncio.sleep(10)
        except TimeoutError:
            seen.append("late")
        seen.append(await asyncio.to_thread(ask, f"job {turn}"))
        tick()
        state = {"turn": turn + 1, "seen": [*state["seen"], seen]}
        onrecord.checkpoint(state)
    return [state, await ask_later("end")]


@onrecord.step
def ask_in_thread(value: Any) -> Any:
    """A process does not end with a thread of it, so it does not die here."""
    done.append(value)
    return value


def _ask_into(seen: list[Any], value: Any) -> None:
    seen.append(ask_in_thread(value))


@onrecord.agent
def threaded(turns: int) -> Any:
    state = onrecord.restored() or {"turn": 0, "seen": []}
    while state["turn"] < turns:
        turn = state["turn"]
        seen: list[Any] = []
        tick()
        threads = [threading.Thread(target=_ask_into, args=(seen, f"{turn}.{number}")) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
            tick()
        with ThreadPoolExecutor(2) as pool:
            seen += pool.map(ask_in_thread, [f"{turn}-{n}" for n in range(2)])
        tick()
        seen.append(ask(turn))
        state = {"turn": turn + 1, "seen": [*state["seen"], sorted(map(str, seen))]}
        onrecord.checkpoint(state)
        tick()
    return state


AGENTS = (plain, branching, threaded)


class Refused:
    """The block is refused with that code, and told what to do instead. That the run has stopped passes through."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        assert error is not None, f"it was allowed, not refused as {self.code}"
        if not isinstance(error, InvalidInput):
            return False
        assert (error.code, bool(error.hint)) == (self.code, True)
        return True
