"""Transactional steps when the store fails, and beside other effects."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import onrecord
from kit.transaction_steps import awaited, kinds, paid, pay, pay_later, think
from onrecord.errors import OutcomeUnknown, StoreUnavailable
from onrecord.journal.verify import verify_run

# When the store fails


class Faulty:
    """Lets one transaction of a store end in a way that its caller is not to see again."""

    def __init__(self, store: Any, failure: Exception, *, happened: bool) -> None:
        self._transact, self._failure, self._happened = store.transact, failure, happened
        store.transact = self.transact

    def transact(self, work: Any) -> None:
        failure, self._failure = self._failure, None  # type: ignore[assignment]
        if failure is None or self._happened:
            self._transact(work)
        elif isinstance(failure, OutcomeUnknown):
            self._undone(work)
        if failure is not None:
            raise failure

    def _undone(self, work: Any) -> None:
        class Undone(Exception):
            pass

        def inside(connection: Any) -> Any:
            work(connection)
            raise Undone

        with pytest.raises(Undone):
            self._transact(inside)


@pytest.mark.parametrize("happened", [True, False])
def test_an_unknown_result_is_looked_up(store: Any, happened: bool) -> None:
    @onrecord.agent
    def paying() -> list[int]:
        return [pay("a"), pay("b"), pay("c")]

    Faulty(store, OutcomeUnknown("who knows"), happened=happened)
    assert paying.run(run_id="r", store=store) == [1, 2, 3]
    assert paying.replay("r", store=store) == [1, 2, 3]
    assert kinds(store, "r").count("ActionSucceeded") == 3
    assert paid(store) == ["a", "b", "c"]
    assert verify_run(store, "r").valid


def test_a_store_that_cannot_be_reached_is_no_outcome(store: Any) -> None:
    @onrecord.agent
    def paying() -> int:
        try:
            found: int = pay("a")
        except Exception:  # not the agent's to handle
            return -1
        return found

    Faulty(store, StoreUnavailable("gone for lunch"), happened=False)
    with pytest.raises(StoreUnavailable, match="lunch"):
        paying.run(run_id="r", store=store)
    assert kinds(store, "r") == ["ActionRequested"]
    assert paying.resume("r", store=store) == 1
    assert paid(store) == ["a"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_process_that_lost_the_run_writes_nothing(store: Any, is_async: bool) -> None:
    holder: list[Any] = []

    def work(db: Any) -> None:
        db.execute("INSERT INTO paid VALUES('zombie')")

    async def work_async(db: Any) -> None:
        work(db)

    step: Any = onrecord.step(work_async if is_async else work, name="work", transactional=True)

    def lose() -> None:
        holder.append(onrecord.JournalReader(store, "r").store.run_row("default", "r"))
        store.release("default", "r", holder[0].epoch)
        store.claim("default", "r", "somebody else", 60)

    @onrecord.agent
    def paying() -> None:
        lose()
        step()

    @onrecord.agent
    async def paying_async() -> None:
        lose()
        await step()

    with pytest.raises(onrecord.OnrecordError) as stopped:
        if is_async:
            awaited(paying_async.run(run_id="r", store=store))
        else:
            paying.run(run_id="r", store=store)
    assert stopped.value.code == "superseded"
    assert paid(store) == []


# Beside other effects


def test_lanes_come_back_in_the_recorded_order(store: Any) -> None:
    @onrecord.agent
    async def mixing() -> list[str]:
        order: list[str] = []

        async def one(number: int) -> None:
            for turn in range(3):
                what = f"{number}.{turn}"
                order.append(await (pay_later if (number + turn) % 2 else think)(what))
                if turn == 1:
                    await onrecord.sleep(0.001)

        await asyncio.gather(*(one(number) for number in range(6)))
        return order

    for round_ in range(3):
        first = awaited(mixing.run(run_id=f"r{round_}", store=store))
        assert awaited(mixing.replay(f"r{round_}", store=store)) == first
        emptying.run(store=store)


@onrecord.step(transactional=True)
def empty(db: Any) -> None:
    db.execute("DELETE FROM paid")


@onrecord.agent
def emptying() -> None:
    empty()


def test_threads_of_an_agent(store: Any) -> None:
    @onrecord.agent
    def paying() -> list[str]:
        order: list[str] = []

        def one(number: int) -> None:
            for turn in range(2):
                pay(f"{number}.{turn}")
                order.append(f"{number}.{turn}")

        threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(order)

    assert paying.run(run_id="r", store=store) == paid(store)
    assert paying.replay("r", store=store) == paid(store)
    assert verify_run(store, "r").valid


def test_a_step_that_the_agent_gives_up_is_there_or_not_but_the_record_knows(store: Any) -> None:
    @onrecord.agent
    async def hurried() -> str:
        try:
            async with asyncio.timeout(0):
                await pay_later("late")
        except TimeoutError:
            return "given up"
        return "paid"

    first = awaited(hurried.run(run_id="r", store=store))
    assert awaited(hurried.replay("r", store=store)) == first
    recorded = kinds(store, "r").count("ActionSucceeded")
    assert len(paid(store)) == recorded


def test_many_runs_in_one_loop(store: Any) -> None:
    @onrecord.agent
    async def paying(number: int) -> str:
        await think("first")
        found: str = await pay_later(f"run {number}")
        return found

    async def all_of_them() -> list[str]:
        return list(await asyncio.gather(*(paying.run(number, store=store) for number in range(8))))

    assert asyncio.run(all_of_them()) == [f"run {number}" for number in range(8)] == paid(store)


def test_a_key_of_the_callers_own(store: Any) -> None:
    @onrecord.agent
    def paying() -> list[int]:
        return [pay.keyed("the one payment", "a"), pay.keyed("the one payment", "a")]

    assert paying.run(run_id="r", store=store) == [1, 1]
    assert paid(store) == ["a"]
