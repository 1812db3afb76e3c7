"""Measure the replay of an effect beside the bare digest of its input, and a resume beside a bare scan."""

from __future__ import annotations

import asyncio
import hashlib
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

import onrecord
from bench.bare_events import bare_connection, bare_events
from bench.digest import make_chat_request
from bench.effects import make_input
from bench.measurement import Row, Workplace, use_own_keys
from onrecord.core.canonical import canonical_bytes
from onrecord.core.packing import unpack

REPLAYED = (100, 10_000, 100_000)
RESUMED = 10_000
AFTER_CHECKPOINT = 10
REQUEST_BYTES = 5000
BLOCK = 20
"""Effects in a block, which are followed by as many bare digests of the same inputs."""


def make_long_request() -> dict[str, Any]:
    """Return a chat request of 5 KB."""
    request = make_chat_request()
    short = REQUEST_BYTES - len(orjson.dumps(request)) - len('{"role":"user","content":""},')
    words = "and then it said that the order had been sent a week ago to another address, "
    messages: Any = request["messages"]
    return {**request, "messages": [*messages, {"role": "user", "content": (words * 20)[:short]}]}


class Blocks:
    """Seconds for one effect and for one bare digest, block by block."""

    def __init__(self) -> None:
        self.effects: list[float] = []
        self.floors: list[float] = []
        self.whole: list[float] = []
        """Seconds for one effect of the whole replay, including reading the record."""

    def ratio(self) -> float:
        return statistics.median(ours / bare for ours, bare in zip(self.effects, self.floors, strict=True))


