"""Measure a recorded stream: when its first part reaches the program, and whether any part is delayed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from bench.capture import plain_child, recorded_child
from bench.capture_server import STREAM_GAP_SECONDS, STREAM_PARTS, LeanServer
from bench.child_process import Child
from bench.measurement import Row, Workplace, use_own_keys

MUST_BE = 1.2
PATHS = {"/stream/thinking": "it comes after 10 ms, like the others", "/stream": "it comes at once"}


def measure_stream(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    server = LeanServer()
    plain = plain_child(workplace, "stream-plain", "stream", server.url)
    recorded = recorded_child(workplace, "stream-recorded", "full", "run", "stream", server.url)
    for path, title in PATHS.items():
        yield from _measure_first_part(plain, recorded, path, title, workplace.count(40, least=10))
    for _ in range(STREAM_PARTS):
        _read_gated_stream(server, recorded)
    late = server.late
    plain.close()
    recorded.close()
    server.stop()
    parts = STREAM_PARTS * STREAM_PARTS
    yield Row("parts that the program had before the next was sent", f"{parts - late} of {parts}", "all", late == 0)


def _measure_first_part(plain: Child, recorded: Child, path: str, title: str, times: int) -> Iterator[Row]:
    first: dict[str, list[float]] = {"plain": [], "recorded": []}
    whole: dict[str, list[float]] = {"plain": [], "recorded": []}
    for turn in range(times + 1):
        for name, child in (("plain", plain), ("recorded", recorded)):
            soon, late = _time_stream(child, path)
            if turn:  # the first one warms up
                first[name].append(soon)
                whole[name].append(late)
    ratio = _ratio(first)
    duration = STREAM_PARTS * STREAM_GAP_SECONDS * 1000
    yield Row(
        f"the first part of a stream of {duration:.0f} ms, while it is recorded: {title}",
        f"{ratio:.2f} × ({_ms(first['recorded']):.2f} ms; not recorded {_ms(first['plain']):.2f} ms)",
        f"≤ {MUST_BE} ×",
        ratio <= MUST_BE,
    )
    yield Row(
        "its end",
        f"{_ratio(whole):.2f} × ({_ms(whole['recorded']):.1f} ms; not recorded {_ms(whole['plain']):.1f} ms)",
        "shown",
        None,
    )


def _time_stream(child: Child, path: str) -> tuple[float, float]:
    start = time.perf_counter()
    part = child.ask(path)
    first = time.perf_counter() - start
    while part is not None:
        part = child.ask("next")
    return first, time.perf_counter() - start


def _read_gated_stream(server: LeanServer, child: Child) -> None:
    """Release each part once the program has received the previous one."""
    server.release_part()
    part = child.ask("/stream/gated")
    while part is not None:
        server.release_part()
        part = child.ask("next")


def _ratio(found: dict[str, list[float]]) -> float:
    return statistics.median(ours / floor for ours, floor in zip(found["recorded"], found["plain"], strict=True))


def _ms(times: list[float]) -> float:
    return statistics.median(times) * 1000
