"""The operations journal: a chain like any other, which anybody writes and which never ends."""

from __future__ import annotations

import threading

import pytest

from kit.journals import NS, Altered, FixedSources, begin, flipped, rows_of, with_content
from onrecord.core.events import Completed, OperationNoted, RunRetired, StateUpdated
from onrecord.errors import OnrecordError
from onrecord.journal.journal import Journal
from onrecord.journal.operations import OperationsJournal
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import verify_run
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore


def test_it_begins_with_the_first_note(store: Store) -> None:
    assert store.run_row(NS, "operations") is None
    noted = OperationsJournal.open_for(store).note(OperationNoted("late_resolution", {"wait": "w1"}))
    assert noted.seq == 1
    (event,) = JournalReader(store, "operations").scan()
    assert event.event == OperationNoted("late_resolution", {"wait": "w1"})
    assert JournalReader(store, "operations").header.kind == "operations"
    assert verify_run(store, "operations", deep=True).valid


def test_what_came_after_the_end_of_a_run_has_a_place(store: Store) -> None:
    begin(store).append(Completed())
    OperationsJournal.open_for(store).note(OperationNoted("late_resolution", {"run": "r1"}))
    assert len(rows_of(store)) == 1
    assert len(rows_of(store, "operations")) == 1


def test_several_handles_go_on_behind_each_other(store: Store) -> None:
    handles = [OperationsJournal.open_for(store, sources=FixedSources(f"h{n}")) for n in range(3)]
    for number in range(9):
        handles[number % 3].note(OperationNoted("n", number))
    events = list(JournalReader(store, "operations").scan())
    assert [event.event.detail for event in events] == list(range(9))  # type: ignore[attr-defined]
    assert verify_run(store, "operations", deep=True).valid


def test_many_threads_lose_nothing(store: Store) -> None:
    failures: list[BaseException] = []

    def write(name: int) -> None:
        try:
            journal = OperationsJournal.open_for(store)
            for number in range(8):
                journal.note(OperationNoted("n", [name, number]))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    noted = [event.event.detail for event in JournalReader(store, "operations").scan()]  # type: ignore[attr-defined]
    assert sorted(noted) == [[name, number] for name in range(4) for number in range(8)]
    assert verify_run(store, "operations").valid


def test_it_is_not_among_the_runs_and_each_namespace_has_its_own(store: Store) -> None:
    begin(store)
    OperationsJournal.open_for(store).note(OperationNoted("a"))
    OperationsJournal.open_for(store, "other").note(OperationNoted("b"))
    assert [row.header.run for row in store.list_runs(NS)] == ["r1"]
    assert [e.event.operation for e in JournalReader(store, "operations", "other").scan()] == ["b"]  # type: ignore[attr-defined]


def test_it_never_ends_and_holds_no_state(memory: MemoryStore) -> None:
    """Nothing follows a terminal event; so that the operations journal never ends, it may not hold one."""
    journal = OperationsJournal.open_for(memory)
    with pytest.raises(OnrecordError):
        journal.note(Completed())
    journal.note(OperationNoted("still going"))


def test_a_run_may_not_take_its_name_or_its_events(memory: MemoryStore) -> None:
    with pytest.raises(OnrecordError):
        Journal.create(memory, "operations")
    journal = begin(memory)
    for event in (OperationNoted("x"), RunRetired("r", "h", 1, "h", "x")):
        with pytest.raises(OnrecordError):
            journal.append(event)
    journal.append(StateUpdated(1))


def test_its_damage_is_found_like_any_other(memory: MemoryStore) -> None:
    journal = OperationsJournal.open_for(memory)
    for number in range(3):
        journal.note(OperationNoted("n", number))
    rows = rows_of(memory, "operations")
    rows[1] = with_content(rows[1], flipped)
    assert verify_run(Altered(memory, "operations", rows=rows), "operations").first_bad_seq == 2
    dropped = [rows[0], rows[2]]
    assert verify_run(Altered(memory, "operations", rows=dropped), "operations").first_bad_seq == 2
