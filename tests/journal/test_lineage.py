"""The line of runs that a fork comes from."""

from __future__ import annotations

import pytest

from onrecord.analysis.timeline import ReplayEngine
from onrecord.core.events import Completed, StateUpdated
from onrecord.core.hashing import render
from onrecord.core.links import ParentRun
from onrecord.core.state import StateUpdatedOnlyReducer
from onrecord.errors import Damaged, InvalidInput, NotFound
from onrecord.journal import lineage
from onrecord.journal.journal import Journal
from onrecord.journal.lineage import shared_stretches
from onrecord.journal.reader import JournalReader
from onrecord.journal.retention import retirable_runs, retire_run
from onrecord.journal.snapshots import StateFold
from onrecord.journal.verify import verify_run
from onrecord.store.memory import MemoryStore


def recorded(store: MemoryStore, run: str, parent: ParentRun | None = None, states: int = 3) -> None:
    with Journal.create(store, run, parent=parent) as journal:
        for number in range(states):
            journal.append(StateUpdated([run, number]))
        journal.append(Completed(run))


def fork_of(store: MemoryStore, run: str, seq: int) -> ParentRun:
    row = store.event("default", run, seq)
    head = row.hash if row is not None else JournalReader(store, run).header_row.hash
    return ParentRun(head=render(head), relation="fork", run=run, seq=seq)


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    recorded(store, "base")
    recorded(store, "fork", fork_of(store, "base", 2))
    recorded(store, "below", fork_of(store, "fork", 1))
    return store


def test_shared_events_stand_before_those_of_the_fork(store: MemoryStore) -> None:
    shared = shared_stretches(JournalReader(store, "below"))
    assert [(one.reader.run, one.last, one.shift) for one in shared] == [("base", 2, -3), ("fork", 1, -1)]
    assert [row.seq for one in shared for row, _ in one.rows()] == [-2, -1, 0]
    assert shared_stretches(JournalReader(store, "base")) == []


def test_a_child_run_shares_nothing(store: MemoryStore) -> None:
    parent = fork_of(store, "base", 2)
    recorded(store, "child", ParentRun(head=parent.head, relation="child", run="base", seq=2))
    assert shared_stretches(JournalReader(store, "child")) == []


def test_a_parent_that_is_another_one_is_never_taken_for_it(store: MemoryStore) -> None:
    head = f"sha256:{'0' * 64}"
    for number, seq in enumerate((0, 2, 4, 10**15)):
        recorded(store, f"liar{number}", ParentRun(head=head, relation="fork", run="base", seq=seq))
        with pytest.raises(Damaged) as damage:
            shared_stretches(JournalReader(store, f"liar{number}"))
        assert damage.value.code == "other_parent"
        report = verify_run(store, f"liar{number}")
        assert ([one.code for one in report.problems], report.valid) == (["other_parent"], False)


def test_a_parent_that_is_not_here_is_said_to_be_missing(store: MemoryStore) -> None:
    recorded(store, "orphan", ParentRun(head=f"sha256:{'0' * 64}", relation="fork", run="gone", seq=1))
    with pytest.raises(NotFound) as missing:
        shared_stretches(JournalReader(store, "orphan"))
    assert missing.value.code == "missing_parent"
    report = verify_run(store, "orphan")
    assert report.valid, "it is whole by itself"
    assert any("not in this store" in note for note in report.notes)
    assert any("shares 1 events with run fork" in note for note in verify_run(store, "below").notes)


def test_a_line_has_an_end(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "LONGEST", 50)
    above = "base"
    for number in range(51):
        with Journal.create(store, f"deep{number}", parent=fork_of(store, above, 0)):
            above = f"deep{number}"
    with pytest.raises(Damaged) as damage:
        shared_stretches(JournalReader(store, above))
    assert damage.value.code == "endless_lineage"


def test_a_run_that_was_forked_stays_as_long_as_its_forks(store: MemoryStore) -> None:
    assert [one.run for one in retirable_runs(store, keep_newest=0)] == ["below"]
    for run in ("base", "fork"):
        with pytest.raises(InvalidInput) as refused:
            retire_run(store, run, reason="old")
        assert refused.value.code == "run_has_forks"
    for run in ("below", "fork", "base"):
        retire_run(store, run, reason="old")


def test_a_fork_begins_with_the_state_of_its_parent(store: MemoryStore) -> None:
    """And with that of its parent's parent where the one between has none."""
    recorded(store, "silent", fork_of(store, "base", 2), states=0)
    recorded(store, "last", fork_of(store, "silent", 0), states=1)
    fold = StateFold(JournalReader(store, "last"), StateUpdatedOnlyReducer())
    assert fold.state == ["base", 1]
    assert fold.replay_all() == ["last", 0]
    engine = ReplayEngine(store, "last")
    assert (engine.state, engine.replay_all()) == (["base", 1], ["last", 0])
    engine.go_to(0)
    assert engine.state == ["base", 1]
