"""State: rows D 29-33 and 46, 47."""

from __future__ import annotations

from typing import Any

import pytest

from kit.journals import Altered, Counting, Draft, FixedSources, begin, rows_of, small_run
from onrecord.core.canonical import canonical_bytes
from onrecord.core.codec import encode
from onrecord.core.events import ActionRequested, Completed, Event, StateUpdated
from onrecord.core.hashing import render, state_hash_of, state_link_of
from onrecord.core.state import StateUpdatedOnlyReducer, state_hash
from onrecord.errors import BadPosition, InvalidInput
from onrecord.journal.execution_log import scan_execution_log_with_state_hashes
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.journal.snapshots import StateFold
from onrecord.journal.verify import verify_run
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore

REPLACE = StateUpdatedOnlyReducer()


def test_the_same_log_gives_the_same_state(store: Store) -> None:
    small_run(store)
    folds = [StateFold(JournalReader(store, "r1"), REPLACE).replay_all() for _ in range(2)]
    assert folds == [{"n": 2}, {"n": 2}]


def test_folding_leaves_earlier_states_alone(store: Store) -> None:
    journal = begin(store, reducer=Counting())
    for number in range(3):
        journal.append(StateUpdated(number))
    fold = StateFold(JournalReader(store, "r1"), Counting())
    states = [fold.replay_to(position) for position in range(4)]
    assert [state["sum"] for state in states] == [0, 1, 2, 3]
    assert states[1]["seen"] == [0]


def test_the_state_hash_is_public_and_that_of_the_canonical_form() -> None:
    assert state_hash({"b": [1, {"y": 1, "x": 2}], "a": 1.0}) == state_hash({"a": 1, "b": [1.0, {"x": 2, "y": 1}]})
    assert state_hash([1, 2]) != state_hash([2, 1])
    assert state_hash({"a": 1}) == render(state_hash_of(b'{"a":1}'))
    assert state_hash((1,)) != state_hash([1])


def test_state_hashes_after_each_event(store: Store) -> None:
    small_run(store)
    log = list(scan_execution_log_with_state_hashes(JournalReader(store, "r1"), 1, None, REPLACE))
    one, two = state_hash({"n": 1}), state_hash({"n": 2})
    assert [entry.state_hash for entry in log] == [one, one, one, two, two, two]
    tail = list(scan_execution_log_with_state_hashes(JournalReader(store, "r1"), 4, {"n": 1}, REPLACE))
    assert [entry.state_hash for entry in tail] == [two, two, two]


def test_events_carry_links_to_the_states_around_them(store: Store) -> None:
    small_run(store)
    rows = rows_of(store)
    first, second = (JournalReader(store, "r1").event(seq).event for seq in (1, 4))
    assert isinstance(first, StateUpdated)
    assert isinstance(second, StateUpdated)
    assert first.before is None
    assert first.after == render(state_link_of(rows[0].salt or b"", b'{"n":1}'))
    assert second.before == first.after
    assert second.after == render(state_link_of(rows[3].salt or b"", b'{"n":2}'))


def test_what_the_caller_says_of_before_and_after_is_not_believed(store: Store) -> None:
    journal = begin(store)
    journal.append(StateUpdated({"n": 1}, before="sha256:" + "0" * 64, after="sha256:" + "1" * 64))
    assert verify_run(store, "r1", deep=True).valid
    event = journal.event(1).event
    assert isinstance(event, StateUpdated)
    assert event.before is None


class Forging(Journal):
    """A writer that lies about states. Everything it writes chains perfectly."""

    lie: dict[str, Any]

    def prepare(self, drafts: Any, expected: Any) -> Any:
        original = self._chain._fold
        self._chain._fold = lambda *args: {**original(*args), **self.lie}  # type: ignore[method-assign]
        try:
            return super().prepare(drafts, expected)
        finally:
            self._chain._fold = original  # type: ignore[method-assign]


@pytest.mark.parametrize("lie", [{"before": "sha256:" + "0" * 64}, {"after": "sha256:" + "0" * 64}, {"before": None}])
def test_a_broken_link_between_states_is_located(memory: MemoryStore, lie: dict[str, Any]) -> None:
    small = begin(memory)
    small.append([StateUpdated(1), ActionRequested("a1", None)])
    small.release()
    forging = Forging.open(memory, "r1", sources=FixedSources("x"))
    assert isinstance(forging, Forging)
    forging.lie = lie
    forging.append(StateUpdated(2))
    forging.release()
    Journal.open(memory, "r1", sources=FixedSources("y")).append([StateUpdated(3), Completed()])
    report = verify_run(memory, "r1")
    assert not report.valid
    assert {problem.code for problem in report.problems} == {"bad_state"}
    assert report.first_bad_seq == 3
    assert report.failures == 0
    assert report.mismatches >= 1


