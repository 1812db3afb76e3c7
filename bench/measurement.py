"""How things are measured: interleaved, medians, on a real disk."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    what: str
    measured: str
    must_be: str
    holds: bool | None
    """None: shown for comparison, nothing is claimed."""

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
    """A folder on a real disk, removed at the end. REENACT_BENCH_DIR says where; by default beside the project."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __enter__(self) -> Workplace:
        parent = os.environ.get("REENACT_BENCH_DIR") or str(Path(__file__).parents[1])
        self.folder = Path(tempfile.mkdtemp(prefix=".bench-", dir=parent))
        if self.file_system() in ("tmpfs", "ramfs"):
            raise SystemExit(f"{parent} is a {self.file_system()}: give a folder on a disk as REENACT_BENCH_DIR")
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
    """Median wall and processor time of one call."""
    walls, cpus = [], []
    for number in range(first, first + times):
        wall, cpu = time.perf_counter(), time.thread_time()
        act(number)
        cpus.append(time.thread_time() - cpu)
        walls.append(time.perf_counter() - wall)
    return Timing(statistics.median(walls) * 1e6, statistics.median(cpus) * 1e6)


def interleaved(acts: list[Callable[[int], object]], times: int, rounds: int = 10) -> tuple[list[Timing], list[float]]:
    """Each act in turn, several rounds: medians over rounds, and per-round wall ratios against the first act."""
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


def elapsed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start
