"""Budgets stop the run, survive a resume, and are replayed as recorded."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from math import inf, nan
from types import SimpleNamespace
from typing import Any

import pytest

import onrecord
from kit.policies import awaited, kinds
from kit.runtime import Died, events
from onrecord import Budget, BudgetExceeded, Denied, OnrecordError, Policy
from onrecord.errors import InvalidInput
from onrecord.runtime.api import policy
from onrecord.store.memory import MemoryStore


@onrecord.tool
def chat(tokens: int, cost: float = 0.0) -> dict[str, Any]:
    return {"text": "…", "usage": {"total_tokens": tokens, "cost": cost}}


@onrecord.step
def free() -> int:
    return 0


@onrecord.tool
async def chat_later(tokens: int) -> dict[str, Any]:
    return {"usage": {"input_tokens": tokens, "output_tokens": 0}}


def denials(store: Any, run: str) -> list[Any]:
    return [event.reason for event in events(store, run) if event.kind == "ActionDenied"]


@pytest.mark.parametrize(
    ("budget", "allowed"),
    [
        (Budget(tokens=100), 4),  # 30, 60, 90, 120: the fourth goes over it
        (Budget(tokens=90), 3),
        (Budget(cost=1.0), 2),
        (Budget(calls=3), 3),
        (Budget(calls=0), 0),
        (Budget(seconds=0), 0),
        (Budget(tokens=0), 1),
        (Budget(tokens=1000, calls=2), 2),
    ],
)
def test_a_reached_limit_stops_the_run_for_good(store: MemoryStore, budget: Budget, allowed: int) -> None:
    @onrecord.agent(policy=Policy(budget=budget))
    def greedy() -> list[str]:
        seen = []
        for _ in range(6):
            try:
                chat(30, 0.5)
                seen.append("done")
            except BudgetExceeded as denial:  # catching it leads nowhere
                seen.append(denial.code)
        return seen

    expected = ["done"] * allowed + ["budget_exceeded"] * (6 - allowed)
    assert greedy.run(run_id="r", store=store) == expected
    assert kinds(store, "r").count("ActionRequested") == allowed
    found = denials(store, "r")
    assert len(found) == 6 - allowed
    assert all(reason["code"] == "budget_exceeded" and reason["name"] == "chat" for reason in found)
    assert greedy.replay("r", store=store) == expected


def test_everything_is_denied_once_a_limit_is_reached(store: MemoryStore) -> None:
    @onrecord.agent(policy=Policy(budget=Budget(tokens=10)))
    async def greedy() -> list[str]:
        await chat_later(10)
        seen = []
        for effect in (free, lambda: onrecord.sleep(0.001), lambda: onrecord.wait_for("word")):
            try:
                made = effect()
                if made is not None and hasattr(made, "__await__"):
                    await made
                seen.append("done")
            except BudgetExceeded:
                seen.append("denied")
        return seen

    assert awaited(greedy.run(run_id="r", store=store)) == ["denied"] * 3


def test_an_agent_that_does_not_catch_it_fails_with_it(store: MemoryStore) -> None:
    @onrecord.agent(policy=Policy(budget=Budget(calls=1)))
    def greedy() -> None:
        free()
        free()

    with pytest.raises(BudgetExceeded):
        greedy.run(run_id="r", store=store)
    assert kinds(store, "r") == ["ActionRequested", "ActionSucceeded", "ActionDenied", "Failed"]


@pytest.mark.parametrize("budget", [Budget(tokens=60), Budget(calls=2), Budget(cost=1.0)])
@pytest.mark.parametrize("dies_after", [1, 2, 3])
def test_a_resumed_run_has_spent_what_it_had_spent(store: MemoryStore, budget: Budget, dies_after: int) -> None:
    lives: list[int] = []

    @onrecord.agent(policy=Policy(budget=budget))
    def greedy() -> list[str]:
        seen = []
        for number in range(4):
            try:
                chat(30, 0.5)
                seen.append("done")
            except BudgetExceeded as denial:
                seen.append(denial.code)
            if number + 1 == dies_after and not lives:
                lives.append(number)
                raise Died
        return seen

    with pytest.raises(Died):
        greedy.run(run_id="r", store=store)
    expected = ["done", "done", "budget_exceeded", "budget_exceeded"]
    assert greedy.resume("r", store=store) == expected
    assert kinds(store, "r").count("ActionRequested") == 2
    assert len(denials(store, "r")) == 2
    assert greedy.replay("r", store=store) == expected


def test_a_larger_budget_lets_a_run_go_on(store: MemoryStore) -> None:
    budgets = [Budget(calls=1), Budget(calls=3)]

    def greedy() -> list[str]:
        seen = []
        for number in range(4):
            try:
                free()
                seen.append("done")
            except BudgetExceeded:
                seen.append("denied")
            if number == 1 and len(budgets) == 2:
                budgets.pop(0)
                raise Died
        return seen

    first: Any = onrecord.agent(greedy, name="greedy", policy=Policy(budget=budgets[0]))
    with pytest.raises(Died):
        first.run(run_id="r", store=store)
    second: Any = onrecord.agent(greedy, name="greedy", policy=Policy(budget=Budget(calls=3)))
    # Nothing was committed after the denial, so it is decided again.
    assert second.resume("r", store=store) == ["done", "done", "done", "denied"]


def test_time_counts_from_the_runs_beginning(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    later = 0.0

    class Clock:
        @staticmethod
        def time() -> float:
            import time

            return time.time() + later

    monkeypatch.setattr(policy, "time", Clock)
    lives: list[int] = []

    @onrecord.agent(policy=Policy(budget=Budget(seconds=600)))
    def slow() -> str:
        free()
        if not lives:
            lives.append(1)
            raise Died
        try:
            free()
        except BudgetExceeded as denial:
            return denial.code
        return "done"

    with pytest.raises(Died):
        slow.run(run_id="r", store=store)
    later = 1000.0
    assert slow.resume("r", store=store) == "budget_exceeded"


# What was spent


@dataclasses.dataclass
class Usage:
    prompt_tokens: int
    completion_tokens: int


@dataclasses.dataclass
class Reply:
    text: str
    usage: Usage


@pytest.mark.parametrize(
    ("result", "spent"),
    [
        ({"usage": {"total_tokens": 5, "prompt_tokens": 9}}, {"tokens": 5}),
        ({"usage": {"prompt_tokens": 2, "completion_tokens": 3}}, {"tokens": 5}),
        ({"usage": {"input_tokens": 2, "output_tokens": 3, "cost": 0.5}}, {"tokens": 5, "cost": 0.5}),
        ({"usage": {"prompt_tokens": 2}}, {"tokens": 2}),
        ({"usage": {"total_cost": Decimal("0.25")}}, {"cost": 0.25}),
        ({"usage_metadata": {"total_tokens": 7}}, {"tokens": 7}),
        ({"token_usage": {"total_tokens": 7}}, {"tokens": 7}),
        (SimpleNamespace(usage=SimpleNamespace(input_tokens=1, output_tokens=2)), {"tokens": 3}),
        (SimpleNamespace(usage={"total_tokens": 3}), {"tokens": 3}),
        (Reply("…", Usage(4, 5)), {"tokens": 9}),
        ({"cost": 100, "total_tokens": 9}, {}),  # the tool speaks of something else
        ({"usage": {"total_tokens": nan, "cost": -1}}, {}),
        ({"usage": {"total_tokens": 10**400}}, {}),
        ({"usage": {"total_tokens": True}}, {}),
        ({"usage": None}, {}),
        ("text", {}),
        (None, {}),
        (7, {}),
    ],
)
def test_the_usual_shapes_of_usage(result: Any, spent: dict[str, float]) -> None:
    assert policy.find_usage(result) == spent


def test_a_typed_result_counts_the_same_from_the_record(store: MemoryStore) -> None:
    lives: list[int] = []

    @onrecord.agent(policy=Policy(budget=Budget(tokens=9)))
    def greedy() -> str:
        assert typed() == Reply("…", Usage(4, 5))
        if not lives:
            lives.append(1)
            raise Died
        try:
            typed()
        except BudgetExceeded as denial:
            return denial.code
        return "done"

    with pytest.raises(Died):
        greedy.run(run_id="r", store=store)
    assert greedy.resume("r", store=store) == "budget_exceeded"


@onrecord.tool
def typed() -> Reply:
    return Reply("…", Usage(4, 5))


def test_a_declared_reader(store: MemoryStore) -> None:
    @onrecord.tool(usage=lambda result: {"tokens": len(result), "cost": 0.1})
    def say(text: str) -> str:
        return text

    @onrecord.agent(policy=Policy(budget=Budget(tokens=10)))
    def talking() -> str:
        say("12345")
        say("67890")
        try:
            say("")
        except BudgetExceeded as denial:
            return denial.code
        return "done"

    assert talking.run(store=store) == "budget_exceeded"


@pytest.mark.parametrize(
    "told", [{"tokens": nan}, {"tokens": -1}, {"cost": inf}, {"cost": "1"}, {"dollars": 1}, {"tokens": True}, 7, "x"]
)
def test_a_reader_that_tells_nonsense_stops_the_run(store: MemoryStore, told: Any) -> None:
    nonsense = [told]

    @onrecord.tool(usage=lambda _: nonsense[0])
    def say() -> str:
        return "…"

    @onrecord.agent(policy=Policy(budget=Budget(tokens=10)))
    def talking() -> str:
        try:
            found: str = say()
        except Exception:
            return "caught"
        return found

    with pytest.raises(InvalidInput) as refusal:
        talking.run(run_id="r", store=store)
    assert refusal.value.code == "bad_usage"
    assert kinds(store, "r") == ["ActionRequested", "ActionSucceeded"]
    nonsense[0] = {"tokens": 1}
    assert talking.resume("r", store=store) == "…"


def test_an_answer_counts_once(store: MemoryStore) -> None:
    @onrecord.agent(policy=Policy(budget=Budget(tokens=60)))
    def asking() -> str:
        for _ in range(5):
            chat.keyed("the same", 30)
        chat(30)
        try:
            chat(1)
        except BudgetExceeded as denial:
            return denial.code
        return "done"

    assert asking.run(store=store) == "budget_exceeded"


@pytest.mark.parametrize("limit", [nan, inf, -1, -0.5, True, "5"])
@pytest.mark.parametrize("name", ["calls", "seconds", "tokens", "cost"])
def test_limits_that_are_none_are_refused(name: str, limit: Any) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Budget(**{name: limit})
    assert refusal.value.code == "bad_budget"


# Permission


def test_a_denial_is_recorded_and_can_be_lived_with(store: MemoryStore) -> None:
    policies = Policy(allow=["free"], check=lambda name, kind, payload: None)

    @onrecord.agent(policy=policies)
    def modest() -> list[Any]:
        try:
            chat(1)
        except onrecord.Denied as denial:
            return [denial.code, free()]
        return []

    assert modest.run(run_id="r", store=store) == ["denied", 0]
    assert kinds(store, "r") == ["ActionDenied", "ActionRequested", "ActionSucceeded", "Completed"]
    assert modest.replay("r", store=store) == ["denied", 0]


def test_a_key_that_was_denied_is_denied_again_and_on_record_once(store: MemoryStore) -> None:
    """Two denials under one key would leave a record that cannot be read."""

    @onrecord.tool
    def forbidden(value: int) -> int:
        raise AssertionError("never carried out")

    @onrecord.agent(policy=Policy(allow=["chat"]))
    def stubborn() -> int:
        for _ in range(3):
            with pytest.raises(Denied):
                forbidden.keyed("mine", 1)
        with pytest.raises(OnrecordError):
            forbidden.keyed("mine", 2)
        return 3

    assert stubborn.run(run_id="r", store=store) == 3
    kinds = [event.kind for event in onrecord.JournalReader(store, "r").scan()]
    assert kinds == ["ActionDenied", "Completed"]
    assert stubborn.replay("r", store=store) == 3
