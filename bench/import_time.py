"""Measure `import onrecord` in a fresh interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.measurement import Row, Workplace

FLOOR = "import asyncio, json, msgspec, apsw"
OPTIONAL = ("psycopg", "cryptography", "rich", "click", "starlette", "pydantic")


def _time_fresh_process(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def measure_import(workplace: Workplace) -> Iterator[Row]:
    codes = [FLOOR, "import onrecord", "import onrecord; onrecord.Journal, onrecord.open_store, onrecord.Completed"]
    found: list[list[float]] = [[] for _ in codes]
    for _ in range(workplace.count(25, least=5)):
        for position, code in enumerate(codes):
            found[position].append(_time_fresh_process(code))
    floor, bare, used = (statistics.median(times) * 1000 for times in found)
    loaded = subprocess.run(
        [sys.executable, "-c", f"import onrecord, sys; print([n for n in {OPTIONAL!r} if n in sys.modules])"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    yield Row(
        "`import onrecord` in a fresh interpreter",
        f"{bare / floor:.2f} × ({bare:.0f} ms; floor {floor:.0f} ms); optional modules loaded: {loaded}",
        "≤ 1.5 ×, none",
        bare <= 1.5 * floor and loaded == "[]",
    )
    yield Row(
        "the same with `Journal`, `open_store` and an event loaded",
        f"{used / floor:.2f} × ({used:.0f} ms)",
        "≤ 1.5 ×",
        used <= 1.5 * floor,
    )
