"""Snapshots: rows D 34-39."""

from __future__ import annotations

from typing import Any

import pytest

from kit.journals import NS, Altered, Counting, FixedSources, begin, flipped, rows_of, with_content
from onrecord.core.events import ActionRequested, Completed, SnapshotTaken, StateUpdated
from onrecord.core.hashing import snapshot_seal
from onrecord.core.packing import pack
from onrecord.core.state import StateUpdatedOnlyReducer, state_link
from onrecord.errors import InvalidInput
from onrecord.journal.journal import Draft, Journal
from onrecord.journal.reader import JournalReader
from onrecord.journal.snapshots import (
    AtMarkedPoints,
    EveryEvents,
    SnapshotManager,
    StateFold,
    WhenStateReaches,
    load_snapshot,
    take_snapshot,
)
from onrecord.journal.verify import verify_run
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

REPLACE = StateUpdatedOnlyReducer()


def counted(store: Store, events: int, every: int = 10**9, run: str = "r1") -> Journal:
    journal = begin(store, run, reducer=Counting())
    manager = SnapshotManager(journal, Counting(), EveryEvents(every))
    for number in range(events):
        manager.observe(journal.append(StateUpdated(number)))
    return journal


def test_only_the_tail_is_replayed(store: Store) -> None:
    counted(store, 10, every=4)
    reducer = Counting()
    fold = StateFold.from_snapshot(JournalReader(store, "r1"), reducer)
    assert fold.replay_all()["sum"] == 10
    assert (fold.reductions, reducer.applied) == (2, 2)
    whole = Counting()
    StateFold(JournalReader(store, "r1"), whole).replay_all()
    assert whole.applied == 10


def test_without_any_snapshot_the_state_is_the_same(store: Store) -> None:
    counted(store, 10, every=4)
    reader = JournalReader(store, "r1")
    with_them = StateFold.from_snapshot(reader, Counting()).replay_all()
    for row in store.snapshots(NS, "r1"):
        store.delete_snapshot(NS, "r1", row.seq)
    fold = StateFold.from_snapshot(reader, Counting())
    assert fold.position == 0
    assert fold.replay_all() == with_them
    assert verify_run(store, "r1").valid


def alterations() -> dict[str, Any]:
    def sealed(row: Any, **more: Any) -> Any:
        row = row._replace(**more)
        stored = row.blob[1:]
        return row._replace(seal=snapshot_seal("r1", row.seq, row.head, row.reducer, row.state_version, stored))

    return {
        "another state": lambda row: row._replace(blob=pack(b'{"sum":9,"seen":[]}')),
        "one bit of the state": lambda row: row._replace(blob=flipped(row.blob)),
        "the seal": lambda row: row._replace(seal=flipped(row.seal)),
        "the head": lambda row: row._replace(head=flipped(row.head)),
        "the version": lambda row: row._replace(state_version=2),
        "the reducer": lambda row: row._replace(reducer="other/1"),
        "another state, sealed": lambda row: sealed(row, blob=pack(b'{"sum":9,"seen":[]}')),
        "another head, sealed": lambda row: sealed(row, head=flipped(row.head)),
        "another place, sealed": lambda row: sealed(row, seq=row.seq - 1),
        "bytes that are no JSON, sealed": lambda row: sealed(row, blob=b"\x00{"),
        "no packing": lambda row: row._replace(blob=b"\x07" + row.blob),
        "nothing": lambda row: row._replace(blob=b""),
    }


@pytest.mark.parametrize("alteration", list(alterations()))
def test_a_bad_newest_snapshot_is_passed_over_and_said_so(memory: MemoryStore, alteration: str) -> None:
    counted(memory, 6, every=3)
    alter = alterations()[alteration]
    store = Altered(memory, snapshots=lambda rows: [alter(rows[0]), *rows[1:]])
    fold = StateFold.from_snapshot(JournalReader(store, "r1"), Counting())
    assert fold.position == 3
    assert len(fold.rejected) == 1
    assert fold.rejected[0].reason
    assert fold.replay_all()["sum"] == 6
    report = verify_run(store, "r1")
    assert report.snapshots == 2
    assert len(report.rejected_snapshots) == 1
    assert {problem.code for problem in report.problems} == {"bad_snapshot"}
    assert report.verified == report.events == 8, "a snapshot is never the truth: every event still verifies"


