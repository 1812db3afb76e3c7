"""Measure a recorded HTTP call of an unchanged program, beside the same call without recording."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from bench.capture_server import LeanServer
from bench.child_process import Child, ChildFailed
from bench.measurement import Row, Timing, Workplace, use_own_keys

ROUNDS = 20
CALLS = {"get": "one GET", "model": "one model call", "post": "one other POST (at most once)"}
MUST_BE = 1.4
Found = dict[str, list[Timing]]


def recorded_child(workplace: Workplace, name: str, level: str, *arguments: str) -> Child:
    store = str(workplace.path(f"{name}.db"))
    return Child("bench.capture_recorded", store, level, *arguments, log=workplace.path(f"{name}.log"))


def plain_child(workplace: Workplace, name: str, *arguments: str) -> Child:
    return Child("bench.capture_calls", *arguments, log=workplace.path(f"{name}.log"))


def time_calls(child: Child, count: int) -> Timing:
    """Return the time of one call, measured outside the program: its own clock reads would be recorded."""
    wall, cpu = time.perf_counter(), child.cpu_seconds()
    child.ask(count)
    return Timing((time.perf_counter() - wall) / count * 1e6, (child.cpu_seconds() - cpu) / count * 1e6)


def measure_capture(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    each = max(10, workplace.count(2000, least=200) // ROUNDS)
    for call, title in CALLS.items():
        server = LeanServer()
        try:
            yield from _measure_call(workplace, server.url, call, title, each)
        finally:
            server.stop()


def _measure_call(workplace: Workplace, url: str, call: str, title: str, each: int) -> Iterator[Row]:
    children = {
        "plain": plain_child(workplace, f"plain-{call}", call, url),
        "floor": plain_child(workplace, f"floor-{call}", f"floor-{call}", url, str(workplace.path(f"floor-{call}.db"))),
        "full": recorded_child(workplace, f"full-{call}", "full", "run", call, url),
        "relaxed": recorded_child(workplace, f"relaxed-{call}", "relaxed", "run", call, url),
    }
    try:
        cassette = str(workplace.path(f"{call}.yaml"))
        children["vcrpy"] = plain_child(workplace, f"vcrpy-{call}", f"vcrpy-{call}", url, cassette)
    except ChildFailed as failure:
        yield Row(f"{title} recorded by vcrpy", f"could not be measured: {failure}", "shown", None)
    found: Found = {name: [] for name in children}
    for turn in range(ROUNDS + 1):
        for name, child in children.items():
            timing = time_calls(child, each)
            if turn:  # the first round warms up
                found[name].append(timing)
    for child in children.values():
        child.close()
    yield _row(
        f"{title} of httpx on loopback, recorded", found, "full", "floor", "plain call + one bare durable commit", call
    )
    yield _row("the same at the relaxed level", found, "relaxed", "plain", "plain call", call)
    if "vcrpy" in found:
        ratio = _ratio(found, "vcrpy", "plain")
        yield Row(
            f"the same recorded by vcrpy {_version('vcrpy')}, which writes nothing before the end",
            f"{ratio:.2f} × the plain call ({_format_times(found, 'vcrpy')})",
            "shown",
            None,
        )


def _row(what: str, found: Found, ours: str, floor: str, floor_title: str, call: str) -> Row:
    ratio = _ratio(found, ours, floor)
    judged = call != "post"  # a post needs two syncs, and its floor has one
    return Row(
        what,
        f"{ratio:.2f} × ({_format_times(found, ours)}; {floor_title} {_format_times(found, floor)})",
        f"≤ {MUST_BE} ×" if judged else "shown",
        ratio <= MUST_BE if judged else None,
    )


def _ratio(found: Found, one: str, other: str) -> float:
    return statistics.median(a.wall_us / b.wall_us for a, b in zip(found[one], found[other], strict=True))


def _format_times(found: Found, name: str) -> str:
    wall = statistics.median(timing.wall_us for timing in found[name])
    cpu = statistics.median(timing.cpu_us for timing in found[name])
    return f"{wall:.0f} µs, {cpu:.0f} of processor time"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
