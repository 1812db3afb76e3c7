"""Measure the search for the first divergence of two long runs, and the alignment of the rest."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator

from bench.measurement import Row, Workplace, measure_seconds
from onrecord import ActionRequested, ActionSucceeded, Journal, StateUpdated, Store, open_store
from onrecord.analysis.diff.bisection import find_divergences, open_pair
from onrecord.analysis.diff.runs import compare_runs
from onrecord.core.events import Event

BATCH = 2_000
SHARE_CHANGED = 0.01
ROUNDS = 3


def measure_divergence(workplace: Workplace) -> Iterator[Row]:
    store = open_store(f"sqlite:///{workplace.path('diverging.db')}", durability="relaxed")
    yield from _measure_bisection(store, workplace.count(1_000_000, least=10_000))
    yield from _measure_alignment(store, workplace)
    store.close()


def _measure_bisection(store: Store, length: int) -> Iterator[Row]:
    odd = length * 2 // 3
    for run in ("long-a", "long-b"):
        _write_run(store, run, (StateUpdated(number if number != odd else run) for number in range(length)))
    pair = open_pair(store, "long-a", store, "long-b")
    found = []
    seconds = measure_seconds(lambda: found.append(find_divergences(*pair)))
    (divergences,) = found
    place, reads = divergences.lanes[0].place, divergences.reads["0"]
    yield Row(
        f"first divergence of two runs of {length:,} events",
        f"{reads} digests read ({seconds * 1000:.1f} ms)",
        "≤ 60 in a lane",
        place == odd + 1 and reads <= 60,
    )


def _measure_alignment(store: Store, workplace: Workplace) -> Iterator[Row]:
    per_event = {}
    for length in (1_000, workplace.count(50_000, least=5_000)):
        for side in ("a", "b"):
            _write_run(store, f"{side}-{length}", _make_events(length, random.Random(1), side))
        runs = (store, f"a-{length}", store, f"b-{length}")
        times = [_processor_seconds(lambda runs=runs: compare_runs(*runs, most_shown=20)) for _ in range(ROUNDS)]
        per_event[length] = statistics.median(times) / length * 1e6
    (short, long), (short_us, long_us) = per_event.keys(), per_event.values()
    ratio = long_us / short_us
    yield Row(
        f"aligning runs that differ in 1 %, processor time per event, {long:,} against {short:,}",
        f"{ratio:.2f} × ({long_us:.1f} µs against {short_us:.1f} µs)",
        "≤ 1.5 ×",
        ratio <= 1.5,
    )


def _processor_seconds(act: Callable[[], object]) -> float:
    start = time.process_time()
    act()
    return time.process_time() - start


def _make_events(length: int, chance: random.Random, side: str) -> Iterator[Event]:
    """Yield calls and their answers. In the second run one call of a hundred differs or is missing."""
    for number in range(length // 2):
        fate = chance.random()
        other = side == "b" and fate < SHARE_CHANGED
        if other and fate < SHARE_CHANGED / 3:
            continue
        question = f"other {number}" if other else f"question {number % (length // 4)}"
        yield ActionRequested(f"a{number}", {"question": question})
        yield ActionSucceeded(f"a{number}", {"answer": number % 50})


def _write_run(store: Store, run: str, events: Iterator[Event]) -> None:
    journal = Journal.create(store, run)
    batch: list[Event] = []
    for event in events:
        batch.append(event)
        if len(batch) == BATCH:
            journal.append(batch, sync=False)
            batch = []
    if batch:
        journal.append(batch, sync=False)
    journal.release()
