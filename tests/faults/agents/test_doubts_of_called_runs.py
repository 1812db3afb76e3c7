"""An effect in doubt of a run that another one has called is settled where it is, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

import onrecord
from onrecord.errors import NotFound
from onrecord.runtime.api.settle import find_in_doubt
from onrecord.store.memory import MemoryStore


class Crash(BaseException):
    """Takes the place of a process that dies."""


paid: list[str] = []


@onrecord.tool
def pay(to: str) -> str:
    paid.append(to)
    if len(paid) == 1:
        raise Crash
    return "paid"


@onrecord.agent
def wages(to: str) -> str:
    return pay(to)


@onrecord.agent
def month(*names: str) -> list[Any]:
    return [wages(name) for name in names]


@pytest.fixture
def crashed() -> MemoryStore:
    paid.clear()
    store = MemoryStore()
    with pytest.raises(Crash):
        month.run("Ann", "Bob", run_id="m", store=store)
    return store


def test_the_doubt_names_the_run_that_it_is_in(crashed: MemoryStore) -> None:
    with pytest.raises(onrecord.InDoubt) as doubt:
        month.resume("m", store=crashed)
    assert doubt.value.run != "m"
    assert f"onrecord settle {doubt.value.run} --effect 1 " in doubt.value.hint
    onrecord.settle(crashed, doubt.value.run, doubt.value.seq, decision="done", value="paid, says the bank")
    assert month.resume("m", store=crashed) == ["paid, says the bank", "paid"]
    assert paid == ["Ann", "Bob"]


@pytest.mark.parametrize("effect", [None, 1])
def test_the_caller_has_nothing_to_settle(crashed: MemoryStore, effect: int | None) -> None:
    """Its call is at the same seq as the payment: whoever mixes the two up must not answer for a whole run."""
    assert find_in_doubt(crashed, "m") == []
    with pytest.raises(NotFound) as refused:
        onrecord.settle(crashed, "m", effect, decision="done", value="paid, says the bank")
    (child,) = (row.header.run for row in crashed.list_runs("default") if row.header.run != "m")
    assert child in refused.value.hint
    assert [entry.event.kind for entry in onrecord.JournalReader(crashed, "m").scan()] == ["ActionRequested"]
