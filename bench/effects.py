"""Measure the recording of one effect, beside one bare durable commit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import onrecord
from bench.append import make_bare_insert
from bench.effects_floor import make_least_effect
from bench.measurement import Rounds, Row, Workplace, measure, measure_async, use_own_keys

INPUT_BYTES = 500
_INPUT = os.urandom(INPUT_BYTES // 2).hex()
ROUNDS = 20


def make_input(number: int) -> str:
    """Return 500 bytes, different for each number."""
    return f"{number:012}{_INPUT[12:]}"


@onrecord.step
def look_up(question: str) -> int:
    return len(question)


@onrecord.step
async def look_up_async(question: str) -> int:
    return len(question)


@onrecord.tool
def pay(order: str) -> int:
    return len(order)


@onrecord.tool
async def pay_async(order: str) -> int:
    return len(order)


def measure_recording(workplace: Workplace) -> Iterator[Row]:
    use_own_keys(workplace)
    store = onrecord.open_store(f"sqlite:///{workplace.path('effects.db')}")
    each = max(1, workplace.count(4000, least=200) // ROUNDS)
    found: dict[str, Rounds] = {"sync": Rounds(), "async": Rounds()}
    bare = {how: make_bare_insert(workplace.path(f"effects-bare-{how}.db")) for how in found}
    least = make_least_effect(workplace.path("effects-least.db"), make_input)

    @onrecord.agent(name="bench-effects-sync", store=store)
    def act() -> None:
        acts: tuple[Callable[[int], Any], ...] = (
            bare["sync"],
            lambda number: look_up(make_input(number)),
            lambda number: pay(make_input(number)),
            least,
        )
        for turn in range(ROUNDS):
            found["sync"].add([measure(one, each, first=turn * each) for one in acts])

    @onrecord.agent(name="bench-effects-async", store=store)
    async def act_async() -> None:
        acts: tuple[Callable[[int], Awaitable[Any]], ...] = (
            lambda number: look_up_async(make_input(number)),
            lambda number: pay_async(make_input(number)),
        )
        for turn in range(ROUNDS):
            first = turn * each
            floor = measure(bare["async"], each, first=first)
            found["async"].add([floor, *[await measure_async(one, each, first=first) for one in acts]])

    act()
    asyncio.run(act_async())
    store.close()
    for how, rounds in found.items():
        yield from _rows(how, rounds)


def _rows(how: str, rounds: Rounds) -> Iterator[Row]:
    floor, step, tool, *least = rounds.medians()
    _, step_ratio, tool_ratio, *least_ratio = rounds.ratios()
    yield Row(
        f"recording one retry-safe effect ({INPUT_BYTES} B input), SQLite FULL, {how}",
        f"{step_ratio:.2f} × ({step.wall_us:.0f} µs; bare insert + commit {floor.wall_us:.0f} µs)",
        "≤ 1.7 ×",
        step_ratio <= 1.7,
    )
    yield Row(
        f"its processor time, {how}",
        f"{step.cpu_us:.0f} µs (the bare commit {floor.cpu_us:.0f} µs of them)",
        "≤ 120 µs",
        step.cpu_us <= 120,
    )
    yield Row(
        f"recording one at-most-once effect, {how}",
        f"{tool_ratio:.2f} × ({tool.wall_us:.0f} µs, {tool.cpu_us:.0f} µs of processor time)",
        "≤ 2.8 ×",
        tool_ratio <= 2.8,
    )
    for ratio, timing in zip(least_ratio, least, strict=True):
        yield Row(
            "the least work of a retry-safe effect: two events hashed, two commits, one of them synced",
            f"{ratio:.2f} × ({timing.wall_us:.0f} µs, {timing.cpu_us:.0f} µs of processor time)",
            "shown",
            None,
        )