def test_a_good_snapshot_is_used_and_nothing_is_said(memory: MemoryStore) -> None:
    counted(memory, 6, every=3)
    fold = StateFold.from_snapshot(JournalReader(memory, "r1"), Counting())
    assert (fold.position, fold.rejected) == (7, [])


def test_when_all_are_bad_the_fold_begins_at_the_beginning(memory: MemoryStore) -> None:
    counted(memory, 6, every=3)
    store = Altered(memory, snapshots=lambda rows: [row._replace(seal=bytes(32)) for row in rows])
    fold = StateFold.from_snapshot(JournalReader(store, "r1"), Counting())
    assert fold.position == 0
    assert [snapshot.position for snapshot in fold.rejected] == [7, 3]
    assert fold.replay_all()["sum"] == 6


def test_a_snapshot_of_another_run_is_refused(memory: MemoryStore) -> None:
    counted(memory, 3, every=3, run="r1")
    counted(memory, 3, every=3, run="r2")
    store = Altered(memory, snapshots=lambda rows: memory.snapshots(NS, "r2"))
    fold = StateFold.from_snapshot(JournalReader(store, "r1"), Counting())
    assert fold.position == 0
    assert len(fold.rejected) == 1


def test_a_snapshot_without_the_event_that_vouches_for_it_is_refused(memory: MemoryStore) -> None:
    counted(memory, 3, every=3)
    rows = rows_of(memory)
    for altered in ([*rows[:3]], [*rows[:3], with_content(rows[3], flipped)]):
        fold = StateFold.from_snapshot(JournalReader(Altered(memory, rows=altered), "r1"), Counting())
        assert fold.position == 0
        assert len(fold.rejected) == 1


def test_a_crash_between_voucher_and_snapshot_harms_nobody(memory: MemoryStore) -> None:
    journal = counted(memory, 3)
    state = {"sum": 3, "seen": [0, 1, 2]}

    def fail(*_: Any) -> None:
        raise OSError("killed here")

    journal.store = type("S", (), {"__getattr__": lambda _, name: getattr(memory, name), "put_snapshot": fail})()
    with pytest.raises(OSError, match="killed"):
        take_snapshot(journal, Counting(), state, 3)
    fold = StateFold.from_snapshot(JournalReader(memory, "r1"), Counting())
    assert (fold.position, fold.rejected) == (0, [])
    assert fold.replay_all()["sum"] == 3
    assert verify_run(memory, "r1", deep=True).valid


def test_a_snapshot_is_of_the_head_only(store: Store) -> None:
    journal = counted(store, 3)
    for position in (0, 2, 4):
        with pytest.raises(InvalidInput):
            take_snapshot(journal, Counting(), {}, position)
    assert store.snapshots(NS, "r1") == []


def test_no_snapshot_after_the_end(store: Store) -> None:
    journal = begin(store)
    manager = SnapshotManager(journal, REPLACE, EveryEvents(1))
    assert manager.observe(journal.append([StateUpdated(1), Completed()])) == []
    assert verify_run(store, "r1").valid


def test_at_most_gives_an_older_snapshot(store: Store) -> None:
    counted(store, 9, every=3)
    reader = JournalReader(store, "r1")
    for at_most, position in ((None, 11), (11, 11), (10, 7), (3, 3)):
        snapshot, rejected = load_snapshot(reader, Counting(), at_most=at_most)
        assert snapshot is not None
        assert (snapshot.position, rejected) == (position, [])
    assert load_snapshot(reader, Counting(), at_most=2) == (None, [])


# Policies


def test_every_n_counts_events_also_over_batches(store: Store) -> None:
    journal = begin(store)
    manager = SnapshotManager(journal, REPLACE, EveryEvents(4))
    taken = [manager.observe(journal.append([StateUpdated(n), StateUpdated(n)])) for n in range(4)]
    assert taken == [[], [4], [], [9]]
    with pytest.raises(InvalidInput):
        EveryEvents(0)


def test_a_marked_point_inside_a_batch_is_not_missed(memory: MemoryStore) -> None:
    """The snapshot comes at the end of the batch at the latest; a policy that was due stays due."""
    journal = begin(memory)
    manager = SnapshotManager(journal, REPLACE, AtMarkedPoints(kinds=frozenset({"StateUpdated"})))
    assert manager.observe(journal.append([StateUpdated(1), ActionRequested("a1", None)])) == [2]


def test_a_size_reached_inside_a_batch_is_not_forgotten(memory: MemoryStore) -> None:
    journal = begin(memory)
    manager = SnapshotManager(journal, REPLACE, WhenStateReaches(500))
    assert manager.observe(journal.append([StateUpdated("x" * 1200), ActionRequested("a1", None)])) == [2]


