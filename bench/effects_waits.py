"""Runs that wait for an event, many in one process: memory of each, and what one resolution costs.

    python -m bench.effects_waits FOLDER COUNT

A process says how many bytes a waiting run takes, then answers each number with the seconds that so many resolutions
took, each from the resolution to the agent's next line. For each that went on another one begins to wait.
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

import reenact
from bench.effects_measuring import Child, Parent, own_keys
from bench.measuring import Row, Workplace
from reenact.core.wait_keys import Resolution, WaitIdentity
from reenact.effect.waits import WaitDesk
from reenact.effect.waits.wakeups import wake_ups_of

MANY, FEW = 1000, 10
WARM_UP = 20
ROUNDS = 10
NAME = "approval"


def waits(workplace: Workplace) -> Iterator[Row]:
    own_keys(workplace)
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


# In the processes


class Waiting:
    """So many runs of one agent that wait."""

    def __init__(self, folder: Path) -> None:
        self.store = reenact.open_store(f"sqlite:///{folder / 'waits.db'}")
        self.desk = WaitDesk(self.store)
        self.woken = 0.0
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._begun = 0
        self._agent = reenact.agent(self._wait, name="bench-waits", store=self.store)

    async def _wait(self) -> None:
        await reenact.wait_for(NAME)
        self.woken = time.perf_counter()

    async def begin(self, count: int) -> None:
        """Returns when all of them wait."""
        for _ in range(count):
            run = f"run-{self._begun}"
            self._begun += 1
            self.tasks[run] = asyncio.create_task(self._agent.run(run_id=run))
        waiting = wake_ups_of(self.store).waiting
        while waiting() < len(self.tasks):
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.02)

    async def resolve_one(self) -> float:
        run, task = next(iter(self.tasks.items()))
        key = self.desk.key(run, WaitIdentity.named(NAME, 1))
        del self.tasks[run]
        start = time.perf_counter()
        outcome = await asyncio.to_thread(self.desk.resolve, key, Resolution.ok(True))
        await task
        if outcome.status != "accepted":
            raise SystemExit(f"the resolution of the benchmark was not accepted: {outcome}")
        return self.woken - start


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def serve(folder: Path, count: int, parent: Parent) -> None:
    waiting = Waiting(folder)
    await waiting.begin(WARM_UP)
    for _ in range(WARM_UP):
        await waiting.resolve_one()
    before = resident_bytes()
    await waiting.begin(count)
    parent.say((resident_bytes() - before) / count)
    while (asked := await asyncio.to_thread(parent.asked)) is not None:
        walls = []
        for _ in range(int(asked)):
            walls.append(await waiting.resolve_one())
            await waiting.begin(1)
        parent.say(walls)
    parent.leave()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2]), Parent()))
