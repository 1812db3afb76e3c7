"""Measure interleaved, in medians, on a real disk."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple


class Row(NamedTuple):
    what: str
    measured: str
    must_be: str
    holds: bool | None
    """None if the row is only shown for comparison."""

    def line(self) -> str:
        mark = {True: "ok", False: "NOT MET", None: ""}[self.holds]
        return f"{self.what:66} {self.measured:54} {self.must_be:22} {mark}"

    def markdown(self) -> str:
        mark = {True: "✔", False: "✘ not met", None: ""}[self.holds]
        return f"| {self.what} | {self.measured} | {self.must_be} | {mark} |"


class Timing(NamedTuple):
    wall_us: float
    cpu_us: float


class Workplace:
    """A temporary folder on a real disk, in ONRECORD_BENCH_DIR or in the project's folder."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __enter__(self) -> Workplace:
        parent = os.environ.get("ONRECORD_BENCH_DIR") or str(Path(__file__).parents[1])
        self.folder = Path(tempfile.mkdtemp(prefix=".bench-", dir=parent))
        if self.file_system() in ("tmpfs", "ramfs"):
            raise SystemExit(f"{parent} is a {self.file_system()}: give a folder on a disk as ONRECORD_BENCH_DIR")
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name: str) -> Path:
        return self.folder / name

    def count(self, full: int, least: int = 10) -> int:
        return max(least, int(full * self.scale))

    def file_system(self) -> str:
        best, kind = "", "?"
        for line in Path("/proc/mounts").read_text().splitlines():
            _, point, found, *_ = line.split()
            if str(self.folder).startswith(point) and len(point) >= len(best):
                best, kind = point, found
        return kind

    def describe(self) -> str:
        return f"{os.cpu_count()} cores, {self.file_system()}"

    def fsync_us(self) -> float:
        descriptor = os.open(self.path("fsync"), os.O_RDWR | os.O_CREAT)
        try:
            block = b"x" * 4096

            def once(number: int) -> None:
                os.pwrite(descriptor, block, number * 4096)
                os.fdatasync(descriptor)

            return measure(once, 200).wall_us
        finally:
            os.close(descriptor)


def measure(act: Callable[[int], object], times: int, first: int = 0) -> Timing:
    """Return the median wall and processor time of one call."""
    walls, cpus = [], []
    for number in range(first, first + times):
        wall, cpu = time.perf_counter(), time.thread_time()
        act(number)
        cpus.append(time.thread_time() - cpu)
        walls.append(time.perf_counter() - wall)
    return Timing(statistics.median(walls) * 1e6, statistics.median(cpus) * 1e6)


def measure_interleaved(
    acts: list[Callable[[int], object]], times: int, rounds: int = 10
) -> tuple[list[Timing], list[float]]:
    """Measure each act in turn, in several rounds. Return medians, and medians of the wall ratios to the first act."""
    each = max(1, times // rounds)
    timings: list[list[Timing]] = [[] for _ in acts]
    for turn in range(rounds):
        for position, act in enumerate(acts):
            timings[position].append(measure(act, each, first=turn * each))
    medians = [
        Timing(statistics.median(t.wall_us for t in found), statistics.median(t.cpu_us for t in found))
        for found in timings
    ]
    ratios = [
        statistics.median(t.wall_us / floor.wall_us for t, floor in zip(found, timings[0], strict=True))
        for found in timings
    ]
    return medians, ratios


def measure_seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def use_own_keys(workplace: Workplace) -> None:
    """Keep the secrets of waits in the workplace, not in the user's key file."""
    os.environ["ONRECORD_KEY_FILE"] = str(workplace.path("keys.json"))


async def measure_async(act: Callable[[int], Awaitable[Any]], times: int, first: int = 0) -> Timing:
    """Return the median wall and processor time of one awaited call."""
    walls, cpus = [], []
    for number in range(first, first + times):
        wall, cpu = time.perf_counter(), time.thread_time()
        await act(number)
        cpus.append(time.thread_time() - cpu)
        walls.append(time.perf_counter() - wall)
    return Timing(statistics.median(walls) * 1e6, statistics.median(cpus) * 1e6)


class Rounds:
    """Timings of several acts, round by round; the first act is the floor."""

    def __init__(self) -> None:
        self._rounds: list[list[Timing]] = []

    def add(self, timings: list[Timing]) -> None:
        self._rounds.append(timings)

    def medians(self) -> list[Timing]:
        return [
            Timing(statistics.median(t.wall_us for t in found), statistics.median(t.cpu_us for t in found))
            for found in zip(*self._rounds, strict=True)
        ]

    def ratios(self) -> list[float]:
        """Return the medians of the wall ratios to the floor of the same round."""
        per_round = [[timing.wall_us / timings[0].wall_us for timing in timings] for timings in self._rounds]
        return [statistics.median(found) for found in zip(*per_round, strict=True)]
