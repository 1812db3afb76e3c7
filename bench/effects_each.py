"""Measure one effect of a run in each way that an agent asks for it: record and replay, in memory and in SQLite.

    python -m bench.effects_each FOLDER [STEPS]

The process prints the microseconds of each as JSON, so that two versions can be measured in turns.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onrecord
from bench.measurement import Row, Workplace, use_own_keys

STEPS = 3_000
TASKS = 64
ROUNDS = 3


@onrecord.step
def look_up(number: int) -> int:
    return number


@onrecord.step
async def look_up_async(number: int) -> int:
    return number


def measure_each(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    for what, microseconds in measure_kinds(workplace.folder, workplace.count(STEPS, least=200)).items():
        yield Row(what, f"{microseconds:.0f} µs", "shown", None)


def measure_kinds(folder: Path, steps: int) -> dict[str, float]:
    """Return the least microseconds of one effect, by kind of store, of agent and of run."""
    found: dict[str, list[float]] = {}
    for turn in range(ROUNDS):
        for url in ("memory://", f"sqlite:///{folder / f'each-{turn}.db'}"):
            store = onrecord.open_store(url)
            for how, (record, replay) in _make_agents(store, steps).items():
                place = f"{url.partition(':')[0]}, {how}"
                found.setdefault(f"recording one effect: {place}", []).append(_measure(record) / steps)
                found.setdefault(f"replaying one effect: {place}", []).append(_measure(replay) / steps)
            store.close()
    return {what: min(each) for what, each in found.items()}


def _measure(act: Callable[[], Any]) -> float:
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1e6


def _make_agents(store: Any, steps: int) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    @onrecord.agent(name="each-sync", store=store)
    def work() -> None:
        for number in range(steps):
            look_up(number)

    @onrecord.agent(name="each-async", store=store)
    async def work_async() -> None:
        for number in range(steps):
            await look_up_async(number)

    async def branch(first: int) -> None:
        for number in range(first, steps, TASKS):
            await look_up_async(number)

    @onrecord.agent(name="each-tasks", store=store)
    async def work_in_tasks() -> None:
        await asyncio.gather(*(branch(first) for first in range(TASKS)))

    return {
        "sync": (lambda: work.run(run_id="sync"), lambda: work.replay("sync")),
        "async": (lambda: asyncio.run(work_async.run(run_id="async")), lambda: asyncio.run(work_async.replay("async"))),
        f"{TASKS} tasks": (
            lambda: asyncio.run(work_in_tasks.run(run_id="tasks")),
            lambda: asyncio.run(work_in_tasks.replay("tasks")),
        ),
    }


if __name__ == "__main__":
    print(json.dumps(measure_kinds(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else STEPS)))
