"""Measure the start of the command line: `onrecord --help` and `onrecord ls`, each in a new process."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.import_time import FLOOR
from bench.measurement import Row, Workplace, use_own_keys

MUST_HELP, MUST_LIST = 1.5, 2.0
RUNS = 60
"""More runs than `ls` shows."""


def measure_commands(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    store = str(workplace.path("listed.db"))
    _record_runs(store)
    onrecord = os.path.join(os.path.dirname(sys.executable), "onrecord")
    measured = {
        "floor": [sys.executable, "-c", FLOOR],
        "help": [onrecord, "--help"],
        "ls": [onrecord, "ls", "--store", store],
        "completing": [onrecord],
    }
    found = _time_commands(measured, workplace.count(40, least=8))
    floor = statistics.median(found["floor"]) * 1000
    for name, what, must in (
        ("help", "`onrecord --help`, cold", MUST_HELP),
        ("ls", f"`onrecord ls` of a store with {RUNS} runs, cold", MUST_LIST),
        ("completing", "the shell completes a run id", None),
    ):
        ratio = statistics.median(ours / other for ours, other in zip(found[name], found["floor"], strict=True))
        milliseconds = statistics.median(found[name]) * 1000
        yield Row(
            what,
            f"{ratio:.2f} × ({milliseconds:.0f} ms; `{FLOOR}` {floor:.0f} ms)",
            f"≤ {must:g} ×" if must is not None else "",
            ratio <= must if must is not None else None,
        )


def _record_runs(store: str) -> None:
    from onrecord import Journal, open_store
    from onrecord.core.events import Completed, StateUpdated

    opened = open_store(store)
    for number in range(RUNS):
        with Journal.create(opened, f"run-{number:03}", facts={"agent": "bench"}) as journal:
            journal.append([StateUpdated(payload=number), Completed(output=number)])
    opened.close()


def _time_commands(measured: dict[str, list[str]], rounds: int) -> dict[str, list[float]]:
    """Time the commands, interleaved. The first round compiles the modules for the others, as an installation does."""
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    words = {"_ONRECORD_COMPLETE": "bash_complete", "COMP_CWORD": "4"}
    words["COMP_WORDS"] = f"onrecord show --store {measured['ls'][-1]} run-0"
    found: dict[str, list[float]] = {name: [] for name in measured}
    for turn in range(rounds + 1):
        for name, command in measured.items():
            environment = {**plain, **words} if name == "completing" else plain
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=environment)
            if turn:
                found[name].append(time.perf_counter() - start)
    return found
