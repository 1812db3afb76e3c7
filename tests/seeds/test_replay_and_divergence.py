"""Seed: the document on replay and divergence. What it says of replay, verification and snapshots.

Divergence is judged elsewhere.
"""

from __future__ import annotations

from typing import Any

import pytest

from kit.journals import NS, Altered, Counting, begin, flipped, rows_of, small_run, with_content
from onrecord.core.events import ActionRequested, ActionSucceeded, Completed, StateUpdated
from onrecord.core.hashing import snapshot_seal
from onrecord.core.packing import pack
from onrecord.core.state import StateUpdatedOnlyReducer, state_hash
from onrecord.errors import BadPosition, Damaged
from onrecord.journal.journal import Draft, Journal
from onrecord.journal.reader import JournalReader
from onrecord.journal.snapshots import AtMarkedPoints, EveryEvents, SnapshotManager, StateFold, WhenStateReaches
from onrecord.journal.verify import verify_run
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

REPLACE = StateUpdatedOnlyReducer()


def counted(store: Store, run: str, events: int, every: int | None = None, **more: Any) -> Journal:
    """`events` state updates; a snapshot after every `every` of them."""
    journal = begin(store, run, reducer=Counting(), **more)
    manager = SnapshotManager(journal, Counting(), EveryEvents(every or 10**9))
    for number in range(events):
        manager.observe(journal.append(StateUpdated({"n": number})))
    return journal


def test_replay_all_reconstructs_the_final_state(store: Store) -> None:
    counted(store, "r1", 5)
    fold = StateFold(JournalReader(store, "r1"), Counting())
    assert fold.replay_all() == {"sum": 5, "seen": [{"n": n} for n in range(5)]}
    assert fold.position == 5


def test_step_by_step_replay_shows_every_event_and_then_ends(store: Store) -> None:
    small_run(store)
    reader = JournalReader(store, "r1")
    fold = StateFold(reader, REPLACE)
    seen, states = [], []
    while (event := fold.step()) is not None:
        seen.append(event)
        states.append(fold.state)
    assert seen == list(reader.scan())
    assert states == [{"n": 1}, {"n": 1}, {"n": 1}, {"n": 2}, {"n": 2}, {"n": 2}]
    assert fold.step() is None


def test_partial_replay_from_a_snapshot_equals_full_replay(store: Store) -> None:
    counted(store, "r1", 10, every=4)
    reader = JournalReader(store, "r1")
    full = StateFold(reader, Counting()).replay_all()
    partial = StateFold.from_snapshot(reader, Counting())
    assert partial.position == 9  # four updates, a voucher, four updates
    assert partial.replay_all() == full
    assert partial.reductions == 2  # the voucher is no part of the state


def test_partial_replay_from_a_state_in_hand_equals_full_replay(store: Store) -> None:
    counted(store, "r1", 10)
    reader = JournalReader(store, "r1")
    middle = StateFold(reader, Counting()).replay_to(6)
    assert StateFold(reader, Counting(), state=middle, position=6).replay_all()["sum"] == 10
    with pytest.raises(BadPosition):
        StateFold(reader, Counting(), state=middle, position=11)


def test_verification_line_of_1523_events() -> None:
    store = MemoryStore()
    journal = begin(store)
    for start in range(0, 1522, 2):
        name = f"a{start}"
        journal.append([ActionRequested(name, start), ActionSucceeded(name, start)])
    journal.append(Completed())
    report = verify_run(store, "r1")
    assert f"{report}" == "Verification: 1523/1523 events verified, 0 failures, 0 mismatches - VALID"
    rows = rows_of(store)
    rows[700] = with_content(rows[700], flipped)
    report = verify_run(Altered(store, rows=rows), "r1")
    assert f"{report}" == "Verification: 1522/1523 events verified, 1 failures, 0 mismatches - INVALID"


def test_periodic_snapshots_every_n_events(store: Store) -> None:
    counted(store, "r1", 9, every=3)
    assert [row.seq for row in store.snapshots(NS, "r1")] == [11, 7, 3]


