"""A stream while it is recorded: when its first part reaches the program, and whether any part is held back."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from bench.capture import plain_child, recorded_child
from bench.capture_server import STREAM_GAP_SECONDS, STREAM_PARTS, LeanServer
from bench.effects_measuring import Child, own_keys
from bench.measuring import Row, Workplace

MUST_BE = 1.2
PATHS = {
    "/stream/thinking": "it comes after 10 ms, like the others",
    "/stream": "it comes at once",
}


def streaming(workplace: Workplace) -> Iterator[Row]:
    own_keys(workplace)
    server = LeanServer()
    plain = plain_child(workplace, "stream-plain", "stream", server.url)
    recorded = recorded_child(workplace, "stream-recorded", "full", "run", "stream", server.url)
    for path, title in PATHS.items():
        yield from _compared(plain, recorded, path, title, workplace.count(40, least=10))
    for _ in range(STREAM_PARTS):
        _gated(server, recorded)
    late = server.late
    plain.close()
    recorded.close()
    server.stop()
    parts = STREAM_PARTS * STREAM_PARTS
    yield Row(
        "parts that the program had before the next was sent",
        f"{parts - late} of {parts}",
        "all",
        late == 0,
    )


def _compared(plain: Child, recorded: Child, path: str, title: str, times: int) -> Iterator[Row]:
    first: dict[str, list[float]] = {"plain": [], "recorded": []}
    whole: dict[str, list[float]] = {"plain": [], "recorded": []}
    for turn in range(times + 1):
        for name, child in (("plain", plain), ("recorded", recorded)):
            soon, late = _timed(child, path)
            if turn:  # the first one warms up
                first[name].append(soon)
                whole[name].append(late)
    ratio = _ratio(first)
    duration = STREAM_PARTS * STREAM_GAP_SECONDS * 1000
    yield Row(
        f"the first part of a stream of {duration:.0f} ms, while it is recorded: {title}",
        f"{ratio:.2f} × ({_milli(first['recorded']):.2f} ms; not recorded {_milli(first['plain']):.2f} ms)",
        f"≤ {MUST_BE} ×",
        ratio <= MUST_BE,
    )
    yield Row(
        "its end",
        f"{_ratio(whole):.2f} × ({_milli(whole['recorded']):.1f} ms; not recorded {_milli(whole['plain']):.1f} ms)",
        "shown",
        None,
    )


def _timed(child: Child, path: str) -> tuple[float, float]:
    start = time.perf_counter()
    part = child.ask(path)
    first = time.perf_counter() - start
    while part is not None:
        part = child.ask("next")
    return first, time.perf_counter() - start


def _gated(server: LeanServer, child: Child) -> None:
    """A part is let go once the program has had the one before."""
    server.let_go()
    part = child.ask("/stream/gated")
    while part is not None:
        server.let_go()
        part = child.ask("next")


def _ratio(found: dict[str, list[float]]) -> float:
    return statistics.median(ours / floor for ours, floor in zip(found["recorded"], found["plain"], strict=True))


def _milli(times: list[float]) -> float:
    return statistics.median(times) * 1000
