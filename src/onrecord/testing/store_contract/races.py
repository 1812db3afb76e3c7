"""Concurrent writers in threads, instances and forked children."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from onrecord.errors import Refused
from onrecord.store.contract import Head, Store
from onrecord.testing.store_contract.builders import (
    NS,
    Writer,
    all_rows,
    at_once,
    event_row,
    head_of,
    header_row,
    in_child,
)
from onrecord.testing.store_contract.hooks import StoreHooks


class Races(StoreHooks):
    def test_of_two_writers_one_wins(self, store: Store, cold: Callable[[], Store]) -> None:
        other = cold()
        writer = Writer(store)
        for seq in range(1, self.race_rounds + 1):
            rows = [event_row(seq, id=f"{seq}-{me}", content=me.encode()) for me in ("one", "two")]
            results = at_once(
                [
                    partial(store.append, NS, "run-1", [rows[0]], expected=writer.head, epoch=0),
                    partial(other.append, NS, "run-1", [rows[1]], expected=writer.head, epoch=0),
                ]
            )
            assert sorted(type(result).__name__ for result in results) == ["MovedHead", "NoneType"]
            writer.head = head_of([rows[results.index(None)]])
        assert [row.seq for row in all_rows(store)] == list(range(1, self.race_rounds + 1))

    def test_same_event_from_two_writers_is_a_duplicate(self, store: Store) -> None:
        writer = Writer(store)
        for seq in range(1, max(2, self.race_rounds // 5)):
            row = event_row(seq)
            results = at_once([partial(store.append, NS, "run-1", [row], expected=writer.head, epoch=0)] * 3)
            assert sorted(type(result).__name__ for result in results) == ["DuplicateIds", "DuplicateIds", "NoneType"]
            writer.head = head_of([row])

    def test_of_two_claims_one_wins(self, store: Store, cold: Callable[[], Store]) -> None:
        other = cold()
        for number in range(max(1, self.race_rounds // 5)):
            store.create_run(NS, header_row(f"r{number}"))
            claims = at_once(
                [partial(store.claim, NS, f"r{number}", "one", 60), partial(other.claim, NS, f"r{number}", "two", 60)]
            )
            assert sorted(claim.granted for claim in claims) == [False, True]
            assert {claim.epoch for claim in claims} == {1}
            assert len({claim.holder for claim in claims}) == 1

    def test_of_two_creations_one_header_stays(self, store: Store, cold: Callable[[], Store]) -> None:
        other = cold()
        for number in range(max(1, self.race_rounds // 5)):
            results = at_once(
                [
                    partial(store.create_run, NS, header_row(f"r{number}", body=b"one")),
                    partial(other.create_run, NS, header_row(f"r{number}", body=b"two")),
                ]
            )
            assert sorted(type(result).__name__ for result in results) == ["NoneType", "RunExists"]

    def test_threads_on_runs_of_their_own(self, store: Store, cold: Callable[[], Store]) -> None:
        writers = [Writer(store, f"run-{n}") for n in range(16)]

        def work(writer: Writer) -> None:
            for _ in range(25):
                writer.append(event_row(writer.head.seq + 1, writer.run))

        assert at_once([partial(work, w) for w in writers]) == [None] * 16
        other = cold()
        for writer in writers:
            rows = all_rows(other, writer.run)
            assert [row.seq for row in rows] == list(range(1, 26))
            assert head_of(rows) == writer.head

    def test_refusals_among_many_threads_hit_only_their_own(self, store: Store) -> None:
        writers = [Writer(store, f"run-{n}") for n in range(8)]

        def work(number: int) -> int:
            writer, refused = writers[number], 0
            for step in range(30):
                seq = writer.head.seq + 1
                try:
                    if number % 4 == 1 and step % 3 == 0:
                        store.append(NS, writer.run, [event_row(seq)], expected=Head(seq + 7, b""), epoch=0)
                    elif number % 4 == 2 and step % 3 == 0:
                        twice = [event_row(seq, writer.run), event_row(seq + 1, writer.run, id=f"event-{seq}")]
                        store.append(NS, writer.run, twice, expected=writer.head, epoch=0)
                    else:
                        writer.fill(1)
                except Refused:
                    refused += 1
            return refused

        results = at_once([partial(work, n) for n in range(8)])
        assert results == [0, 10, 10, 0, 0, 10, 10, 0]
        assert [len(all_rows(store, w.run)) for w in writers] == [30, 20, 20, 30, 30, 20, 20, 30]

    def test_readers_see_whole_appends(self, store: Store) -> None:
        writer = Writer(store)
        stop = threading.Event()
        torn: list[int] = []

        def watch() -> None:
            while not stop.is_set():
                last = store.last_event(NS, "run-1")
                if last is not None and last.seq % 5:
                    torn.append(last.seq)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            for _ in range(60):
                writer.fill(5)
        finally:
            stop.set()
            thread.join()
        assert torn == []

    # Forks

    @pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
    def test_child_and_parent_go_on_after_a_fork(self, store: Store) -> None:
        mine, others = Writer(store, "parent"), Writer(store, "child")
        mine.fill(2)
        others.fill(2)

        def child() -> None:
            others.fill(3)
            assert len(all_rows(store, "child")) == 5
            store.put_artifact(NS, b"c" * 32, b"from the child")

        assert in_child(child) == 0
        mine.fill(3)
        assert len(all_rows(store, "parent")) == 5
        if self.shares_with_children:
            assert len(all_rows(store, "child")) == 5
            assert store.artifact(NS, b"c" * 32) == b"from the child"

    @pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
    def test_fork_while_threads_write(self, store: Store) -> None:
        writers = [Writer(store, f"run-{n}") for n in range(4)]
        children = [Writer(store, f"child-{n}") for n in range(5)]
        stop = threading.Event()

        def work(writer: Writer) -> None:
            while not stop.is_set():
                writer.fill(1)

        threads = [threading.Thread(target=work, args=(writer,)) for writer in writers]
        for thread in threads:
            thread.start()
        try:
            statuses = [in_child(partial(child.fill, 3)) for child in children]
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert statuses == [0] * 5
        for writer in writers:
            assert [row.seq for row in all_rows(store, writer.run)] == list(range(1, writer.head.seq + 1))
        if self.shares_with_children:
            assert [len(all_rows(store, child.run)) for child in children] == [3] * 5
