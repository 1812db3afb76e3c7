"""What is carried over a checkpoint besides the state: keys of effects and of waits, budgets."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import onrecord
from kit.checkpoints import (
    Counting,
    ask,
    ask_in_thread,
    ask_later,
    broken_off,
    dies_at,
    done,
    is_sound,
    pay,
    tick,
    ticks,
    without_snapshots,
)
from kit.runtime import resume
from kit.stores import any_store
from onrecord.core.wait_keys import Resolution
from onrecord.runtime.engine.stops import EffectConflict
from onrecord.runtime.replay.checkpoint_entry import EarlierKeys
from onrecord.runtime.waits.registry import WaitRegistry

# Keys of the caller's own


@pytest.mark.parametrize("snapshots", ["kept", "deleted"])
@any_store
def test_a_key_that_was_used_before_is_answered_from_the_record(store: Any, snapshots: str) -> None:
    @onrecord.agent(name="keyed")
    def keyed() -> Any:
        state = onrecord.restored() or {"turn": 0, "receipts": []}
        while state["turn"] < 4:
            receipt = pay.keyed("rent", 500)
            ask(state["turn"])
            again = pay.keyed(f"extra {state['turn'] // 2}", 7)
            state = {"turn": state["turn"] + 1, "receipts": [*state["receipts"], receipt, again]}
            onrecord.checkpoint(state)
        return state["receipts"]

    for step in range(1, 9):
        done.clear()
        ticks[0], dies_at[0] = 0, step
        run_id = broken_off(keyed, store=store)
        if snapshots == "deleted":
            without_snapshots(store, run_id)
        result = resume(keyed, run_id, store=store)
        assert result == ["receipt 500", "receipt 7"] * 4
        assert [one for one in done if str(one).startswith("paid")] == ["paid 500", "paid 7", "paid 7"]
        assert is_sound(keyed, run_id, result, store)


def test_earlier_history_is_looked_through_once_and_only_for_such_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    find = EarlierKeys.find
    monkeypatch.setattr(EarlierKeys, "find", lambda self, key: (looks.append(key), find(self, key))[1])

    @onrecord.agent(name="looks_back")
    def looks_back() -> Any:
        if onrecord.restored() is None:
            pay.keyed("first", 1)
            for number in range(20):
                ask(number)
            onrecord.checkpoint("there")
        ask("behind")
        given = [pay.keyed("first", 1), pay.keyed("new", 2), pay.keyed("new", 2), pay.keyed("first", 1)]
        with pytest.raises(EffectConflict):
            pay.keyed("first", 3)
        return given

    store = Counting()
    dies_at[0] = 41
    run_id = broken_off(looks_back, store=store)
    store.read = []
    assert resume(looks_back, run_id, store=store) == ["receipt 1", "receipt 2", "receipt 2", "receipt 1"]
    assert looks == ["first", "new"]
    assert store.read.count(1) == 1
    assert [one for one in done if str(one).startswith("paid")] == ["paid 1", "paid 2"]


# Waits


@pytest.mark.parametrize("snapshots", ["kept", "deleted"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_key_given_out_before_is_the_one_that_is_waited_for(store: Any, snapshots: str, asynchronous: bool) -> None:
    sent: list[str] = []

    @onrecord.tool(idempotent=True)
    def send(key: str) -> None:
        sent.append(key)

    @onrecord.agent(name="waiting")
    def waiting() -> Any:
        state = onrecord.restored()
        if state is None or state["at"] == 1:
            if state is None:
                state = {"key": onrecord.wait_key("approval"), "at": 1}
                send(state["key"])
                onrecord.checkpoint(state)
            ask("between")
            state = {**state, "at": 2}
            onrecord.checkpoint(state)
        send(state["key"])
        ask("still")
        first = onrecord.wait_for("approval", timeout="1m")
        onrecord.checkpoint({"first": first, "at": 3, "key": onrecord.wait_key("approval")})
        send(onrecord.wait_key("approval"))
        return [first, onrecord.wait_for("approval", timeout="1m")]

    @onrecord.agent(name="waiting_async")
    async def waiting_async() -> Any:
        state = onrecord.restored()
        if state is None:
            state = {"key": onrecord.wait_key("approval"), "at": 1}
            send(state["key"])
            onrecord.checkpoint(state)
        send(state["key"])
        await ask_later("still")
        first = await onrecord.wait_for("approval", timeout="1m")
        send(onrecord.wait_key("approval"))
        return [first, await onrecord.wait_for("approval", timeout="1m")]

    agent = waiting_async if asynchronous else waiting
    dies_at[0] = 1 if asynchronous else 3
    run_id = broken_off(agent, store=store)
    assert len(set(sent)) == 1
    desk = WaitRegistry(store)
    desk.resolve(sent[0], Resolution.ok("yes"))
    if snapshots == "deleted":
        without_snapshots(store, run_id)
    ahead = threading.Thread(target=_resolve_second, args=(desk, sent))
    ahead.start()
    result = resume(agent, run_id, store=store)
    ahead.join()
    assert result == ["yes", "second"]
    assert all(key.startswith("rwk1.") for key in sent)
    assert not any("rwk1." in str(one.event.content()) for one in onrecord.JournalReader(store, run_id).scan())
    assert is_sound(agent, run_id, result, store)


def _resolve_second(desk: WaitRegistry, sent: list[str]) -> None:
    while len(set(sent)) < 2:
        threading.Event().wait(0.005)
    second = next(key for key in reversed(sent) if key != sent[0])
    desk.resolve(second, Resolution.ok("second"))


@any_store
def test_a_state_with_a_key_in_it_is_the_same_when_the_run_comes_back(store: Any) -> None:
    @onrecord.agent(name="keeps_a_key")
    def keeps_a_key() -> Any:
        onrecord.set_state({"key": onrecord.wait_key("approval")})
        ask(1)
        return len(onrecord.state()["key"]) > 0

    dies_at[0] = 2
    run_id = broken_off(keeps_a_key, store=store)
    assert resume(keeps_a_key, run_id, store=store) is True
    assert is_sound(keeps_a_key, run_id, True, store)


# Threads


@pytest.mark.parametrize("snapshots", ["kept", "deleted"])
@any_store
def test_a_run_that_had_threads_is_resumed(store: Any, snapshots: str) -> None:
    @onrecord.agent(name="had_threads")
    def had_threads() -> Any:
        if onrecord.restored() is None:
            thread = threading.Thread(target=ask_in_thread, args=(1,))
            thread.start()
            thread.join()
            onrecord.checkpoint("threads")
        if onrecord.restored() == "threads":
            ask(2)
            onrecord.checkpoint("no more threads")
        return ask(3)

    for step in (1, 3):
        ticks[0], dies_at[0] = 0, step
        run_id = broken_off(had_threads, store=store)
        if snapshots == "deleted":
            without_snapshots(store, run_id)
        assert resume(had_threads, run_id, store=store) == 3
        assert is_sound(had_threads, run_id, 3, store)


# Budgets


@any_store
def test_what_was_spent_before_counts(store: Any) -> None:
    @onrecord.step
    def costly(tokens: int) -> Any:
        tick()
        return {"usage": {"total_tokens": tokens}}

    @onrecord.agent(name="spender", policy=onrecord.Policy(budget=onrecord.Budget(calls=20, tokens=100)))
    def spender() -> Any:
        state = onrecord.restored() or 0
        try:
            while True:
                costly(30)
                state += 1
                onrecord.checkpoint(state)
        except onrecord.BudgetExceeded as exceeded:
            return [state, exceeded.message]

    expected = [4, "the budget of 100 tokens is spent"]
    for step in range(1, 5):
        ticks[0], dies_at[0] = 0, step
        run_id = broken_off(spender, store=store)
        assert resume(spender, run_id, store=store) == expected
        assert is_sound(spender, run_id, expected, store)


def test_a_budget_that_is_newer_than_the_checkpoint_counts_from_the_beginning() -> None:
    def work() -> Any:
        state = onrecord.restored() or 0
        try:
            while state < 10:
                ask(state)
                state += 1
                onrecord.checkpoint(state)
        except onrecord.BudgetExceeded:
            return f"out of budget after {state}"
        return state

    store = Counting()
    free = onrecord.agent(name="budgeted_later")(work)
    dies_at[0] = 7
    run_id = broken_off(free, store=store)
    bound = onrecord.agent(name="budgeted_later", policy=onrecord.Policy(budget=onrecord.Budget(calls=6)))(work)
    store.read = []
    assert resume(bound, run_id, store=store) == "out of budget after 6"
    assert 1 in store.read
