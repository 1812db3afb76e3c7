"""Measure waiting runs, many in one process: the memory of each, and the cost of one resolution.

    python -m bench.effects_waits FOLDER COUNT

A process prints the bytes of a waiting run, then answers each number with the seconds of that many resolutions, each
from the resolution to the agent's next line. Another run begins to wait for each that continues.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import onrecord
from bench.child_process import Child, Parent
from bench.measurement import Row, Workplace, use_own_keys
from onrecord.core.wait_keys import Resolution, WaitIdentity
from onrecord.runtime.waits import WaitRegistry
from onrecord.runtime.waits.notifier import get_notifier

MANY, FEW = 1000, 10
WARM_UP = 20
ROUNDS = 10
NAME = "approval"


def measure_waits(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    children: dict[int, Child] = {}
    many = workplace.count(MANY, least=200)
    for count in (FEW, many):
        folder = workplace.path(f"waits-{count}")
        folder.mkdir()
        log = workplace.path(f"waits-{count}.log")
        children[count] = Child("bench.effects_waits", str(folder), str(count), log=log)
    each = max(1, workplace.count(300, least=50) // ROUNDS)
    found: dict[int, list[float]] = {count: [] for count in children}
    for turn in range(ROUNDS + 1):
        for count, child in children.items():
            walls = child.ask(each)
            if turn:  # the first round warms up
                found[count].append(statistics.median(walls))
    for child in children.values():
        child.close()
    bytes_each = children[many].hello
    yield Row(
        f"memory of a run that waits on an event, {many:,} in one process",
        f"{bytes_each / 1024:.1f} KB each (resident)",
        "≤ 64 KB",
        bytes_each <= 64 * 1024,
    )
    ratio = statistics.median(late / early for late, early in zip(found[many], found[FEW], strict=True))
    yield Row(
        f"one resolution, to the agent's next line, with {many:,} waiting against {FEW}",
        f"{ratio:.2f} × ({statistics.median(found[many]) * 1e6:.0f} µs against "
        f"{statistics.median(found[FEW]) * 1e6:.0f} µs)",
        "flat: ≤ 1.2 ×",
        ratio <= 1.2,
    )


class WaitingRuns:
    """Waiting runs of one agent."""

    def __init__(self, folder: Path) -> None:
        self.store = onrecord.open_store(f"sqlite:///{folder / 'waits.db'}")
        self.registry = WaitRegistry(self.store)
        self.resumed_at = 0.0
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._started = 0
        self._agent = onrecord.agent(self._wait, name="bench-waits", store=self.store)

    async def _wait(self) -> None:
        await onrecord.wait_for(NAME)
        self.resumed_at = time.perf_counter()

    async def start(self, count: int) -> None:
        """Start `count` runs and return when all of them wait."""
        for _ in range(count):
            run = f"run-{self._started}"
            self._started += 1
            self.tasks[run] = asyncio.create_task(self._agent.run(run_id=run))
        waiting = get_notifier(self.store).count_waiters
        while waiting() < len(self.tasks):
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.02)

    async def resolve_one(self) -> float:
        run, task = next(iter(self.tasks.items()))
        key = self.registry.key(run, WaitIdentity.named(NAME, 1))
        del self.tasks[run]
        resolved_at = time.perf_counter()
        outcome = await asyncio.to_thread(self.registry.resolve, key, Resolution.ok(True))
        await task
        if outcome.status != "accepted":
            raise SystemExit(f"the resolution of the benchmark was not accepted: {outcome}")
        return self.resumed_at - resolved_at


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def serve(folder: Path, count: int, parent: Parent) -> None:
    waiting = WaitingRuns(folder)
    await waiting.start(WARM_UP)
    for _ in range(WARM_UP):
        await waiting.resolve_one()
    before = resident_bytes()
    await waiting.start(count)
    parent.say((resident_bytes() - before) / count)
    while (line := await asyncio.to_thread(parent.next_line)) is not None:
        walls = []
        for _ in range(int(line)):
            walls.append(await waiting.resolve_one())
            await waiting.start(1)
        parent.say(walls)
    parent.exit_now()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), Parent()))