def test_counting_goes_on_over_a_reopened_handle(memory: MemoryStore) -> None:
    """A process that is restarted more often than every N events must not go without snapshots for ever."""
    begin(memory).append(StateUpdated(0))
    taken = []
    for number in range(1, 8):
        journal = Journal.open(memory, "r1", sources=FixedSources(f"again{number}"))
        manager = SnapshotManager(journal, REPLACE, EveryEvents(3))
        taken += manager.observe(journal.append(StateUpdated(number)))
    assert taken


def test_the_manager_refuses_events_that_do_not_follow(store: Store) -> None:
    journal = begin(store)
    manager = SnapshotManager(journal, REPLACE, EveryEvents(5))
    journal.append(StateUpdated(1))
    with pytest.raises(InvalidInput):
        manager.observe(journal.append(StateUpdated(2)))


def test_a_snapshot_holds_what_was_recorded_and_not_what_the_caller_made_of_it_since(memory: MemoryStore) -> None:
    """Row 35: never the truth. A state that is only in the caller's memory is not in the log."""
    journal = begin(memory)
    manager = SnapshotManager(journal, REPLACE, EveryEvents(2))
    payload = {"n": 1}
    manager.observe(journal.append(StateUpdated(payload)))
    payload["n"] = 99
    assert manager.observe(journal.append(ActionRequested("a1", None))) == [2]
    reader = JournalReader(memory, "r1")
    assert StateFold(reader, REPLACE).replay_all() == {"n": 1}
    assert StateFold.from_snapshot(reader, REPLACE).replay_all() == {"n": 1}


def test_a_voucher_for_a_state_that_the_log_does_not_have_is_found(memory: MemoryStore) -> None:
    """A snapshot must not be verified against its own word alone: for the built-in reducer the state is in the log."""
    journal = begin(memory)
    journal.append(StateUpdated({"n": 1}))
    salt = bytes(range(16))
    lie = SnapshotTaken(position=1, reducer="replace/1", state_version=1, state=state_link({"n": 99}, salt))
    journal.append(Draft(lie, salt=salt))
    report = verify_run(memory, "r1", deep=True)
    assert report.first_bad_seq == 2


# Versions


class Second(Counting):
    state_version = 2


class Fourth(Counting):
    state_version = 4


def _rename(state: Any) -> Any:
    return {"sum": state["sum"], "seen": state["seen"], "migrated": [*state.get("migrated", []), True]}


def test_an_old_state_is_migrated_step_by_step(store: Store) -> None:
    counted(store, 4, every=4)
    reader = JournalReader(store, "r1")
    fold = StateFold.from_snapshot(reader, Fourth(), migrations={1: _rename, 2: _rename, 3: _rename})
    assert fold.position == 4
    assert fold.state["migrated"] == [True, True, True]


def test_an_old_state_without_a_migration_is_passed_over(store: Store) -> None:
    counted(store, 4, every=4)
    reader = JournalReader(store, "r1")
    for migrations in (None, {2: _rename}):
        fold = StateFold.from_snapshot(reader, Second(), migrations=migrations)
        assert fold.position == 0
        assert "version 1" in fold.rejected[0].reason
        assert fold.replay_all()["sum"] == 4


def test_a_newer_state_is_passed_over(store: Store) -> None:
    journal = begin(store, reducer=Second())
    manager = SnapshotManager(journal, Second(), EveryEvents(2))
    for number in range(2):
        manager.observe(journal.append(StateUpdated(number)))
    fold = StateFold.from_snapshot(JournalReader(store, "r1"), Counting())
    assert fold.position == 0
    assert "newer" in fold.rejected[0].reason


def test_snapshots_of_another_reducer_are_passed_over(store: Store) -> None:
    counted(store, 4, every=4)
    fold = StateFold.from_snapshot(JournalReader(store, "r1"), REPLACE)
    assert fold.position == 0
    assert "counting/1" in fold.rejected[0].reason


def test_large_and_odd_states_come_back(store: Store) -> None:
    journal = begin(store)
    state = {"blob": b"b" * 70_000, "t": (1, {2}), "text": "word " * 1000, "n": 2**80}
    journal.append(StateUpdated(state))
    take_snapshot(journal, REPLACE, state, 1)
    fold = StateFold.from_snapshot(JournalReader(store, "r1"), REPLACE)
    assert (fold.position, fold.state) == (1, state)