def test_the_chain_of_states_is_whole_over_a_reopened_handle(store: Store) -> None:
    begin(store).append(StateUpdated(1))
    journal = Journal.open(store, "r1", sources=FixedSources("later"))
    journal.append([ActionRequested("a1", None), StateUpdated(2)])
    events = [event.event for event in journal.scan() if event.kind == "StateUpdated"]
    assert events[1].before == events[0].after != events[1].after  # type: ignore[attr-defined]
    assert verify_run(store, "r1").valid


def test_a_reducer_of_ones_own_is_verified_when_given(store: Store) -> None:
    journal = begin(store, reducer=Counting())
    for number in range(3):
        journal.append([StateUpdated(number), ActionRequested(f"a{number}", None)])
    assert verify_run(store, "r1", reducer=Counting()).valid
    assert verify_run(store, "r1").valid, "without it the links are compared, not computed"

    class Doubling(Counting):
        def apply(self, state: Any, event: Event) -> Any:
            return super().apply(super().apply(state, event), event)

    report = verify_run(store, "r1", reducer=Doubling())
    assert report.first_bad_seq == 1
    assert {problem.code for problem in report.problems} == {"bad_state"}


def test_a_run_is_continued_with_the_reducer_it_began_with(store: Store) -> None:
    begin(store, reducer=Counting()).append(StateUpdated(1))
    with pytest.raises(InvalidInput) as caught:
        Journal.open(store, "r1", sources=FixedSources("x"))
    assert caught.value.code == "other_reducer"
    journal = Journal.open(store, "r1", reducer=Counting(), sources=FixedSources("x"))
    journal.append(StateUpdated(2))
    assert verify_run(store, "r1", reducer=Counting()).valid


def test_a_reducer_sees_what_a_reader_will_see(store: Store) -> None:
    """Not the caller's own object, which the caller may change afterwards."""
    journal = begin(store, reducer=Counting())
    payload = {"n": 1}
    journal.append(StateUpdated(payload))
    payload["n"] = 99
    journal.append(StateUpdated({"n": 2}))
    assert verify_run(store, "r1", reducer=Counting()).valid


def test_positions_are_the_last_applied_seq(store: Store) -> None:
    small_run(store)
    fold = StateFold(JournalReader(store, "r1"), REPLACE)
    assert fold.replay_to(0) is None
    assert fold.replay_to(3) == {"n": 1}
    assert fold.replay_to(4) == {"n": 2}
    for position in (3, 7):
        with pytest.raises(BadPosition):
            fold.replay_to(position)
    assert fold.position == 4


@pytest.mark.parametrize("value", [{"a": (1, 2)}, {"s": {1, 2}}, 2**70, b"x" * 10, float("nan"), "long " * 300])
def test_states_of_any_value_are_linked_by_their_encoded_form(memory: MemoryStore, value: Any) -> None:
    begin(memory).append([StateUpdated(value), Completed()])
    (row, _) = rows_of(memory)
    event = JournalReader(memory, "r1").event(1).event
    assert isinstance(event, StateUpdated)
    assert event.after == render(state_link_of(row.salt or b"", canonical_bytes(encode(value).tree)))
    assert verify_run(memory, "r1", deep=True).valid


def test_a_changed_state_link_is_found_though_content_and_commitment_agree(memory: MemoryStore) -> None:
    """The counterpart of the chain: another salt beside the same content is damage."""
    begin(memory).append([StateUpdated(1), StateUpdated(2)])
    rows = rows_of(memory)
    rows[0] = rows[0]._replace(salt=rows[1].salt)
    assert verify_run(Altered(memory, rows=rows), "r1").first_bad_seq == 1


def test_drafts_in_several_lanes_share_one_chain_of_states(store: Store) -> None:
    journal = begin(store)
    journal.append(
        [Draft(StateUpdated(1), lane="main>a"), Draft(StateUpdated(2), lane="main>a#1"), Draft(StateUpdated(3))]
    )
    events = [event.event for event in journal.scan()]
    assert [e.before for e in events] == [None, events[0].after, events[1].after]  # type: ignore[attr-defined]
    assert verify_run(store, "r1").valid


@pytest.mark.parametrize("state", [1.0, -0.0, 1e300, [1.0], {"n": 1.0}, {"deep": [{"n": 2.5}]}])
def test_a_state_with_floats_means_what_its_content_says(store: Store, state: Any) -> None:
    """The state stands in a content that gains members while it is linked: its digest is that of the whole."""
    journal = begin(store)
    journal.append(StateUpdated(state))
    (row,) = rows_of(store)
    tree = journal.content_tree(row, journal.link(row))
    assert row.match == journal.rules().match("StateUpdated", tree)
    assert verify_run(store, "r1", deep=True).valid
