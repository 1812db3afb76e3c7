"""Walking a recorded run."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kit.journals import Counting, begin, small_run
from onrecord.analysis.timeline import KEPT_EVERY, ReplayEngine
from onrecord.core.events import Completed, StateUpdated
from onrecord.errors import BadPosition, NotFound, Refused
from onrecord.journal.reader import JournalReader
from onrecord.journal.snapshots import EveryEvents, SnapshotManager, StateFold
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore


def counted(store: Store, events: int, every: int = 10**9) -> None:
    journal = begin(store, "r1", reducer=Counting())
    manager = SnapshotManager(journal, Counting(), EveryEvents(every))
    for number in range(events):
        manager.observe(journal.append(StateUpdated(number)))
    journal.append(Completed())


def states(store: Store) -> list[Any]:
    fold, found = StateFold(JournalReader(store, "r1"), Counting()), []
    while fold.step() is not None:
        found.append(fold.state)
    return found


def test_all_at_once_is_all_step_by_step(store: Store) -> None:
    counted(store, 7)
    engine = ReplayEngine(store, "r1", reducer=Counting())
    seen = list(engine.steps())
    assert [step.state for step in seen] == states(store)
    assert [step.position for step in seen] == list(range(1, 9))
    assert engine.position == engine.end == 8
    assert engine.step() is None
    assert ReplayEngine(store, "r1", reducer=Counting()).replay_all() == engine.state
    assert seen[-1].state_hash == engine.state_hash


def test_every_way_to_a_position_leads_to_the_same_state(memory: MemoryStore) -> None:
    counted(memory, 3 * KEPT_EVERY, every=100)
    expected = [Counting().initial(), *states(memory)]
    engine = ReplayEngine(memory, "r1", reducer=Counting())
    rng = random.Random(5)
    for _ in range(60):
        way = rng.randrange(3)
        if way == 0:
            engine.go_to(rng.randrange(engine.end + 1))
        elif way == 1 and engine.position:
            engine.step_back()
        else:
            engine.step()
        assert engine.state == expected[engine.position]


def test_going_back_costs_a_bounded_number_of_steps(memory: MemoryStore) -> None:
    counted(memory, 4 * KEPT_EVERY)
    engine = ReplayEngine(memory, "r1", reducer=Counting())
    list(engine.steps())
    engine.step_back()
    assert engine.reductions <= KEPT_EVERY


def test_replaying_from_a_snapshot_reduces_the_tail_only(store: Store) -> None:
    counted(store, 100, every=40)
    whole = ReplayEngine(store, "r1", reducer=Counting()).replay_all()
    engine = ReplayEngine(store, "r1", reducer=Counting())
    assert engine.replay_from(85) == whole
    assert engine.reductions < 25
    assert engine.rejected == []


def test_a_state_in_hand_is_gone_on_from(store: Store) -> None:
    counted(store, 9)
    engine = ReplayEngine(store, "r1", reducer=Counting())
    engine.go_to(4)
    other = ReplayEngine.with_state(store, "r1", state=engine.state, position=4, reducer=Counting())
    assert other.replay_all() == engine.replay_all()
    assert other.reductions == 6


@pytest.mark.parametrize("position", [-1, 11, 1.0, True])
def test_a_bad_position_is_refused(memory: MemoryStore, position: Any) -> None:
    counted(memory, 9)
    engine = ReplayEngine(memory, "r1", reducer=Counting())
    for act in (engine.go_to, engine.replay_from):
        with pytest.raises(BadPosition):
            act(position)
    with pytest.raises(BadPosition):
        ReplayEngine.with_state(memory, "r1", state=None, position=position, reducer=Counting())
    assert engine.position == 0


def test_there_is_nothing_before_the_first_event(memory: MemoryStore) -> None:
    counted(memory, 2)
    with pytest.raises(BadPosition):
        ReplayEngine(memory, "r1", reducer=Counting()).step_back()


def test_an_unknown_run_is_an_error(memory: MemoryStore) -> None:
    with pytest.raises(NotFound):
        ReplayEngine(memory, "r9")


def test_the_wrong_reducer_is_refused(memory: MemoryStore) -> None:
    counted(memory, 2)
    with pytest.raises(Refused, match="reducer"):
        ReplayEngine(memory, "r1")


def test_the_engine_verifies(store: Store) -> None:
    small_run(store)
    report = ReplayEngine(store, "r1").verify()
    assert report.valid
    assert report.line.endswith("VALID")


def test_a_run_that_goes_on_grows_under_the_engine(memory: MemoryStore) -> None:
    journal = begin(memory, "r1")
    journal.append(StateUpdated(1))
    engine = ReplayEngine(memory, "r1")
    engine.replay_all()
    assert engine.step() is None
    journal.append(StateUpdated(2))
    step = engine.step()
    assert step is not None
    assert step.state == 2
