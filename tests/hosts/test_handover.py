"""One outcome at a time, in recorded order, when nothing else is ready; and nobody starves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onrecord.hosts import delivery as handover
from onrecord.hosts.delivery import Handover


def test_recorded_order_whatever_the_order_of_asking() -> None:
    seen: list[int] = []

    async def scene() -> None:
        queue = Handover()

        async def one(seq: int) -> None:
            await queue.turn_of(seq)
            seen.append(seq)

        await asyncio.gather(*(one(seq) for seq in (5, 3, 9, 1)))

    asyncio.run(scene())
    assert seen == [1, 3, 5, 9]


def test_the_next_one_comes_when_nothing_else_is_ready() -> None:
    seen: list[str] = []

    async def scene() -> None:
        queue = Handover()

        async def one(seq: int) -> None:
            await queue.turn_of(seq)
            for turn in range(20):
                seen.append(f"{seq}.{turn}")
                await asyncio.sleep(0)

        await asyncio.gather(*(one(seq) for seq in (2, 1)))

    asyncio.run(scene())
    assert seen == [f"{seq}.{turn}" for seq in (1, 2) for turn in range(20)]


def test_a_loop_that_never_rests_hands_over_all_the_same() -> None:
    async def scene() -> None:
        queue, over = Handover(), asyncio.Event()

        async def poll() -> None:
            while not over.is_set():
                await asyncio.sleep(0)

        polling = asyncio.ensure_future(poll())
        async with asyncio.timeout(5):
            for seq in range(10):
                await queue.turn_of(seq)
        over.set()
        await polling

    asyncio.run(scene())


def test_who_stopped_waiting_is_passed_over() -> None:
    async def scene() -> None:
        queue = Handover()
        gone = asyncio.ensure_future(queue.turn_of(1))
        waiting = asyncio.ensure_future(queue.turn_of(2))
        gone.cancel()
        async with asyncio.timeout(5):
            await waiting

    asyncio.run(scene())


def test_scopes_do_not_hold_each_other_up() -> None:
    async def scene() -> None:
        queues = [Handover() for _ in range(50)]
        async with asyncio.timeout(5):
            await asyncio.gather(*(queue.turn_of(seq) for queue in queues for seq in range(20)))

    asyncio.run(scene())


def test_a_loop_that_does_not_show_its_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hidden:
        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    dispatcher = handover._Dispatcher()
    assert dispatcher._busy(Hidden())  # type: ignore[arg-type]
    dispatcher._turns = handover.TURNS_UNSEEN
    assert not dispatcher._busy(Hidden())  # type: ignore[arg-type]
