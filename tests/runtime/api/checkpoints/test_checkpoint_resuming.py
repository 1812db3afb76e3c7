"""Coming back costs what came after the last checkpoint, at whatever step the process died; nothing else differs."""

from __future__ import annotations

from typing import Any

import pytest

import onrecord
from kit.checkpoints import (
    AGENTS,
    Counting,
    ask,
    broken_off,
    checkpoints,
    dies_at,
    done,
    is_sound,
    kinds,
    plain,
    ticks,
    without_snapshots,
)
from kit.runtime import Died, new_id, resume, run
from kit.soak import SOAK
from kit.stores import any_store
from onrecord.core.lane_names import is_root_lane
from onrecord.store.memory import MemoryStore

# What it costs


@pytest.mark.parametrize("agent", AGENTS[:2], ids=lambda agent: agent.name)
def test_a_resume_reads_what_came_after_the_last_checkpoint(agent: Any) -> None:
    read = []
    for turns in (3, 30):
        store, run_id = Counting(), new_id()
        run(agent, turns, store=store, run_id=run_id)
        per_turn = ticks[0] // turns
        ticks[0] = 0
        dies_at[0] = per_turn * (turns - 1) + 3
        run_id = broken_off(agent, turns, store=store)
        store.read, store.lanes_asked = [], 0
        past = len(kinds(store, run_id))
        store.read = []
        dies_at[0] = ticks[0] + 2  # still before the end
        with pytest.raises(Died):
            resume(agent, run_id, store=store)
        assert store.lanes_asked == 0
        read.append(len(store.read))
        assert max(store.read, default=past) == past
        ticks[0] = dies_at[0] = 0
    assert read[0] == read[1] < 40


@any_store
def test_a_run_is_as_deep_as_it_likes(store: Any) -> None:
    turns = 200
    dies_at[0] = turns * 5
    run_id = broken_off(plain, turns, store=store)
    result = resume(plain, run_id, store=store)
    assert result == [{"turn": turns, "sum": sum(range(turns)) * 101}, "end"]
    assert len(store.snapshots("default", run_id)) == 2
    assert all(is_root_lane(one.lane) for one in onrecord.JournalReader(store, run_id).scan())
    roots = ["main", *(f"main@{number}" for number in range(1, turns))]
    assert [one.lane for one in checkpoints(store, run_id)] == roots
    assert is_sound(plain, run_id, result, store)


# Dying at every step


@pytest.mark.parametrize("snapshots", ["kept", "deleted"])
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_a_process_may_die_at_every_step(agent: Any, snapshots: str) -> None:
    run_id = new_id()
    expected = run(agent, 3, store=MemoryStore(), run_id=run_id)
    steps, undisturbed = ticks[0], sorted(map(str, done))
    for step in range(1 if SOAK or snapshots == "kept" else 2, steps + 1, 1 if SOAK else 3):
        store = MemoryStore()
        done.clear()
        ticks[0], dies_at[0] = 0, step
        run_id = broken_off(agent, 3, store=store)
        if snapshots == "deleted":
            without_snapshots(store, run_id)
        assert resume(agent, run_id, store=store) == expected
        assert set(undisturbed) == set(map(str, done))
        assert is_sound(agent, run_id, expected, store)


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_many_lives_are_one_run(agent: Any, store: Any) -> None:
    expected = run(agent, 4, store=MemoryStore(), run_id=new_id())
    ticks[0], dies_at[0] = 0, 4
    run_id = new_id()
    lives = 0
    try:
        result = run(agent, 4, store=store, run_id=run_id)
    except Died:
        while True:
            lives += 1
            if lives % 5 == 4:
                without_snapshots(store, run_id)
            dies_at[0] = ticks[0] + 5 + lives  # further each time: what is passed again has its steps, too
            try:
                result = resume(agent, run_id, store=store)
                break
            except Died:
                continue
    assert lives > 2
    dies_at[0] = 0
    assert result == expected
    assert is_sound(agent, run_id, result, store)


@any_store
def test_what_was_drawn_before_a_checkpoint_and_behind_it_comes_again(store: Any) -> None:
    @onrecord.agent(name="draws")
    def draws() -> Any:
        state = onrecord.restored() or []
        while len(state) < 6:
            state = [*state, [onrecord.random(), str(onrecord.uuid()), onrecord.now().isoformat()]]
            ask(len(state))
            state[-1].append(onrecord.random())
            if len(state) % 2 == 0:
                onrecord.checkpoint(state)
        return state

    dies_at[0] = 9
    run_id = broken_off(draws, store=store)
    result = resume(draws, run_id, store=store)
    assert len({draw for turn in result for draw in (turn[0], turn[3])}) == 12
    assert is_sound(draws, run_id, result, store)


# Snapshots are never the truth


def _damaged(store: Any, run_id: str, how: str) -> None:
    for row in store.snapshots("default", run_id)[: 2 if how == "all" else 1]:
        blob = row.blob[:-1] + bytes([row.blob[-1] ^ 1])
        store.put_snapshot("default", run_id, row._replace(blob=blob))


@pytest.mark.parametrize("how", ["newest", "all"])
def test_a_bad_snapshot_is_passed_over_for_an_older_one(how: str) -> None:
    store = Counting()
    dies_at[0] = 5 * 6 + 2
    run_id = broken_off(plain, 8, store=store)
    _damaged(store, run_id, how)
    done.clear()
    store.read = []
    result = resume(plain, run_id, store=store)
    assert (1 in store.read) is (how == "all")
    assert result == [{"turn": 8, "sum": 28 * 101}, "end"]
    assert done[0] == 5, "what was done before is not done again"
    without_snapshots(store, run_id)
    assert is_sound(plain, run_id, result, store)


def test_a_snapshot_of_another_kind_is_no_beginning() -> None:
    store = Counting()
    dies_at[0] = 5 * 2 + 4
    run_id = broken_off(plain, 4, store=store)
    with onrecord.Journal.open(store, run_id) as journal:
        onrecord.SnapshotManager(journal, onrecord.StateUpdatedOnlyReducer(), onrecord.EveryEvents(1)).take()
    result = resume(plain, run_id, store=store)
    assert result == [{"turn": 4, "sum": 606}, "end"]
    assert is_sound(plain, run_id, result, store)


@any_store
def test_a_state_of_that_name_is_no_checkpoint(store: Any) -> None:
    @onrecord.agent(name="looks_alike")
    def looks_alike() -> Any:
        assert onrecord.restored() is None
        onrecord.set_state({"turn": 1}, step_id="checkpoint")
        ask(1)
        onrecord.set_state({"turn": 2}, step_id="checkpoint")
        return [ask(2), onrecord.restored()]

    dies_at[0] = 3
    run_id = broken_off(looks_alike, store=store)
    assert resume(looks_alike, run_id, store=store) == [2, None]
    assert is_sound(looks_alike, run_id, [2, None], store)
