"""Measure the verification of a million events, beside a bare scan that hashes the same bytes."""

from __future__ import annotations

import hashlib
import multiprocessing
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.append import TEXT
from bench.bare_events import bare_connection, bare_events
from bench.measurement import Row, Workplace, measure_seconds
from onrecord import ActionRequested, ActionSucceeded, Completed, Journal, open_store, verify_run

EVENTS = 1_000_000
BATCH = 1000


def record(path: Path, events: int) -> None:
    store = open_store(f"sqlite:///{path}", durability="relaxed")
    journal = Journal.create(store, "million")
    for start in range(0, events - 1, BATCH):
        batch = []
        for number in range(start, min(start + BATCH, events - 1)):
            pair = number // 2
            if number % 2 == 0:
                batch.append(ActionRequested(action_id=f"a{pair}", name="ask", payload={"text": TEXT, "n": pair}))
            else:
                batch.append(ActionSucceeded(action_id=f"a{pair}", output={"text": TEXT, "n": pair}))
        journal.append(batch, sync=False)
    journal.append(Completed())
    store.close()


def bare_scan(path: Path) -> int:
    """Read the same bytes and hash links and contents, as the floor."""
    sha256, count = hashlib.sha256, 0
    for _, _, _, _, _, link, _, salt, match, _, content in bare_events(bare_connection(path)):
        sha256(link).digest()
        sha256(salt + match + content).digest()
        count += 1
    return count


def verify_store(path: Path, processes: int) -> None:
    store = open_store(f"sqlite:///{path}", read_only=True)
    report = verify_run(store, "million", processes=processes)
    if not report.valid:
        raise SystemExit(f"the benchmark's own run does not verify: {report.problems[:3]}")
    store.close()


def _peak_memory_mb(path: Path, answer: multiprocessing.Queue[float]) -> None:
    verify_store(path, 1)
    # Not ru_maxrss, which a process inherits from its parent over exec.
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    answer.put(int(peak[1]) / 1024 if peak else float("nan"))


def measure_verify(workplace: Workplace) -> Iterator[Row]:
    path = workplace.path("million.db")
    events = workplace.count(EVENTS)
    record(path, events)
    bare_scan(path)
    scans, singles, doubles = [], [], []
    for _ in range(3):
        scans.append(measure_seconds(lambda: bare_scan(path)))
        singles.append(measure_seconds(lambda: verify_store(path, 1)))
        doubles.append(measure_seconds(lambda: verify_store(path, 2)))
    scan, single, double = map(statistics.median, (scans, singles, doubles))
    yield Row(
        f"verify a {events:,}-event run, one process",
        f"{scan / single:.2f} × a bare scan + SHA-256 ({single:.1f} s; bare {scan:.1f} s; {events / single:,.0f}/s)",
        "≥ 0.35 ×",
        scan / single >= 0.35,
    )
    yield Row(
        "the same, two processes", f"{single / double:.2f} × one ({double:.1f} s)", "≥ 1.7 ×", single / double >= 1.7
    )
    context = multiprocessing.get_context("spawn")
    answer: multiprocessing.Queue[float] = context.Queue()
    child = context.Process(target=_peak_memory_mb, args=(path, answer))
    child.start()
    peak = answer.get()
    child.join()
    yield Row("its peak memory", f"{peak:.0f} MB", "< 200 MB", peak < 200)
