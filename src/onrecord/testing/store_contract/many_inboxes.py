"""Inboxes of many runs at once: look-ups by key, and new rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from onrecord.errors import NotFound
from onrecord.store.contract import InboxArrival, Store
from onrecord.testing.store_contract.builders import NS, Writer, at_once, event_row, header_row
from onrecord.testing.store_contract.hooks import StoreHooks


class ManyInboxes(StoreHooks):
    # By key

    def test_rows_are_found_by_run_and_key(self, store: Store, cold: Callable[[], Store]) -> None:
        for run in ("a", "b"):
            store.create_run(NS, header_row(run))
            for number in (1, 2):
                store.inbox_put(NS, run, f"key-{number}", f"{run}{number}".encode(), number * 10)
        pairs = [("a", "key-2"), ("b", "key-1"), ("b", "key-3"), ("c", "key-1"), ("a", "key-2")]
        found = cold().inbox_find(NS, pairs)
        assert found == {("a", "key-2"): (2, "key-2", b"a2", 20), ("b", "key-1"): (1, "key-1", b"b1", 10)}
        assert store.inbox_find(NS, []) == {}

    def test_odd_names_are_found_literally(self, store: Store) -> None:
        names = ["a'b", 'a"b', "a\\b", "[1]", "%", "ключ", "a,b", "null", "1", "\U0001f511", "x" * 1024]
        store.create_run(NS, header_row())
        for name in names:
            store.inbox_put(NS, "run-1", name, name.encode(), 1)
        found = store.inbox_find(NS, [("run-1", name) for name in names])
        assert {key: row.payload.decode() for (_, key), row in found.items()} == {name: name for name in names}

    def test_many_pairs_are_found_at_once(self, store: Store) -> None:
        store.create_run(NS, header_row())
        for number in range(20):
            store.inbox_put(NS, "run-1", f"key-{number}", b"", 1)
        found = store.inbox_find(NS, [("run-1", f"key-{number}") for number in range(50_000)])
        assert len(found) == 20

    def test_rows_of_other_namespaces_are_not_found(self, store: Store) -> None:
        store.create_run("other", header_row())
        store.inbox_put("other", "run-1", "key", b"", 1)
        assert store.inbox_find(NS, [("run-1", "key")]) == {}
        store.create_run(NS, header_row())
        assert store.inbox_find(NS, [("run-1", "key")]) == {}

    # New rows

    def test_nothing_is_new_at_the_end(self, store: Store, writer: Writer) -> None:
        store.inbox_put(NS, "run-1", "before", b"", 1)
        cursor, arrivals = store.inbox_since(None)
        assert arrivals == []
        assert store.inbox_since(cursor)[1] == []

    def test_what_is_new_comes_once_from_all_namespaces(self, store: Store, cold: Callable[[], Store]) -> None:
        cursor, _ = store.inbox_since(None)
        other = cold()
        for namespace, run in ((NS, "a"), ("other", "a"), (NS, "b")):
            other.create_run(namespace, header_row(run))
            other.inbox_put(namespace, run, "key", b"payload", 1)
        cursor, arrivals = store.inbox_since(cursor)
        assert sorted(arrivals) == sorted(
            [InboxArrival(NS, "a", "key"), InboxArrival(NS, "b", "key"), InboxArrival("other", "a", "key")]
        )
        other.inbox_put(NS, "b", "next", b"", 1)
        cursor, arrivals = store.inbox_since(cursor)
        assert arrivals == [InboxArrival(NS, "b", "next")]
        assert other.inbox_since(cursor)[1] == []

    def test_a_key_that_was_taken_is_not_new(self, store: Store, writer: Writer) -> None:
        store.inbox_put(NS, "run-1", "key", b"first", 1)
        cursor, _ = store.inbox_since(None)
        store.inbox_put(NS, "run-1", "key", b"second", 2)
        assert store.inbox_since(cursor)[1] == []

    def test_other_writes_are_not_new(self, store: Store, writer: Writer) -> None:
        cursor, _ = store.inbox_since(None)
        writer.append(event_row(1))
        store.claim(NS, "run-1", "me", 60)
        with suppress(NotFound):
            store.inbox_put(NS, "unknown", "key", b"", 1)
        assert store.inbox_since(cursor)[1] == []

    def test_a_removed_inbox_hides_nothing_that_comes(self, store: Store) -> None:
        operations = Writer(store, "operations", kind="operations")
        store.create_run(NS, header_row("gone"))
        for number in range(5):
            store.inbox_put(NS, "gone", f"key-{number}", b"", 1)
        cursor, _ = store.inbox_since(None)
        store.delete_run(NS, "gone", operations.pending(event_row(1, "operations")), [], [])
        store.create_run(NS, header_row("next"))
        store.inbox_put(NS, "next", "key", b"", 1)
        assert store.inbox_since(cursor)[1] == [InboxArrival(NS, "next", "key")]

    def test_many_new_rows_come_in_the_end(self, store: Store, writer: Writer) -> None:
        """A store may return pages; the next call returns the rest."""
        cursor, _ = store.inbox_since(None)
        keys = {f"key-{number}" for number in range(300)}
        for key in sorted(keys):
            store.inbox_put(NS, "run-1", key, b"", 1)
        seen: list[str] = []
        while True:
            cursor, arrivals = store.inbox_since(cursor)
            if not arrivals:
                break
            seen.extend(arrival.key for arrival in arrivals)
        assert sorted(seen) == sorted(keys)

    def test_nothing_is_missed_while_others_write(self, store: Store, cold: Callable[[], Store]) -> None:
        """Check that a constantly polling reader sees each write exactly once."""
        runs = [f"run-{number}" for number in range(4)]
        for run in runs:
            store.create_run(NS, header_row(run))
        cursor, _ = store.inbox_since(None)
        each = max(5, self.race_rounds // 4)
        stores = [cold() for _ in runs]
        done = threading.Event()
        seen: list[InboxArrival] = []

        def read() -> None:
            nonlocal cursor
            last = False
            while not last:
                last = done.is_set()
                cursor, arrivals = store.inbox_since(cursor)
                seen.extend(arrivals)

        def write(run: str, other: Store) -> None:
            for number in range(each):
                other.inbox_put(NS, run, f"key-{number}", b"", 1)

        reader = threading.Thread(target=read)
        reader.start()
        at_once([partial(write, run, other) for run, other in zip(runs, stores, strict=True)])
        done.set()
        reader.join()
        assert sorted(seen) == sorted(InboxArrival(NS, run, f"key-{number}") for run in runs for number in range(each))
