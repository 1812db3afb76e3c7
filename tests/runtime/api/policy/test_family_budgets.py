"""What an agent spends that another one calls is spent by both."""

from __future__ import annotations

from typing import Any

import pytest

import onrecord
from kit.policies import awaited, kinds
from kit.runtime import Died, events
from onrecord import Budget, BudgetExceeded, Policy
from onrecord.core.events import ProcessAttached
from onrecord.store.memory import MemoryStore


@onrecord.step
def ask(tokens: int) -> dict[str, Any]:
    return {"usage": {"total_tokens": tokens}}


@onrecord.step(usage=lambda result: {"cost": result["price"]})
def buy(price: float) -> dict[str, Any]:
    return {"price": price}


@onrecord.agent
def helper(times: int) -> dict[str, Any]:
    for _ in range(times):
        answer = ask(10)
    return answer


@onrecord.agent
def middle(times: int) -> Any:
    return helper(times)


@onrecord.agent
async def helper_later(times: int) -> str:
    for _ in range(times):
        ask(10)
    return "done"


def spent(store: MemoryStore, run: str) -> list[Any]:
    return [event.process["spent"] for event in events(store, run) if isinstance(event, ProcessAttached)]


def test_a_child_spends_its_parents_budget(store: MemoryStore) -> None:
    @onrecord.agent(policy=Policy(budget=Budget(tokens=50)))
    def boss() -> str:
        helper(3)
        ask(20)
        try:
            ask(1)
        except BudgetExceeded:
            return "stopped"
        return "went on"

    assert boss.run(run_id="r", store=store) == "stopped"
    assert boss.replay("r", store=store) == "stopped"
    assert spent(store, "r") == [{"calls": 3, "tokens": 30.0, "cost": 0.0}]


def test_a_child_is_stopped_by_its_parents_budget(store: MemoryStore) -> None:
    @onrecord.agent(policy=Policy(budget=Budget(tokens=25)))
    def boss() -> str:
        try:
            middle(5)
        except BudgetExceeded:
            return "stopped"
        return "went on"

    assert boss.run(run_id="r", store=store) == "stopped"
    assert boss.replay("r", store=store) == "stopped"
    asked = [kinds(store, run).count("ActionRequested") for run in store_runs(store)]
    assert sorted(asked) == [1, 1, 3]


def test_calls_of_children_are_calls(store: MemoryStore) -> None:
    @onrecord.agent(policy=Policy(budget=Budget(calls=4)))
    def boss() -> str:
        helper(2)
        ask(1)
        with pytest.raises(BudgetExceeded):
            ask(1)
        return "done"

    assert boss.run(run_id="r", store=store) == "done"


def test_a_childs_own_limit_is_its_own(store: MemoryStore) -> None:
    @onrecord.agent(policy=Policy(budget=Budget(tokens=15)))
    def careful() -> None:
        for _ in range(5):
            ask(10)

    @onrecord.agent(policy=Policy(budget=Budget(tokens=1000)))
    def boss() -> str:
        with pytest.raises(BudgetExceeded):
            careful()
        ask(10)
        return "done"

    assert boss.run(run_id="r", store=store) == "done"
    assert spent(store, "r") == [{"calls": 2, "tokens": 20.0, "cost": 0.0}]


def test_children_side_by_side_share_what_is_left(store: MemoryStore) -> None:
    import asyncio

    @onrecord.agent(policy=Policy(budget=Budget(calls=9)))
    async def boss() -> list[str]:
        found = await asyncio.gather(*(helper_later(4) for _ in range(3)), return_exceptions=True)
        return sorted(type(one).__name__ for one in found)

    seen = awaited(boss.run(run_id="r", store=store))
    assert "BudgetExceeded" in seen
    assert awaited(boss.replay("r", store=store)) == seen


def test_what_children_spent_is_spent_after_a_crash(store: MemoryStore) -> None:
    dies = [True]

    @onrecord.agent(policy=Policy(budget=Budget(tokens=40)))
    def boss() -> str:
        helper(3)
        ask(5)
        if dies[0]:
            raise Died
        ask(5)
        with pytest.raises(BudgetExceeded):
            ask(1)
        return "done"

    with pytest.raises(Died):
        boss.run(run_id="r", store=store)
    dies[0] = False
    assert boss.resume("r", store=store) == "done"


def test_a_child_that_goes_on_is_counted_once(store: MemoryStore) -> None:
    dies = [True]

    @onrecord.agent
    def interrupted() -> None:
        ask(10)
        ask(10)
        if dies[0]:
            raise Died
        ask(10)

    @onrecord.agent(policy=Policy(budget=Budget(tokens=40)))
    def boss() -> str:
        interrupted()
        ask(10)
        with pytest.raises(BudgetExceeded):
            ask(1)
        return "done"

    with pytest.raises(Died):
        boss.run(run_id="r", store=store)
    dies[0] = False
    assert boss.resume("r", store=store) == "done"
    assert spent(store, "r") == [{"calls": 3, "tokens": 30.0, "cost": 0.0}]


def test_a_child_that_somebody_else_ended_counts_by_its_record(store: MemoryStore) -> None:
    dies = [True]

    @onrecord.agent
    def alone() -> None:
        ask(10)
        if dies[0]:
            raise Died
        ask(20)

    @onrecord.agent(policy=Policy(budget=Budget(tokens=35)))
    def boss() -> str:
        alone()
        ask(5)
        with pytest.raises(BudgetExceeded):
            ask(1)
        return "done"

    with pytest.raises(Died):
        boss.run(run_id="r", store=store)
    dies[0] = False
    child = next(run for run in store_runs(store) if run != "r")
    alone.resume(child, store=store)
    assert boss.resume("r", store=store) == "done"


def test_what_is_on_record_of_a_child_is_not_counted_again(store: MemoryStore) -> None:
    """A process died between that note and the child's answer: whoever comes back finds the child ended once more."""

    @onrecord.agent
    def spender() -> None:
        ask(10)

    spender.run(run_id="child", store=store)
    guard = Policy(budget=Budget(tokens=40)).make_guard()
    told = guard.count_child("child", None, lambda: onrecord.JournalReader(store, "child"))
    assert told == {"calls": 1, "tokens": 10.0, "cost": 0.0}
    assert guard.count_child("child", None, lambda: onrecord.JournalReader(store, "child")) is None
    assert guard.spent()["tokens"] == 10


def test_a_declared_reader_counts_in_a_child(store: MemoryStore) -> None:
    @onrecord.agent
    def shopper() -> None:
        buy(3.0)

    @onrecord.agent(policy=Policy(budget=Budget(cost=5.0)))
    def boss() -> str:
        shopper()
        shopper()
        with pytest.raises(BudgetExceeded):
            buy(1.0)
        return "done"

    assert boss.run(run_id="r", store=store) == "done"


def store_runs(store: MemoryStore) -> list[str]:
    return store.find_runs("default", "")
