"""How long people wait for the command line: `reenact --help` and `reenact ls`, each in a process of its own."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.effects_measuring import own_keys
from bench.importing import FLOOR
from bench.measuring import Row, Workplace

MUST_HELP, MUST_LIST = 1.5, 2.0
RUNS = 60
"""More than `ls` shows."""


def commands(workplace: Workplace) -> Iterator[Row]:
    own_keys(workplace)
    store = str(workplace.path("listed.db"))
    _record(store)
    reenact = os.path.join(os.path.dirname(sys.executable), "reenact")
    measured = {
        "floor": [sys.executable, "-c", FLOOR],
        "help": [reenact, "--help"],
        "ls": [reenact, "ls", "--store", store],
        "completing": [reenact],
    }
    found = _timed(measured, workplace.count(40, least=8))
    floor = statistics.median(found["floor"]) * 1000
    for name, what, must in (
        ("help", "`reenact --help`, cold", MUST_HELP),
        ("ls", f"`reenact ls` of a store with {RUNS} runs, cold", MUST_LIST),
        ("completing", "the shell completes a run id", None),
    ):
        ratio = statistics.median(ours / other for ours, other in zip(found[name], found["floor"], strict=True))
        took = statistics.median(found[name]) * 1000
        yield Row(
            what,
            f"{ratio:.2f} × ({took:.0f} ms; `{FLOOR}` {floor:.0f} ms)",
            f"≤ {must:g} ×" if must is not None else "",
            ratio <= must if must is not None else None,
        )


def _record(store: str) -> None:
    from reenact import Journal, open_store
    from reenact.core.events import Completed, StateUpdated

    opened = open_store(store)
    for number in range(RUNS):
        with Journal.create(opened, f"run-{number:03}", facts={"agent": "bench"}) as journal:
            journal.append([StateUpdated(payload=number), Completed(output=number)])
    opened.close()


def _timed(measured: dict[str, list[str]], rounds: int) -> dict[str, list[float]]:
    """Interleaved. The first round leaves compiled modules behind for the others, as an installation does."""
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    words = {"_REENACT_COMPLETE": "bash_complete", "COMP_CWORD": "4"}
    words["COMP_WORDS"] = f"reenact show --store {measured['ls'][-1]} run-0"
    found: dict[str, list[float]] = {name: [] for name in measured}
    for turn in range(rounds + 1):
        for name, command in measured.items():
            environment = {**plain, **words} if name == "completing" else plain
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=environment)
            if turn:
                found[name].append(time.perf_counter() - start)
    return found