def measure_effect_replay(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    store = onrecord.open_store(f"sqlite:///{workplace.path('replayed.db')}", durability="relaxed")
    base = make_long_request()
    active_blocks: list[Blocks] = []
    """Where times are noted; empty while recording."""

    @onrecord.step
    async def ask(request: dict[str, Any]) -> str:
        return f"answer {request['seed']}"

    @onrecord.agent(name="bench-replayed", store=store)
    async def converse(count: int) -> None:
        for first in range(0, count, BLOCK):
            requests = [{**base, "seed": number} for number in range(first, min(first + BLOCK, count))]
            start = time.perf_counter()
            for request in requests:
                await ask(request)
            between = time.perf_counter()
            if active_blocks:
                for request in requests:
                    hashlib.sha256(canonical_bytes(request)).digest()
                active_blocks[0].effects.append((between - start) / len(requests))
                active_blocks[0].floors.append((time.perf_counter() - between) / len(requests))

    sizes = [workplace.count(size, least=100) for size in REPLAYED]
    for size in sizes:
        asyncio.run(converse.run(size, run_id=f"of-{size}"))
    found = {size: Blocks() for size in sizes}
    for _ in range(3):
        for size, blocks in found.items():
            active_blocks[:] = [blocks]
            for _ in range(max(1, min(20, 2000 // size))):
                before = sum(blocks.floors) * BLOCK
                start = time.perf_counter()
                asyncio.run(converse.replay(f"of-{size}"))
                spent = time.perf_counter() - start - (sum(blocks.floors) * BLOCK - before)
                blocks.whole.append(spent / size)
    store.close()
    kilobytes = len(orjson.dumps(base)) / 1000
    for size, blocks in found.items():
        ratio = blocks.ratio()
        yield Row(
            f"replaying one effect ({kilobytes:.1f} KB input, digest checked, async) of {size:,}",
            f"{ratio:.2f} × ({statistics.median(blocks.effects) * 1e6:.1f} µs; bare canonical form + SHA-256 "
            f"{statistics.median(blocks.floors) * 1e6:.1f} µs; with the reading of the record "
            f"{statistics.median(blocks.whole) * 1e6:.1f} µs)",
            "≤ 2.5 ×",
            ratio <= 2.5,
        )
    growth = found[sizes[-1]].ratio() / found[sizes[0]].ratio()
    yield Row(f"the same of {sizes[-1]:,} against of {sizes[0]:,}", f"{growth:.2f} ×", "flat: ≤ 1.2 ×", growth <= 1.2)


class _Interrupted(BaseException):
    """Stops executing a run without ending it, as Ctrl-C does."""


def measure_resume(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    effects = workplace.count(RESUMED, least=200)
    for how, make in (("async", _make_resumable_async), ("sync", _make_resumable)):
        path = workplace.path(f"resumed-{how}.db")
        store = onrecord.open_store(f"sqlite:///{path}", durability="relaxed")
        begin, resume, effect_times = make(store, effects)
        begin()
        floors, ours = [], []
        for _ in range(5):
            start = time.perf_counter()
            events = bare_scan(path)
            floors.append(time.perf_counter() - start)
            start = time.perf_counter()
            resume()
            ours.append(effect_times[-1] - start)
        store.close()
        ratio = statistics.median(our / floor for our, floor in zip(ours, floors, strict=True))
        yield Row(
            f"resuming a run of {effects:,} effects to its first new effect, {how}",
            f"{ratio:.2f} × ({statistics.median(ours) * 1000:.0f} ms; {events:,} events read, hashed and decoded bare "
            f"{statistics.median(floors) * 1000:.0f} ms)",
            "≤ 3 ×",
            ratio <= 3,
        )
        yield _measure_checkpoint(workplace, effects, how, make, statistics.median(ours))


def _measure_checkpoint(
    workplace: Workplace, effects: int, how: str, make: Callable[..., Resumable], whole: float
) -> Row:
    """Measure a resume from a checkpoint a few effects before the end: earlier events are not read."""
    store = onrecord.open_store(f"sqlite:///{workplace.path(f'checkpointed-{how}.db')}", durability="relaxed")
    begin, resume, effect_times = make(store, effects, checkpoint_at=effects - AFTER_CHECKPOINT)
    begin()
    ours = []
    for _ in range(5):
        start = time.perf_counter()
        resume()
        ours.append(effect_times[-1] - start)
    store.close()
    seconds = statistics.median(ours)
    return Row(
        f"the same with a checkpoint {AFTER_CHECKPOINT} effects before its end, {how}",
        f"{seconds / whole:.4f} × ({seconds * 1000:.2f} ms; without {whole * 1000:.0f} ms)",
        "≤ 0.1 ×",
        seconds / whole <= 0.1,
    )


Resumable = tuple[Callable[[], None], Callable[[], None], list[float]]
"""A function that records the run, one that resumes it by one effect, and the time of the last new effect."""


def _make_resumable(store: onrecord.Store, effects: int, checkpoint_at: int | None = None) -> Resumable:
    limit, effect_times = [effects], [0.0]

    @onrecord.step
    def look_up(question: str) -> int:
        effect_times[0] = time.perf_counter()
        return len(question)

    @onrecord.agent(name="bench-resumed", store=store)
    def work() -> None:
        for number in range(onrecord.restored() or 0, effects + 1000):
            if number == limit[0]:
                raise _Interrupted
            if number == checkpoint_at and onrecord.restored() is None:
                onrecord.checkpoint(number)
            look_up(make_input(number))

    def begin() -> None:
        _run_until_interrupted(lambda: work.run(run_id="long"))

    def resume() -> None:
        limit[0] += 1
        _run_until_interrupted(lambda: work.resume("long"))

    return begin, resume, effect_times


def _make_resumable_async(store: onrecord.Store, effects: int, checkpoint_at: int | None = None) -> Resumable:
    limit, effect_times = [effects], [0.0]

    @onrecord.step
    async def look_up(question: str) -> int:
        effect_times[0] = time.perf_counter()
        return len(question)

    @onrecord.agent(name="bench-resumed-async", store=store)
    async def work() -> None:
        for number in range(onrecord.restored() or 0, effects + 1000):
            if number == limit[0]:
                raise _Interrupted
            if number == checkpoint_at and onrecord.restored() is None:
                onrecord.checkpoint(number)
            await look_up(make_input(number))

    def begin() -> None:
        _run_until_interrupted(lambda: asyncio.run(work.run(run_id="long")))

    def resume() -> None:
        limit[0] += 1
        _run_until_interrupted(lambda: asyncio.run(work.resume("long")))

    return begin, resume, effect_times


def _run_until_interrupted(act: Callable[[], object]) -> None:
    try:
        act()
    except _Interrupted:
        return
    raise SystemExit("the run of the benchmark ended instead of being interrupted")


def bare_scan(path: Path) -> int:
    """Read, hash and decode the same events and their shared parts, as the floor."""
    connection = bare_connection(path)
    sha256, loads, count = hashlib.sha256, orjson.loads, 0
    for _, _, _, _, _, link, _, salt, match, _, content in bare_events(connection):
        stored = unpack(content)
        sha256(link).digest()
        sha256(salt + match + stored).digest()
        loads(link)
        loads(stored)
        count += 1
    for (blob,) in connection.execute("SELECT blob FROM nodes ORDER BY node_no"):
        stored = unpack(blob)
        sha256(stored).digest()
        loads(stored)
    connection.close()
    return count
