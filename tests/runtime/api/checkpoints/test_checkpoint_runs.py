"""Everything that a run can do it can do behind a checkpoint."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import onrecord
from kit.checkpoints import (
    Refused,
    ask,
    broken_off,
    checkpoints,
    dies_at,
    done,
    is_sound,
    kinds,
    plain,
    tick,
    ticks,
    without_snapshots,
)
from kit.runtime import Died, new_id, replay, resume, run
from kit.stores import any_store
from onrecord.runtime.replay.checkpoint_entry import history_to_resume
from onrecord.runtime.replay.history import History
from onrecord.store.memory import MemoryStore

# The rest of what a run can do


@any_store
def test_a_state_is_its_own(store: Any) -> None:
    @onrecord.agent(name="changes")
    def changes() -> Any:
        state = onrecord.restored() or {"seen": []}
        while len(state["seen"]) < 3:
            state["seen"].append(ask(len(state["seen"])))
            onrecord.checkpoint(state)
            state["seen"].append("gone")
            assert len(onrecord.restored()["seen"]) == len(state["seen"]) - 1
            onrecord.restored()["seen"].clear()
            state["seen"].pop()
        return state

    dies_at[0] = 4
    run_id = broken_off(changes, store=store)
    result = resume(changes, run_id, store=store)
    assert result == {"seen": [0, 1, 2]}
    assert is_sound(changes, run_id, result, store)


def test_in_doubt_behind_a_checkpoint(store: Any) -> None:
    @onrecord.tool
    def once(value: int) -> int:
        tick()
        done.append(value)
        return value

    @onrecord.agent(name="doubtful")
    def doubtful() -> Any:
        state = onrecord.restored() or 0
        while state < 3:
            once(state)
            state += 1
            onrecord.checkpoint(state)
        return state

    dies_at[0] = 2
    run_id = broken_off(doubtful, store=store)
    with pytest.raises(onrecord.InDoubt):
        resume(doubtful, run_id, store=store)
    onrecord.settle(store, run_id, decision="done", value=1)
    assert resume(doubtful, run_id, store=store) == 3
    assert done == [0, 2]
    assert is_sound(doubtful, run_id, 3, store)


@pytest.mark.parametrize("snapshots", ["kept", "deleted"])
@any_store
def test_changed_code_is_named_or_accepted(store: Any, snapshots: str) -> None:
    said = ["old"]

    @onrecord.agent(name="changing")
    def changing() -> Any:
        state = onrecord.restored() or {"turn": 0, "said": []}
        while state["turn"] < 4:
            word = said[0] if state["turn"] >= 2 else "old"
            state = {"turn": state["turn"] + 1, "said": [*state["said"], ask(f"{word} {state['turn']}")]}
            if state["turn"] % 2 == 0:
                onrecord.checkpoint(state)
        return state["said"]

    dies_at[0] = 7  # before the fourth: the checkpoint after the second is there
    run_id = broken_off(changing, store=store)
    if snapshots == "deleted":
        without_snapshots(store, run_id)
    said[0] = "new"
    with pytest.raises(onrecord.Divergence):
        resume(changing, run_id, store=store)
    result = resume(changing, run_id, store=store, accept_code=True)
    assert result == ["old 0", "old 1", "new 2", "new 3"]
    assert is_sound(changing, run_id, result, store)


@any_store
def test_a_checkpoint_that_changed_code_did_not_come_by_is_no_beginning(store: Any) -> None:
    said = ["old"]

    @onrecord.agent(name="passing_by")
    def passing_by() -> Any:
        state = onrecord.restored() or {"turn": 0, "said": []}
        while state["turn"] < 5:
            state = {"turn": state["turn"] + 1, "said": [*state["said"], ask(f"{said[0]} {state['turn']}")]}
            if state["turn"] != 4 or said[0] == "old":
                onrecord.checkpoint(state)
        return state["said"]

    dies_at[0] = 7
    run_id = broken_off(passing_by, store=store)
    kept = store.snapshots("default", run_id)
    without_snapshots(store, run_id)
    said[0] = "new"
    dies_at[0] = ticks[0] + 3
    with pytest.raises(Died):
        resume(passing_by, run_id, store=store, accept_code=True)
    dies_at[0] = 0
    for row in kept:
        store.put_snapshot("default", run_id, row)  # they are as good as ever, but for what the record says
    result = resume(passing_by, run_id, store=store)
    assert result == [f"new {number}" for number in range(5)]
    assert is_sound(passing_by, run_id, result, store)


@any_store
def test_another_state_is_a_divergence(store: Any) -> None:
    word = ["one"]

    @onrecord.agent(name="other_state")
    def other_state() -> Any:
        if onrecord.restored() is None:
            ask(1)
            onrecord.checkpoint(word[0])
        return ask(2)

    dies_at[0] = 3
    run_id = broken_off(other_state, store=store)
    word[0] = "two"
    with pytest.raises(onrecord.Divergence) as caught:
        replay(other_state, run_id, store=store)
    assert caught.value.code == "conflicting_state"
    assert resume(other_state, run_id, store=store) == 2, "nobody asks for it any more"
    word[0] = "one"
    assert is_sound(other_state, run_id, 2, store)


def test_a_checkpoint_more_or_less_is_a_divergence() -> None:
    there = [True]

    @onrecord.agent(name="more_or_less")
    def more_or_less() -> Any:
        ask(1)
        if there[0]:
            onrecord.checkpoint(1)
        return ask(2)

    store = MemoryStore()
    with_one, without = new_id(), new_id()
    run(more_or_less, store=store, run_id=with_one)
    there[0] = False
    run(more_or_less, store=store, run_id=without)
    with pytest.raises(onrecord.Divergence):
        replay(more_or_less, with_one, store=store)
    there[0] = True
    with pytest.raises(onrecord.Divergence) as caught:
        replay(more_or_less, without, store=store)
    assert caught.value.code == "unrecorded_checkpoint"


@any_store
def test_a_replay_of_a_run_that_has_not_ended_ends_where_it_does(store: Any) -> None:
    dies_at[0] = 12
    run_id = broken_off(plain, 4, store=store)
    with pytest.raises(onrecord.OnrecordError) as caught:
        replay(plain, run_id, store=store)
    assert caught.value.code == "record_ended"
    assert resume(plain, run_id, store=store)[0]["turn"] == 4


def test_children_behind_a_checkpoint(store: Any) -> None:
    @onrecord.agent(name="checkpointed_child", store=store)
    def child(number: int) -> Any:
        state = onrecord.restored() or 0
        while state < 3:
            ask(f"{number}.{state}")
            state += 1
            onrecord.checkpoint(state)
        return number

    @onrecord.agent(name="checkpointed_parent", policy=onrecord.Policy(budget=onrecord.Budget(calls=100)))
    def parent() -> Any:
        state = onrecord.restored() or []
        while len(state) < 3:
            state = [*state, child(len(state))]
            onrecord.checkpoint(state)
        return state

    for step in (4, 8, 12, 16):
        done.clear()
        ticks[0], dies_at[0] = 0, step
        run_id = broken_off(parent, store=store)
        assert resume(parent, run_id, store=store) == [0, 1, 2]
        assert [done.count(f"{number}.{turn}") for number in range(3) for turn in range(3)].count(1) >= 8
        assert is_sound(parent, run_id, [0, 1, 2], store)


@any_store
def test_streams_behind_a_checkpoint(store: Any) -> None:
    @onrecord.step
    async def words(text: str) -> Any:
        for word in text.split():
            tick()
            yield word

    @onrecord.agent(name="reading")
    async def reading() -> Any:
        state = onrecord.restored() or []
        while len(state) < 3:
            heard = []
            async for word in words(f"turn {len(state)} said"):
                heard.append(word)
                if len(heard) == 1:
                    with Refused("checkpoint_not_alone"):
                        onrecord.checkpoint(heard)
            state = [*state, heard]
            onrecord.checkpoint(state)
        return state

    expected = [["turn", str(number), "said"] for number in range(3)]
    for step in (3, 4, 7):
        ticks[0], dies_at[0] = 0, step
        run_id = broken_off(reading, store=store)
        if step == 4:  # the first word of the second was not acted upon
            assert resume(reading, run_id, store=store) == expected
            assert is_sound(reading, run_id, expected, store)


@any_store
def test_a_cancellation_is_heard_at_a_checkpoint(store: Any) -> None:
    """What was asked for before it must not be lost for whoever begins there."""

    @onrecord.agent(name="stubborn")
    def stubborn() -> Any:
        state = onrecord.restored() or "first"
        if state == "first":
            try:
                ask("told")
                told.wait(10)
                onrecord.checkpoint("never")
            except asyncio.CancelledError:
                onrecord.checkpoint("told")
        return [onrecord.restored(), ask("last")]

    told = threading.Event()
    run_id = new_id()
    dies_at[0] = 3
    handle = stubborn.start(run_id=run_id, store=store)
    while "told" not in done:
        threading.Event().wait(0.005)
    onrecord.cancel(store, run_id)
    while "SignalReceived" not in kinds(store, run_id):
        threading.Event().wait(0.01)
    told.set()
    with pytest.raises(BaseException):  # noqa: B017
        handle.result(timeout=20)
    assert [one.event.payload for one in checkpoints(store, run_id)] == ["told"]
    told.clear()
    with pytest.raises(onrecord.OnrecordError) as caught:
        replay(stubborn, run_id, store=store)
    assert caught.value.code == "record_ended"


@any_store
def test_a_recorded_block_may_have_checkpoints(store: Any) -> None:
    with onrecord.record("nightly", run_id="nightly", store=store):
        ask(1)
        onrecord.checkpoint({"at": 1})
        ask(2)
        assert onrecord.restored() == {"at": 1}
    assert onrecord.verify_run(store, "nightly", deep=True).valid
    assert [one.lane for one in onrecord.JournalReader(store, "nightly").scan() if one.kind == "ActionRequested"] == [
        "main",
        "main@1",
    ]


def test_the_history_after_a_checkpoint_is_the_end_of_the_whole(store: Any) -> None:
    dies_at[0] = 13
    run_id = broken_off(plain, 4, store=store)
    reader = onrecord.JournalReader(store, run_id)
    whole, taken = History(reader), checkpoints(store, run_id)
    with onrecord.Journal.open(store, run_id) as journal:
        after = history_to_resume(journal, None)
    assert after.beginning is not None
    assert (after.began_at, after.beginning.lane) == (taken[-1].seq, f"main@{len(taken)}")
    assert after.beginning.state == after.members(after.beginning.row)["payload"]
    assert (after.last_seq, list(after.open)) == (whole.last_seq, list(whole.open))
    assert after.requested < whole.requested