def test_snapshots_at_key_positions(store: Store) -> None:
    journal = begin(store)
    policy = AtMarkedPoints(kinds=frozenset({"ActionSucceeded"}), keys=frozenset({"before-payment"}))
    manager = SnapshotManager(journal, REPLACE, policy)
    for draft in [
        Draft(StateUpdated(1)),
        Draft(StateUpdated(2), key="before-payment"),
        Draft(ActionRequested("a1", None)),
        Draft(ActionSucceeded("a1", None)),
        Draft(StateUpdated(3)),
    ]:
        manager.observe(journal.append(draft))
    assert [row.seq for row in store.snapshots(NS, "r1")] == [5, 2]


def test_snapshots_when_the_state_reaches_a_size(store: Store) -> None:
    journal = begin(store)
    manager = SnapshotManager(journal, REPLACE, WhenStateReaches(1000))
    sizes = (10, 900, 1200, 1300, 2600)
    taken = [manager.observe(journal.append(StateUpdated("x" * size))) for size in sizes]
    assert taken == [[], [], [3], [], [6]]


def test_invariant_same_log_produces_same_state(store: Store) -> None:
    counted(store, "r1", 7)
    reader = JournalReader(store, "r1")
    states = [StateFold(reader, Counting()).replay_all() for _ in range(3)]
    assert states[0] == states[1] == states[2]
    assert len({state_hash(state) for state in states}) == 1


def test_invariant_every_event_must_verify(memory: MemoryStore) -> None:
    """Each event in turn, each of its parts in turn: none may be altered unseen."""
    small_run(memory)
    original = rows_of(memory)
    for index, row in enumerate(original):
        for altered in (
            with_content(row, flipped),
            row._replace(salt=flipped(row.salt or b"")),
            row._replace(match=flipped(row.match or b"")),
            row._replace(hash=flipped(row.hash)),
            row._replace(link=flipped(row.link, len(row.link) // 2)),
        ):
            rows = [*original[:index], altered, *original[index + 1 :]]
            report = verify_run(Altered(memory, rows=rows), "r1")
            assert not report.valid
            assert report.first_bad_seq == row.seq
            assert report.verified < report.events


def test_invariant_single_bit_change_detected(memory: MemoryStore) -> None:
    small_run(memory)
    row = rows_of(memory)[2]
    for bit in range(8 * len(row.content or b"")):
        rows = rows_of(memory)
        rows[2] = row._replace(content=flipped(row.content or b"", bit // 8, 1 << bit % 8))
        assert verify_run(Altered(memory, rows=rows), "r1").first_bad_seq == 3


def forged(store: Store, state: bytes) -> Any:
    """The newest snapshot with another state, its seal made right again: only the log can tell."""

    def forge(rows: list[Any]) -> list[Any]:
        newest = rows[0]
        seal = snapshot_seal("r1", newest.seq, newest.head, newest.reducer, newest.state_version, state)
        return [newest._replace(seal=seal, blob=pack(state)), *rows[1:]]

    return Altered(store, snapshots=forge)


def test_invariant_snapshot_state_hash_must_match(store: Store) -> None:
    counted(store, "r1", 6, every=3)
    altered = forged(store, b'{"sum":1000000,"seen":[]}')
    fold = StateFold.from_snapshot(JournalReader(altered, "r1"), Counting())
    assert fold.position == 3
    assert [snapshot.position for snapshot in fold.rejected] == [7]
    assert "commits to" in fold.rejected[0].reason
    assert fold.replay_all()["sum"] == 6
    assert verify_run(altered, "r1").rejected_snapshots[0][0] == 7
    assert verify_run(store, "r1").rejected_snapshots == []


def test_failure_mode_use_an_earlier_snapshot(store: Store) -> None:
    """Corrupted event: found by its hash during replay; the state up to an earlier snapshot can still be had."""
    counted(store, "r1", 6, every=3)
    rows = rows_of(store)
    rows[5] = with_content(rows[5], flipped)
    reader = JournalReader(Altered(store, rows=rows), "r1")
    with pytest.raises(Damaged, match="event 6"):
        StateFold(reader, Counting()).replay_all()
    fold = StateFold.from_snapshot(reader, Counting(), at_most=5)
    assert fold.position == 3
    assert fold.state["sum"] == 3
    # The snapshot behind the damage does not need the damaged event.
    assert StateFold.from_snapshot(reader, Counting()).replay_all()["sum"] == 6
