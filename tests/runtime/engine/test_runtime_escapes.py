"""Ways in which an effect could slip past the record, each closed or refused aloud."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

import onrecord
from kit.runtime import Died, broken_off, events, kinds, new_id, replay, resume, run
from onrecord.errors import InvalidInput

paid: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    paid.clear()


@onrecord.tool
def pay(amount: Any) -> str:
    paid.append(amount)
    return "paid"


@onrecord.tool
async def pay_later(amount: Any) -> str:
    paid.append(amount)
    return "paid"


def test_a_generator_is_no_agent() -> None:
    def chat() -> Any:
        yield pay(1)

    async def chat_later() -> Any:
        yield await pay_later(1)

    for function in (chat, chat_later):
        with pytest.raises(InvalidInput) as refusal:
            onrecord.agent(function)
        assert refusal.value.code == "generator_agent"


def test_a_plain_generator_is_no_tool() -> None:
    def all_of_it(count: int) -> Any:
        yield from range(count)

    for make in (onrecord.tool, onrecord.step):
        with pytest.raises(InvalidInput) as refusal:
            make(all_of_it)
        assert refusal.value.code == "plain_generator"


def test_a_task_with_an_empty_context_is_recorded(memory: Any) -> None:
    @onrecord.agent
    async def elsewhere() -> Any:
        made = asyncio.get_running_loop().create_task(pay_later(1), context=contextvars.Context())
        return [await made, await pay_later(2)]

    run_id = new_id()
    assert run(elsewhere, store=memory, run_id=run_id) == ["paid", "paid"]
    assert kinds(memory, run_id).count("ActionRequested") == 2
    assert replay(elsewhere, run_id, store=memory) == ["paid", "paid"]
    assert paid == [1, 2]


def test_a_call_in_an_empty_context_belongs_to_its_lane(memory: Any) -> None:
    @onrecord.agent
    def elsewhere() -> Any:
        return contextvars.Context().run(pay, 1)

    run_id = new_id()
    result = run(elsewhere, store=memory, run_id=run_id)
    assert paid == [1]
    assert replay(elsewhere, run_id, store=memory) == result
    assert paid == [1]


class Client:
    """Something that no record can hold."""

    def __init__(self) -> None:
        self.socket = object()

    def __reduce__(self) -> Any:
        raise TypeError


def test_an_input_without_a_value_stops_a_resume_before_anything_runs(memory: Any) -> None:
    dies = [True]

    @onrecord.agent
    def with_client(client: Any) -> Any:
        pay(1)
        if dies[0]:
            raise Died
        return pay("with" if client else "without")

    run_id = broken_off(with_client, Client(), store=memory)
    dies[0] = False
    before = kinds(memory, run_id)
    for again in (resume, replay):
        with pytest.raises(onrecord.NotReplayable, match="only the type"):
            again(with_client, run_id, store=memory)
    assert kinds(memory, run_id) == before
    assert paid == [1]


def test_what_state_hands_out_is_the_agents_own(memory: Any) -> None:
    @onrecord.agent
    def counting() -> Any:
        onrecord.set_state({"n": 0})
        state = onrecord.state()
        state["n"] += 1
        onrecord.set_state(state)
        state["n"] = 99
        return onrecord.state()

    run_id = new_id()
    assert run(counting, store=memory, run_id=run_id) == {"n": 1}
    set_to = [event.payload for event in events(memory, run_id) if event.kind == "StateUpdated"]
    assert set_to == [{"n": 0}, {"n": 1}]
    assert replay(counting, run_id, store=memory) == {"n": 1}


@pytest.mark.parametrize("seconds", ["x", None, float("nan"), -1, float("inf")])
def test_a_sleep_that_cannot_be(seconds: Any) -> None:
    with pytest.raises(InvalidInput):
        onrecord.sleep(seconds)
