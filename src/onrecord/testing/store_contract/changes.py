"""Changed runs: what a view of the runs needs to stay up to date."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from onrecord.store.contract import Store
from onrecord.testing.store_contract.builders import NS, Writer, at_once, event_row, event_rows, header_row
from onrecord.testing.store_contract.hooks import StoreHooks


def all_since(store: Store, cursor: str, namespace: str = NS) -> tuple[str, set[str]]:
    """Collect changed runs until none is left."""
    found: set[str] = set()
    while True:
        cursor, runs = store.runs_since(namespace, cursor)
        assert runs is not None
        if not runs:
            return cursor, found
        found.update(runs)


class Changes(StoreHooks):
    def test_of_what_was_before_a_first_look_nothing_can_be_told(self, store: Store, writer: Writer) -> None:
        cursor, runs = store.runs_since(NS, None)
        assert runs is None
        assert all_since(store, cursor)[1] == set()

    def test_an_empty_store_has_a_place_too(self, store: Store) -> None:
        cursor, _ = store.runs_since(NS, None)
        store.create_run(NS, header_row("first"))
        assert all_since(store, cursor)[1] == {"first"}

    def test_new_runs_and_new_events_are_told_once(self, store: Store, cold: Callable[[], Store]) -> None:
        other = cold()
        known, quiet = Writer(other, "known"), Writer(other, "quiet")
        quiet.append(event_row(1))
        cursor, _ = store.runs_since(NS, None)
        known.append(event_row(1))
        other.create_run(NS, header_row("empty"))
        Writer(other, "begun").append(event_row(1))
        cursor, found = all_since(store, cursor)
        assert found == {"known", "empty", "begun"}
        known.append(event_row(2))
        cursor, found = all_since(store, cursor)
        assert found == {"known"}
        assert all_since(store, cursor)[1] == set()

    def test_an_imported_run_is_told(self, store: Store) -> None:
        cursor, _ = store.runs_since(NS, None)
        store.import_run(NS, header_row("old", created=-5), [], [(event_rows(1, 3), [])])
        assert all_since(store, cursor)[1] == {"old"}

    def test_other_namespaces_are_not_told(self, store: Store) -> None:
        cursor, _ = store.runs_since(NS, None)
        store.create_run("other", header_row("theirs"))
        assert all_since(store, cursor)[1] == set()
        assert all_since(store, cursor, "other")[1] == {"theirs"}

    def test_a_removal_is_told_by_its_record(self, store: Store) -> None:
        operations = Writer(store, "operations", kind="operations")
        Writer(store, "gone").append(event_row(1))
        cursor, _ = store.runs_since(NS, None)
        store.delete_run(NS, "gone", operations.pending(event_row(1, "operations")), [], [])
        _, found = store.runs_since(NS, cursor)
        assert found is None or found == ["operations"]

    def test_a_removal_at_the_end_hides_nothing_that_comes(self, store: Store) -> None:
        """Must pass however a store reuses the numbers of removed rows."""
        operations = Writer(store, "operations", kind="operations")
        kept, gone = Writer(store, "kept"), Writer(store, "gone")
        kept.append(event_row(1))
        for seq in range(1, 6):
            gone.append(event_row(seq, "gone"))
        cursor, _ = store.runs_since(NS, None)
        store.delete_run(NS, "gone", operations.pending(event_row(1, "operations")), [], [])
        for seq in range(2, 8):
            kept.append(event_row(seq, "kept"))
        cursor, found = store.runs_since(NS, cursor)
        assert found is None or {"kept", "operations"} <= set(found)
        kept.append(event_row(8, "kept"))
        assert all_since(store, cursor)[1] == {"kept"}

    def test_nothing_is_missed_while_others_append(self, store: Store, cold: Callable[[], Store]) -> None:
        runs = [f"run-{number}" for number in range(4)]
        stores = [cold() for _ in runs]
        writers = [Writer(other, run) for run, other in zip(runs, stores, strict=True)]
        cursor, _ = store.runs_since(NS, None)
        each = max(5, self.race_rounds // 4)
        done = threading.Event()
        heads: dict[str, int] = {}

        def read() -> None:
            nonlocal cursor
            last = False
            while not last:
                last = done.is_set()
                cursor, found = store.runs_since(NS, cursor)
                for run in found or ():
                    end = store.last_event(NS, run)
                    heads[run] = end.seq if end is not None else 0

        def write(writer: Writer) -> None:
            for seq in range(1, each + 1):
                writer.append(event_row(seq))

        reader = threading.Thread(target=read)
        reader.start()
        at_once([partial(write, writer) for writer in writers])
        done.set()
        reader.join()
        while True:
            cursor, found = store.runs_since(NS, cursor)
            if not found:
                break
            heads.update(dict.fromkeys(found, each))
        assert heads == dict.fromkeys(runs, each), "the last look at each run was after its last event"
