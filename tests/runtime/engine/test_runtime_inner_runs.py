"""Agents that are run, not called, inside another run: what came of them is on its record, and is not done again."""

from __future__ import annotations

from typing import Any

import pytest

import onrecord
from kit.runtime import Died, divergence_of, new_id, replay, resume, run
from onrecord.store.memory import MemoryStore

done: list[str] = []
dies = False


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    done.clear()


@onrecord.tool
def pay(to: str) -> str:
    done.append(to)
    return f"paid {to}"


@onrecord.agent
def paying(to: str) -> str:
    return pay(to)


@onrecord.agent
async def paying_later(to: str) -> str:
    return pay(to)


@onrecord.step
def after() -> int:
    if dies:
        raise Died
    return 1


@pytest.mark.parametrize("run_id", [None, "inner"])
@pytest.mark.parametrize("own_store", [False, True])
def test_run_is_an_effect_of_whoever_runs_it(run_id: str | None, own_store: bool, memory: MemoryStore) -> None:
    elsewhere = MemoryStore() if own_store else None

    @onrecord.agent
    def outer() -> list[Any]:
        given = {"run_id": run_id} if run_id else {}
        if elsewhere is not None:
            given["store"] = elsewhere
        elif run_id:
            given["store"] = memory
        return [paying.run("Ann", **given), after()]

    name = new_id()
    assert run(outer, run_id=name, store=memory) == ["paid Ann", 1]
    assert replay(outer, name, store=memory) == ["paid Ann", 1]
    assert done == ["Ann"]
    if run_id and elsewhere is not None:
        assert onrecord.JournalReader(elsewhere, run_id).head().seq > 0, "it has the id and the store that were given"


def test_an_asynchronous_one(memory: MemoryStore) -> None:
    @onrecord.agent
    async def outer() -> str:
        answer: str = await paying_later.run("Bo", run_id="inner", store=memory)
        return answer

    name = new_id()
    assert run(outer, run_id=name, store=memory) == "paid Bo"
    assert replay(outer, name, store=memory) == "paid Bo"
    assert done == ["Bo"]


def test_a_resume_does_not_run_it_again(memory: MemoryStore) -> None:
    global dies

    @onrecord.agent
    def outer() -> list[Any]:
        return [paying.run("Cy", run_id="inner", store=memory), after()]

    name, dies = new_id(), True
    with pytest.raises(Died):
        run(outer, run_id=name, store=memory)
    dies = False
    assert resume(outer, name, store=memory) == ["paid Cy", 1]
    assert done == ["Cy"]


def test_a_replay_begins_nothing_in_the_background(memory: MemoryStore) -> None:
    @onrecord.agent
    def outer() -> str:
        return str(paying.start("Di", store=memory).result())

    name = new_id()
    run(outer, run_id=name, store=memory)
    assert divergence_of(lambda: replay(outer, name, store=memory)).code == "run_in_replay"
    assert done == ["Di"]
