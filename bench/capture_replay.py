"""Measure replayed HTTP calls: the cost of one among a hundred and among ten thousand, beside vcrpy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from bench.capture import plain_child, recorded_child, time_calls
from bench.capture_server import LeanServer
from bench.child_process import ChildFailed
from bench.measurement import Row, Timing, Workplace, use_own_keys

ROUNDS = 5
FLAT = 1.5
FASTER = 20


def measure_call_replay(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    server = LeanServer()
    sizes = [100, workplace.count(1000, least=200), workplace.count(10_000, least=1000)]
    for count in sizes:
        child = recorded_child(workplace, f"replay-{count}", "relaxed", "run", "get", server.url)
        child.ask(count)
        child.close()
    recorded_requests = server.requests
    found: dict[int, list[Timing]] = {count: [] for count in sizes}
    startup_times: dict[int, list[float]] = {count: [] for count in sizes}
    for _ in range(ROUNDS):
        for count in sizes:
            start = time.perf_counter()
            child = recorded_child(workplace, f"replay-{count}", "full", "replay")
            startup_times[count].append(time.perf_counter() - start)
            found[count].append(time_calls(child, count))
            child.close()
    if server.requests != recorded_requests:
        raise SystemExit("a replay made a live request")
    costs = {
        count: Timing(statistics.median(t.wall_us for t in times), statistics.median(t.cpu_us for t in times))
        for count, times in found.items()
    }
    few, many = costs[sizes[0]].cpu_us, costs[sizes[-1]].cpu_us
    shown = ", ".join(f"{cost.cpu_us:.0f} µs among {count:,}" for count, cost in costs.items())
    yield Row(
        f"one replayed call: flat from {sizes[0]:,} to {sizes[-1]:,}",
        f"{many / few:.2f} × ({shown}; processor time)",
        f"≤ {FLAT} ×",
        many <= FLAT * few,
    )
    yield Row(
        "until the program runs, its record opened",
        ", ".join(f"{statistics.median(times) * 1000:.0f} ms for {count:,}" for count, times in startup_times.items()),
        "shown",
        None,
    )
    yield from _measure_vcrpy(workplace, server, sizes[1], costs[sizes[1]])
    server.stop()


def _measure_vcrpy(workplace: Workplace, server: LeanServer, count: int, ours: Timing) -> Iterator[Row]:
    cassette = str(workplace.path("replayed.yaml"))
    try:
        child = plain_child(workplace, "vcrpy-recording", "vcrpy", server.url, cassette)
        child.ask(count)
        child.close()
        child = plain_child(workplace, "vcrpy-replaying", "vcrpy-replay", server.url, cassette)
        theirs = time_calls(child, count)
        child.close()
    except ChildFailed as failure:
        yield Row(f"one call of {count:,} replayed by vcrpy", f"could not be measured: {failure}", "shown", None)
        return
    yield Row(
        f"one call of {count:,} replayed by vcrpy",
        f"{theirs.wall_us / ours.wall_us:.0f} × ours ({theirs.wall_us:,.0f} µs against {ours.wall_us:.0f} µs; of "
        f"processor time {theirs.cpu_us:,.0f} against {ours.cpu_us:.0f})",
        f"≥ {FASTER} ×",
        theirs.wall_us >= FASTER * ours.wall_us,
    )
