"""Measure the replay of a whole run beside reading, hashing and decoding its record; and forks of runs."""

from __future__ import annotations

import asyncio
import hashlib
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

import onrecord
from bench.bare_events import bare_connection, bare_events
from bench.effects_replay import make_long_request
from bench.measurement import Row, Workplace, use_own_keys
from onrecord.core.canonical import canonical_bytes
from onrecord.core.packing import unpack
from onrecord.runtime.forks.fork import begin_fork

REPLAYED = 2_000
FORKED = (1_000, 100_000)
"""Events of the forked runs."""
ROOM = 64 * 1024


def measure_run_replay(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    path = workplace.path("whole.db")
    store = onrecord.open_store(f"sqlite:///{path}", durability="relaxed")
    base, count = make_long_request(), workplace.count(REPLAYED, least=200)

    @onrecord.step
    async def ask(request: dict[str, Any]) -> str:
        return f"answer {request['seed']}"

    @onrecord.agent(name="bench-whole", store=store)
    async def converse() -> None:
        for number in range(count):
            await ask({**base, "seed": number})

    asyncio.run(converse.run(run_id="whole"))
    floors, ours = [], []
    for _ in range(7):
        start = time.perf_counter()
        deliver_bare(path, base)
        floors.append(time.perf_counter() - start)
        start = time.perf_counter()
        asyncio.run(converse.replay("whole"))
        ours.append(time.perf_counter() - start)
    store.close()
    ratio = statistics.median(our / floor for our, floor in zip(ours, floors, strict=True))
    yield Row(
        f"mocked replay of a whole run of {count:,} effects of 5 KB",
        f"{ratio:.2f} × ({statistics.median(ours) / count * 1e6:.1f} µs an effect; read, hashed and delivered bare "
        f"{statistics.median(floors) / count * 1e6:.1f} µs)",
        "≤ 2.5 ×",
        ratio <= 2.5,
    )


def deliver_bare(path: Path, base: dict[str, Any]) -> None:
    """Do the unavoidable work of a replay: read rows, hash links, digest inputs, hash and decode answers.

    Recorded inputs are not decoded: their digests are enough.
    """
    connection = bare_connection(path)
    sha256, loads, number = hashlib.sha256, orjson.loads, 0
    for _, _, kind, _, _, link, _, salt, match, _, content in bare_events(connection):
        sha256(link).digest()
        loads(link)
        if kind == "ActionRequested":
            sha256(canonical_bytes({**base, "seed": number})).digest()
            number += 1
        else:
            stored = unpack(content)
            sha256(salt + match + stored).digest()
            loads(stored)
    connection.close()


def measure_fork(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    seconds, room = {}, 0
    for events in FORKED:
        size = workplace.count(events, least=100)
        folder = workplace.path(f"forked-{events}")
        folder.mkdir()
        store = onrecord.open_store(f"sqlite:///{folder}/runs.db", durability="relaxed")
        with onrecord.Journal.create(store, "long", facts={"agent": "bench"}) as journal:
            for first in range(0, size, 1000):
                states = [onrecord.StateUpdated(number) for number in range(first, min(first + 1000, size))]
                journal.append(states, sync=False)
        taken = []
        for number in range(21):
            store.sync()
            before = _folder_bytes(folder)
            start = time.perf_counter()
            begin_fork(store, "long", size, run_id=f"fork-{number}")
            taken.append(time.perf_counter() - start)
            room = max(room, _folder_bytes(folder) - before)
        seconds[size] = statistics.median(taken[1:])
        store.close()
    short, long = sorted(seconds)
    ratio = seconds[long] / seconds[short]
    yield Row(
        f"forking a run of {long:,} events at its end, against one of {short:,}",
        f"{ratio:.2f} × ({seconds[long] * 1000:.2f} ms; {seconds[short] * 1000:.2f} ms)",
        "flat: ≤ 1.2 ×",
        ratio <= 1.2,
    )
    yield Row("new storage of a fork before its first event", f"{room / 1024:.0f} KB at most", "≤ 64 KB", room <= ROOM)


def _folder_bytes(folder: Path) -> int:
    return sum(os.stat(folder / name).st_size for name in os.listdir(folder))
