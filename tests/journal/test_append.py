"""Appending: rows C 17-25 of the acceptance list, and who may write."""

from __future__ import annotations

import os
from typing import Any

import pytest

from kit.journals import NS, Draft, FixedSources, begin, call, everything, rows_of
from onrecord.core.events import (
    ActionDenied,
    ActionFailed,
    ActionRequested,
    ActionSucceeded,
    Completed,
    ContentErased,
    Event,
    Interrupted,
    Resumed,
    StateUpdated,
    UnknownEvent,
    WaitCreated,
    WaitResolved,
)
from onrecord.errors import (
    ClosedRun,
    ConflictingDuplicate,
    Damaged,
    InvalidInput,
    InvalidValue,
    MissingParent,
    MovedHead,
    NotFound,
    OnrecordError,
    OutcomeUnknown,
    Poisoned,
    Refused,
    RunExists,
    StaleEpoch,
    UnknownKind,
    WrongRun,
    WrongSequence,
)
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.store.contract import Head, Store
from onrecord.store.memory import MemoryStore


def test_seqs_are_contiguous_and_links_chained(store: Store) -> None:
    journal = begin(store)
    made = [*journal.append(StateUpdated(1)), *journal.append(call(1)), *journal.append(Completed())]
    assert [event.seq for event in made] == [1, 2, 3, 4]
    rows = rows_of(store)
    links = [journal.link(row) for row in rows]
    hashes = ["sha256:" + digest.hex() for digest in [journal.header_row.hash, *(row.hash for row in rows)]]
    assert [link.prev for link in links] == hashes[:-1]
    assert journal.head() == Head(4, rows[-1].hash)


LONGEST_LANE = "main@999999999>" + 'é"\\\u2028#1>' * 45 + "<ab>😀" + 39 * "x"
REFUSALS: list[tuple[type[OnrecordError], str, Draft]] = [
    (WrongRun, "wrong_run", Draft(StateUpdated(2), run="r2")),
    (WrongSequence, "wrong_sequence", Draft(StateUpdated(2), seq=5)),
    (WrongSequence, "wrong_sequence", Draft(StateUpdated(2), seq=1)),
    (MissingParent, "missing_parent", Draft(StateUpdated(2), parent=2)),
    (MissingParent, "missing_parent", Draft(StateUpdated(2), parent=0)),
    (MissingParent, "missing_parent", Draft(ActionSucceeded("nobody asked", 1))),
    (MissingParent, "missing_parent", Draft(Resumed("nothing is open"))),
    (MissingParent, "missing_parent", Draft(WaitResolved("w9", None))),
    (UnknownKind, "unknown_kind", Draft(UnknownEvent("Telepathy", {}))),
    (UnknownKind, "unknown_kind", Draft(ContentErased([], "only for operations"))),
    *(
        (InvalidInput, "bad_lane", Draft(StateUpdated(2), lane=lane))
        for lane in ("", "0", "0.1", "main>a/b", "main>\n")
    ),
    (InvalidInput, "bad_event_id", Draft(StateUpdated(2), id="no spaces")),
    (InvalidInput, "bad_key", Draft(StateUpdated(2), key="k" * 1025)),
    (InvalidValue, "lone_surrogate", Draft(StateUpdated(2), key="\ud800")),
]


@pytest.mark.parametrize(("error", "code", "draft"), REFUSALS)
def test_refusals_have_their_own_error_and_write_nothing(
    memory: MemoryStore, error: type[OnrecordError], code: str, draft: Draft
) -> None:
    journal = begin(memory)
    journal.append(StateUpdated(1))
    before = everything(memory)
    with pytest.raises(error) as caught:
        journal.append(draft)
    assert caught.value.code == code
    assert everything(memory) == before
    assert journal.append(Draft(StateUpdated(2), run="r1", seq=2, parent=1))[0].parent == 1
    assert verify_run(memory, "r1").valid


@pytest.mark.parametrize("time", [-1, 2**53, 2**63])
def test_a_time_that_no_link_may_hold_is_refused(memory: MemoryStore, time: int) -> None:
    journal = begin(memory)
    with pytest.raises(OnrecordError):
        journal.append(Draft(StateUpdated(1), time=time))
    assert rows_of(memory) == []


def test_a_salt_of_another_length_is_refused(memory: MemoryStore) -> None:
    """The commitment's preimage is unambiguous only because the salt has 16 bytes."""
    journal = begin(memory)
    with pytest.raises(OnrecordError):
        journal.append(Draft(StateUpdated(1), salt=b"short"))
    assert rows_of(memory) == []


