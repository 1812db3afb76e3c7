"""What the measurements of effects share."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.measuring import Timing, Workplace


def own_keys(workplace: Workplace) -> None:
    """The secrets of waits are made in the workplace; the user's own are not touched."""
    os.environ["REENACT_KEY_FILE"] = str(workplace.path("keys.json"))


async def measure_async(act: Callable[[int], Awaitable[Any]], times: int, first: int = 0) -> Timing:
    """`measure` for what is awaited."""
    walls, cpus = [], []
    for number in range(first, first + times):
        wall, cpu = time.perf_counter(), time.thread_time()
        await act(number)
        cpus.append(time.thread_time() - cpu)
        walls.append(time.perf_counter() - wall)
    return Timing(statistics.median(walls) * 1e6, statistics.median(cpus) * 1e6)


class Rounds:
    """The timings of several acts, round by round; the first act is the floor."""

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
        """Medians of the wall ratios against the floor of the same round."""
        per_round = [[timing.wall_us / timings[0].wall_us for timing in timings] for timings in self._rounds]
        return [statistics.median(found) for found in zip(*per_round, strict=True)]


class ChildFailed(Exception):
    """A measuring process ended; the message is the last that it said."""


class Child:
    """A measuring process of its own: takes a line, does its work, answers with a line of JSON."""

    def __init__(self, module: str, *arguments: str, log: Path) -> None:
        self._log = log
        with log.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                cwd=Path(__file__).parents[1],
            )
        self.hello = self._answer()

    def cpu_seconds(self) -> float:
        """Of all its threads so far: unlike the wall's, its clock stands while others have the processor."""
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def ask(self, line: object) -> Any:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ChildFailed(self._last_words()) from None
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise ChildFailed(self._last_words())
        return json.loads(line)

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][:160] if lines else "it said nothing"

    def close(self) -> None:
        """Closing its input ends it; one that does not end is ended."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Parent:
    """The other end of a `Child`: answers go to what was standard output, whatever else is printed to the log."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def say(self, answer: Any) -> None:
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()

    def asked(self) -> str | None:
        """The next line; None when there is nobody any more."""
        line = sys.stdin.readline()
        return line.strip() if line else None

    def leave(self) -> None:
        """Ends the process as it stands: what it was waiting for will not come."""
        self._answers.flush()
        os._exit(0)
