"""A check of the policy that fails is a denial: on record, and the same whenever the run comes back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import onrecord
from kit.policies import awaited, kinds
from kit.runtime import events
from onrecord import Denied, Policy
from onrecord.store.memory import MemoryStore


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@onrecord.step
def one() -> int:
    return 1


@onrecord.step
async def one_later() -> int:
    return 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("policy server down"), "RuntimeError: policy server down"),
        (KeyError("x"), "KeyError: 'x'"),
        (asyncio.CancelledError(), "CancelledError"),
        (Unspeakable(), "Unspeakable"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_check_that_fails_is_a_denial_on_record(error: BaseException, said: str, is_async: bool) -> None:
    store = MemoryStore()
    calls: list[str] = []

    def check(name: str, kind: str, payload: Any) -> str | None:
        calls.append(name)
        raise error

    @onrecord.agent(policy=Policy(check=check))
    def careful() -> Any:
        try:
            return one()
        except Denied as denial:
            return [denial.code, denial.message, denial.hint]

    @onrecord.agent(policy=Policy(check=check))
    async def careful_later() -> Any:
        try:
            return await one_later()
        except Denied as denial:
            return [denial.code, denial.message, denial.hint]

    def of(made: Any) -> Any:
        return awaited(made) if is_async else made

    agent: Any = careful_later if is_async else careful
    found = of(agent.run(run_id="r", store=store))
    assert found[0] == "policy_check_failed"
    assert found[1].endswith(f"the check of the policy failed with {said}")
    assert kinds(store, "r") == ["ActionDenied", "Completed"]
    assert events(store, "r")[0].reason["code"] == "policy_check_failed"
    assert of(agent.replay("r", store=store)) == found
    assert len(calls) == 1


def test_a_process_that_is_told_to_end_in_a_check_has_been_denied_nothing() -> None:
    store = MemoryStore()
    told: list[BaseException] = [SystemExit(3)]

    def check(*_: Any) -> str | None:
        if told:
            raise told.pop()
        return None

    @onrecord.agent(policy=Policy(check=check))
    def careful() -> int:
        found: int = one()
        return found

    with pytest.raises(SystemExit):
        careful.run(run_id="r", store=store)
    assert kinds(store, "r") == []
    assert careful.resume("r", store=store) == 1