def test_the_limits_of_key_id_and_lane_are_accepted(store: Store) -> None:
    journal = begin(store)
    key = 'é"\\\x01\x7f😀' * 170 + "abcd"
    assert len(key) == 1024
    journal.append(Draft(StateUpdated(1), key=key, id="A" * 64, lane=LONGEST_LANE))
    (event,) = JournalReader(store, "r1").scan()
    assert (event.key, event.id, event.lane) == (key, "A" * 64, LONGEST_LANE)
    assert verify_run(store, "r1", deep=True).valid


@pytest.mark.parametrize(
    "bad",
    [
        Draft(ActionSucceeded("never", 1)),
        Draft(StateUpdated(3), run="r2"),
        Draft(UnknownEvent("Telepathy", {})),
        Draft(StateUpdated(3), lane="x"),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_batch_is_appended_whole_or_not_at_all(store: Store, bad: Draft, place: int) -> None:
    journal = begin(store)
    journal.append(StateUpdated({"text": "shared " * 100}))
    before = everything(store)
    batch: list[Any] = [StateUpdated({"text": "other " * 100}), ActionRequested("a1", "x")]
    batch.insert(place, bad)
    with pytest.raises(OnrecordError):
        journal.append(batch)
    assert everything(store) == before
    # What the handle remembers was undone too: the same request can be made, and the chain of states goes on.
    journal.append([StateUpdated({"text": "other " * 100}), ActionRequested("a1", "x"), ActionSucceeded("a1", 1)])
    assert verify_run(store, "r1", deep=True).valid


def test_nothing_follows_the_event_in_a_batch_that_ends_the_run(store: Store) -> None:
    journal = begin(store)
    with pytest.raises(ClosedRun):
        journal.append([Completed(), StateUpdated(1)])
    assert rows_of(store) == []


def test_an_empty_append_is_refused(memory: MemoryStore) -> None:
    with pytest.raises(InvalidInput):
        begin(memory).append([])


def test_two_writers_one_conflict(store: Store) -> None:
    one = begin(store)
    two = Journal.open(store, "r1", sources=FixedSources("r1-two"))  # the same holder: two handles of one process
    one.append(StateUpdated(1))
    with pytest.raises(MovedHead):
        two.append(StateUpdated(2))
    assert [row.seq for row in rows_of(store)] == [1]
    # Having read the tail, the loser decides anew and goes on.
    two.append(StateUpdated(2), expected=two.head())
    assert verify_run(store, "r1").valid


def test_an_expected_head_that_is_not_the_head_is_refused(store: Store) -> None:
    journal = begin(store)
    first = journal.head()
    journal.append(StateUpdated(1), expected=first)
    with pytest.raises(MovedHead, match=r"seq 1.*seq 0"):
        journal.append(StateUpdated(2), expected=first)
    with pytest.raises(MovedHead):
        journal.append(StateUpdated(2), expected=Head(1, bytes(32)))
    journal.append(StateUpdated(2), expected=journal.head())
    assert len(rows_of(store)) == 2


@pytest.mark.parametrize("end", ["Completed", "Failed", "Cancelled"])
def test_nothing_is_accepted_after_the_terminal_event(store: Store, end: str) -> None:
    from onrecord.core.events import Cancelled, Failed

    journal = begin(store)
    terminal: dict[str, Event] = {"Completed": Completed(), "Failed": Failed("x"), "Cancelled": Cancelled()}
    journal.append(terminal[end])
    for handle in (journal, Journal.open(store, "r1", sources=FixedSources("again"))):
        with pytest.raises(ClosedRun, match=end):
            handle.append(StateUpdated(1))
    assert len(rows_of(store)) == 1


def test_a_run_that_another_handle_ended_is_closed_not_moved(store: Store) -> None:
    one = begin(store)
    two = Journal.open(store, "r1", sources=FixedSources("again"))
    one.append(Completed())
    with pytest.raises(ClosedRun):
        two.append(StateUpdated(1))
    with pytest.raises(ClosedRun):
        two.append(StateUpdated(1), expected=Head(0, two.header_row.hash))


# Duplicates


def test_the_same_event_again_is_answered_with_what_is_there(store: Store) -> None:
    journal = begin(store)
    batch = [Draft(event, id=f"e{n}") for n, event in enumerate([StateUpdated({"b": 1, "a": 2}), *call(1)])]
    first = journal.append(batch)
    again = journal.append(batch)
    assert [(e.seq, e.id, e.hash) for e in again] == [(e.seq, e.id, e.hash) for e in first]
    assert len(rows_of(store)) == 3


@pytest.mark.parametrize(
    "other",
    [
        StateUpdated({"a": 2}),
        StateUpdated({"a": 1.0}),
        StateUpdated({"a": 1}, step_id="s"),
        ActionRequested("a1", {"a": 1}),
        StateUpdated({"a": True}),
    ],
)
def test_the_same_id_with_other_content_is_a_conflict(memory: MemoryStore, other: Event) -> None:
    journal = begin(memory)
    journal.append(Draft(StateUpdated({"a": 1}), id="e1"))
    with pytest.raises(ConflictingDuplicate):
        journal.append(Draft(other, id="e1"))
    assert len(rows_of(memory)) == 1


def test_the_order_of_keys_is_content(memory: MemoryStore) -> None:
    journal = begin(memory)
    journal.append(Draft(StateUpdated({"a": 1, "b": 2}), id="e1"))
    with pytest.raises(ConflictingDuplicate):
        journal.append(Draft(StateUpdated({"b": 2, "a": 1}), id="e1"))


def test_duplicates_are_looked_at_before_head_epoch_and_closed(store: Store) -> None:
    journal = begin(store, lease_seconds=0.05)
    stale_head = journal.head()
    journal.append(Draft(StateUpdated(1), id="e1"))
    journal.append(Completed())
    # Head: the caller decided on a head of long ago.
    assert journal.append(Draft(StateUpdated(1), id="e1"), expected=stale_head)[0].seq == 1
    with pytest.raises(ConflictingDuplicate):
        journal.append(Draft(StateUpdated(2), id="e1"), expected=stale_head)
    # Epoch: another process has taken the run over.
    journal.release()
    Journal.open(store, "r1", sources=FixedSources("x", holder="another"))
    assert journal.append(Draft(StateUpdated(1), id="e1"))[0].seq == 1
    with pytest.raises(ConflictingDuplicate):
        journal.append(Draft(StateUpdated(2), id="e1"))
    assert len(rows_of(store)) == 2


def test_a_batch_of_which_only_a_part_is_there_is_a_conflict(store: Store) -> None:
    journal = begin(store)
    journal.append(Draft(StateUpdated(1), id="e1"))
    with pytest.raises(ConflictingDuplicate):
        journal.append([Draft(StateUpdated(1), id="e1"), Draft(StateUpdated(2), id="e2")])
    with pytest.raises(ConflictingDuplicate):
        journal.append([Draft(StateUpdated(1), id="e2"), Draft(StateUpdated(2), id="e2")])
    assert len(rows_of(store)) == 1


# Causes


def test_answers_get_the_seq_of_what_they_answer_as_parent(store: Store) -> None:
    journal = begin(store)
    made = journal.append(
        [
            ActionRequested("a1", 1),
            ActionRequested("a2", 2),
            ActionSucceeded("a2", 2),
            ActionFailed("a1", ValueError("x")),
            Interrupted("?"),
            Resumed("!"),
            WaitCreated("w", "n"),
            WaitResolved("w", 1),
            ActionDenied("a3", "no"),
        ]
    )
    assert [event.parent for event in made] == [None, None, 2, 1, None, 5, None, 7, None]
    assert [event.seq for event in journal.children(1)] == [4]
    assert list(journal.children(9)) == []


def test_a_request_is_answered_once(store: Store) -> None:
    journal = begin(store)
    journal.append(call(1))
    for second in (ActionSucceeded("a1", 2), ActionFailed("a1", "x")):
        with pytest.raises(MissingParent):
            journal.append(second)
        with pytest.raises(MissingParent):
            journal.append(Draft(second, parent=1))
    with pytest.raises(MissingParent):
        Journal.open(store, "r1", sources=FixedSources("again")).append(ActionSucceeded("a1", 2))


def test_a_denial_of_a_request_is_its_result(memory: MemoryStore) -> None:
    """Format, section 7: a denial may name its request as parent, and at most one result names a request."""
    journal = begin(memory)
    journal.append([ActionRequested("a1", 1), Draft(ActionDenied("a1", "no"), parent=1)])
    assert verify_run(memory, "r1").orphans == []
    with pytest.raises(MissingParent):
        journal.append(ActionSucceeded("a1", 1))


def test_an_answer_must_name_an_event_of_the_kind_it_answers(store: Store) -> None:
    journal = begin(store)
    journal.append([Interrupted("?"), ActionRequested("a1", 1)])
    for wrong in (Draft(Resumed(1), parent=2), Draft(ActionSucceeded("a1", 1), parent=1), Draft(WaitResolved("a1", 1))):
        with pytest.raises(MissingParent):
            journal.append(wrong)
    journal.append([Draft(Resumed(1), parent=1), Draft(ActionSucceeded("a1", 1), parent=2)])
    assert verify_run(store, "r1").orphans == []


def test_two_open_requests_with_one_id_are_refused(memory: MemoryStore) -> None:
    journal = begin(memory)
    journal.append(ActionRequested("a1", 1))
    with pytest.raises(ConflictingDuplicate):
        journal.append(ActionRequested("a1", 2))


def test_a_handle_opened_later_knows_what_is_open(store: Store) -> None:
    begin(store).append([StateUpdated(1), ActionRequested("a1", 1), ActionRequested("a2", 1), ActionSucceeded("a1", 1)])
    journal = Journal.open(store, "r1", sources=FixedSources("later"))
    with pytest.raises(MissingParent):
        journal.append(ActionSucceeded("a1", 2))
    (answered,) = journal.append(ActionSucceeded("a2", 2))
    assert answered.parent == 3
    journal.append([StateUpdated(2), Completed()])
    assert verify_run(store, "r1", deep=True).valid


# Who may write


def test_a_holder_that_was_taken_over_is_stale(store: Store) -> None:
    first = begin(store, sources=FixedSources("one", holder="one"))
    first.append(StateUpdated(1))
    with pytest.raises(Refused) as busy:
        Journal.open(store, "r1", sources=FixedSources("two", holder="two"))
    assert busy.value.code == "run_busy"
    first.release()
    second = Journal.open(store, "r1", sources=FixedSources("two", holder="two"))
    assert second.epoch > first.epoch
    with pytest.raises(StaleEpoch):
        first.append(StateUpdated(2))
    second.append(StateUpdated(2))
    assert [row.seq for row in rows_of(store)] == [1, 2]


def test_leaving_the_context_releases_the_run(store: Store) -> None:
    with begin(store, sources=FixedSources("one", holder="one")) as journal:
        journal.append(StateUpdated(1))
    Journal.open(store, "r1", sources=FixedSources("two", holder="two")).append(Completed())
    assert len(rows_of(store)) == 2


def test_the_holder_may_be_renewed_and_keeps_its_epoch(store: Store) -> None:
    journal = begin(store)
    epoch = journal.epoch
    journal.renew()
    assert journal.epoch == epoch
    journal.append(StateUpdated(1))


def test_a_run_whose_holder_died_on_this_machine_is_taken_over_at_once(memory: MemoryStore) -> None:
    from onrecord.journal.sources import SystemSources

    boot, host, space, _pid, _started = SystemSources().holder().split("/")
    begin(memory, sources=FixedSources("dead", holder=f"{boot}/{host}/{space}/4194303/1"))
    journal = Journal.open(memory, "r1")
    journal.append(StateUpdated(1))
    # And one that lives is not: this very process.
    with pytest.raises(Refused):
        Journal.open(memory, "r1", sources=FixedSources("rival", holder="rival"))


def test_a_run_id_is_taken_once(store: Store) -> None:
    begin(store)
    with pytest.raises(RunExists):
        begin(store, sources=FixedSources("other"))


@pytest.mark.parametrize("run", ["", "a b", "../x", "-x", "x" * 129, "operations", "é", "a\n"])
def test_bad_run_ids_are_refused(memory: MemoryStore, run: str) -> None:
    with pytest.raises(InvalidInput):
        Journal.create(memory, run)
    assert memory.namespaces() == []


def test_opening_an_unknown_run_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound) as caught:
        Journal.open(store, "nothing")
    assert caught.value.code == "unknown_run"


def test_runs_without_an_id_get_one_of_their_own(memory: MemoryStore) -> None:
    runs = {Journal.create(memory).run for _ in range(5)}
    assert len(runs) == 5


def test_a_handle_is_of_the_process_that_opened_it(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = begin(memory)
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    with pytest.raises(Refused) as caught:
        journal.append(StateUpdated(1))
    assert caught.value.code == "forked_handle"


# Unknown results


class Flaky:
    """A store whose next append ends in an unknown result: done, or not."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.fail: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, *args: Any, **more: Any) -> None:
        fail, self.fail = self.fail, None
        if fail != "lost":
            self._store.append(*args, **more)
        if fail is not None:
            raise OutcomeUnknown("cut off")


@pytest.mark.parametrize("fail", ["lost", "done"])
def test_after_an_unknown_result_the_handle_is_poisoned_until_reopened(memory: MemoryStore, fail: str) -> None:
    store = Flaky(memory)
    journal = begin(store)  # type: ignore[arg-type]
    journal.append(Draft(StateUpdated(1), id="e1"))
    store.fail = fail
    with pytest.raises(OutcomeUnknown):
        journal.append(Draft(StateUpdated(2), id="e2"))
    with pytest.raises(Poisoned):
        journal.append(StateUpdated(3))
    journal.reopen()
    # The same event again: brought in when it was lost, found when it was not.
    assert journal.append(Draft(StateUpdated(2), id="e2"))[0].seq == 2
    journal.append([StateUpdated(3), Completed()])
    assert [row.seq for row in rows_of(memory)] == [1, 2, 3, 4]
    assert verify_run(memory, "r1", deep=True).valid


@pytest.mark.parametrize("fail", ["lost", "done"])
def test_an_append_of_unknown_result_is_looked_up_and_written_once(memory: MemoryStore, fail: str) -> None:
    store = Flaky(memory)
    journal = begin(store)  # type: ignore[arg-type]
    store.fail = fail
    assert [row.seq for row in journal.append_surely([Draft(StateUpdated(1))], True).rows] == [1]
    assert journal.append(StateUpdated(2))[0].seq == 2
    assert verify_run(memory, "r1", deep=True).valid


def test_an_append_of_unknown_result_is_not_taken_for_that_of_the_next_holder(memory: MemoryStore) -> None:
    store = Flaky(memory)
    journal = begin(store)  # type: ignore[arg-type]

    def take_over(*_: Any, **__: Any) -> None:
        del store.append
        memory.release(NS, "r1", journal.epoch)
        Journal.open(memory, "r1", NS, sources=FixedSources("next")).append(StateUpdated("of the next holder"))
        raise OutcomeUnknown("cut off")

    store.append = take_over  # type: ignore[method-assign]
    with pytest.raises(StaleEpoch):
        journal.append_surely([Draft(StateUpdated("of the first holder"))], True)
    assert len(rows_of(memory)) == 1


def test_a_refused_precondition_does_not_poison(store: Store) -> None:
    journal = begin(store)
    with pytest.raises(WrongSequence):
        journal.append(Draft(StateUpdated(1), seq=7))
    journal.append(StateUpdated(1))


def _drop(store: MemoryStore, keep: int) -> None:
    """As a database that restarted: what was not synced is gone."""
    run = store._spaces[NS].runs["r1"]
    rows = run.events[:keep]
    run.events, run.seqs, run.ids, run.lanes = [], [], {}, {}
    store._add(NS, "r1", rows, [])


def test_unsynced_events_that_were_lost_are_appended_again(memory: MemoryStore) -> None:
    journal = begin(memory)
    journal.append(StateUpdated(1))
    sent = [journal.append(ActionRequested("a1", "x"), sync=False), journal.append(StateUpdated(2), sync=False)]
    hashes = [event.hash for (event,) in sent]
    _drop(memory, 1)
    journal.reopen()
    assert ["sha256:" + row.hash.hex() for row in rows_of(memory)[1:]] == hashes
    journal.append([ActionSucceeded("a1", 1), Completed()])
    assert verify_run(memory, "r1", deep=True).valid


def test_the_loss_of_a_synced_event_is_a_regression(memory: MemoryStore) -> None:
    journal = begin(memory)
    journal.append(StateUpdated(1))
    journal.append(StateUpdated(2))
    _drop(memory, 1)
    with pytest.raises(Damaged) as caught:
        journal.reopen()
    assert caught.value.code == "regressed"


def test_another_event_in_place_of_a_synced_one_is_a_regression(memory: MemoryStore) -> None:
    """Also when unsynced events wait to be brought back: they must not be put behind a stranger's event."""
    journal = begin(memory)
    journal.append(StateUpdated(1))
    journal.append(StateUpdated(2), sync=False)
    _drop(memory, 0)
    other = MemoryStore()
    begin(other, sources=FixedSources("stranger")).append(StateUpdated("another"))
    memory._add(NS, "r1", rows_of(other), [])
    with pytest.raises(Damaged) as caught:
        journal.reopen()
    assert caught.value.code == "regressed"


# The inbox


def test_others_speak_to_a_run_through_its_inbox(store: Store) -> None:
    begin(store, sources=FixedSources("one", holder="one"))
    first = store.inbox_put(NS, "r1", "wait/w1", b'{"ok":true}', 5)
    second = store.inbox_put(NS, "r1", "wait/w1", b'{"ok":false}', 6)
    store.inbox_put(NS, "r1", "cancel", b"{}", 7)
    assert second == first, "the first writer wins, the second learns what it said"
    assert [row.key for row in store.inbox(NS, "r1")] == ["wait/w1", "cancel"]
    assert [row.key for row in store.inbox(NS, "r1", after=first.number)] == ["cancel"]
    assert rows_of(store) == [], "the inbox is beside the log"
