"""Appends: what is refused, in which order, and that a refusal changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onrecord.errors import MovedHead, NotFound, Refused, StaleEpoch
from onrecord.store.contract import DuplicateIds, EventRow, Head, NodeRow, PendingAppend, Store
from onrecord.testing.store_contract.builders import NS, Writer, all_rows, event_row, head_of
from onrecord.testing.store_contract.hooks import StoreHooks


class AppendCases(StoreHooks):
    def test_event_comes_back_as_it_was(self, writer: Writer, cold: Callable[[], Store]) -> None:
        rows = [
            event_row(1, content=bytes(range(256)) * 500),
            event_row(2, lane="main>a", lane_seq=1, content=b""),
            event_row(3, lane_seq=None, prefix=None),
            event_row(4, content=None, salt=None, match=None, kind="Vom Mond ☾"),
        ]
        writer.append(*rows)
        assert all_rows(cold()) == rows

    def test_every_row_is_of_its_type(self, store: Store, writer: Writer) -> None:
        writer.fill(1)
        (row,) = all_rows(store)
        assert type(row) is EventRow
        assert all(type(value) in (int, str, bytes, type(None)) for value in row)

    def test_append_to_unknown_run_is_refused(self, store: Store) -> None:
        with pytest.raises(NotFound):
            store.append(NS, "no", [event_row(1)], expected=Head(0, b""), epoch=0, nodes=[NodeRow(b"n" * 32, b"x")])
        assert store.nodes(NS, [b"n" * 32]) == {}

    def test_first_append_expects_the_header(self, store: Store, writer: Writer) -> None:
        with pytest.raises(MovedHead):
            store.append(NS, "run-1", [event_row(1)], expected=Head(0, b"x" * 32), epoch=0)
        writer.fill(1)

    @pytest.mark.parametrize("wrong", ["seq", "hash", "behind"])
    def test_append_on_another_head_is_refused(self, store: Store, writer: Writer, wrong: str) -> None:
        rows = writer.fill(3)
        expected = {"seq": Head(4, rows[-1].hash), "hash": Head(3, rows[0].hash), "behind": Head(2, rows[1].hash)}[
            wrong
        ]
        with pytest.raises(MovedHead):
            store.append(NS, "run-1", [event_row(4)], expected=expected, epoch=0, nodes=[NodeRow(b"n" * 32, b"x")])
        assert all_rows(store) == rows
        assert store.nodes(NS, [b"n" * 32]) == {}
        writer.fill(1)

    def test_append_of_another_epoch_is_refused(self, store: Store, writer: Writer) -> None:
        writer.epoch = store.claim(NS, "run-1", "me", 60).epoch
        writer.fill(1)
        for epoch in (0, 2):
            with pytest.raises(StaleEpoch):
                store.append(NS, "run-1", [event_row(2)], expected=writer.head, epoch=epoch)
        writer.fill(1)
        assert len(all_rows(store)) == 2

    def test_ids_are_looked_for_before_epoch_and_head(self, store: Store, writer: Writer) -> None:
        rows = writer.fill(3)
        with pytest.raises(DuplicateIds) as caught:
            store.append(NS, "run-1", [rows[2], rows[0]], expected=Head(0, b""), epoch=7)
        assert caught.value.rows == [rows[2], rows[0]]

    def test_ids_are_looked_for_on_the_right_head_too(self, store: Store, writer: Writer) -> None:
        rows = writer.fill(3)
        batch = [event_row(4), event_row(5, id="event-2"), event_row(6)]
        with pytest.raises(DuplicateIds) as caught:
            writer.append(*batch, nodes=[NodeRow(b"n" * 32, b"x")])
        assert caught.value.rows == [rows[1]]
        assert all_rows(store) == rows
        assert store.nodes(NS, [b"n" * 32]) == {}

    def test_epoch_is_looked_at_before_head(self, store: Store, writer: Writer) -> None:
        writer.fill(1)
        with pytest.raises(StaleEpoch):
            store.append(NS, "run-1", [event_row(2)], expected=Head(0, b""), epoch=1)

    @pytest.mark.parametrize(
        "broken",
        [[event_row(3), event_row(4, id="event-3")], [event_row(3), event_row(3, id="other", lane_seq=9)]],
        ids=["id twice", "seq twice"],
    )
    def test_batch_that_breaks_uniqueness_leaves_nothing(
        self, store: Store, writer: Writer, broken: list[EventRow]
    ) -> None:
        rows = writer.fill(2)
        with pytest.raises(Refused):
            writer.append(*broken, nodes=[NodeRow(b"n" * 32, b"x")])
        assert all_rows(store) == rows
        assert store.nodes(NS, [b"n" * 32]) == {}
        writer.head = head_of(rows)
        writer.fill(2)

    def test_large_batch_is_one_append(self, store: Store, writer: Writer, cold: Callable[[], Store]) -> None:
        rows = writer.fill(1000, content=b"x" * 100)
        assert all_rows(cold()) == rows

    def test_unsynced_append_is_an_append(self, writer: Writer, cold: Callable[[], Store]) -> None:
        writer.append(event_row(1), sync=False)
        writer.append(event_row(2), sync=True)
        writer.append(event_row(3), sync=False)
        assert [row.seq for row in all_rows(cold())] == [1, 2, 3]

    def test_store_works_after_a_refusal(self, store: Store, writer: Writer) -> None:
        for _ in range(20):
            with pytest.raises(MovedHead):
                store.append(NS, "run-1", [event_row(99)], expected=Head(98, b""), epoch=0)
            writer.fill(1)
        assert [row.seq for row in all_rows(store)] == list(range(1, 21))

    def test_second_instance_sees_and_moves_the_head(
        self, store: Store, writer: Writer, cold: Callable[[], Store]
    ) -> None:
        other = cold()
        for number in range(1, 21, 2):
            writer.fill(1)
            row = event_row(number + 1)
            other.append(NS, "run-1", [row], expected=writer.head, epoch=0)
            with pytest.raises(MovedHead):
                store.append(NS, "run-1", [event_row(number + 2)], expected=writer.head, epoch=0)
            writer.head = head_of([row])
        assert [row.seq for row in all_rows(store)] == list(range(1, 21))

    def test_second_instance_fences_the_first(self, store: Store, writer: Writer, cold: Callable[[], Store]) -> None:
        writer.epoch = store.claim(NS, "run-1", "one", 60).epoch
        writer.fill(2)
        other = cold()
        assert other.claim(NS, "run-1", "two", 60, superseding="one").epoch == writer.epoch + 1
        with pytest.raises(StaleEpoch):
            writer.fill(1)

    # Several at once

    def test_each_of_many_is_judged_alone(self, store: Store, cold: Callable[[], Store]) -> None:
        writers = [Writer(store, f"run-{n}") for n in range(5)]
        first = writers[1].fill(1)
        pending = [
            writers[0].pending(event_row(1, "run-0")),
            writers[1].pending(first[0]),
            writers[2].pending(event_row(1, "run-2"))._replace(epoch=3),
            writers[3].pending(event_row(1, "run-3"))._replace(expected=Head(5, b"")),
            PendingAppend(NS, "unknown", [event_row(1)], Head(0, b""), 0, [NodeRow(b"n" * 32, b"x")]),
            writers[4].pending(event_row(1, "run-4"))._replace(nodes=[NodeRow(b"m" * 32, b"y")]),
        ]
        results = store.append_many(pending)
        kinds = [type(result) for result in results]
        assert kinds == [type(None), DuplicateIds, StaleEpoch, MovedHead, NotFound, type(None)]
        other = cold()
        assert [len(all_rows(other, f"run-{n}")) for n in range(5)] == [1, 1, 0, 0, 1]
        assert {row.address for row in other.all_nodes(NS)} == {b"m" * 32}

    def test_a_broken_one_among_many_takes_nobody_along(self, store: Store) -> None:
        writers = [Writer(store, f"run-{n}") for n in range(3)]
        twice = [event_row(1, "run-1"), event_row(2, "run-1", id="event-1")]
        results = store.append_many(
            [
                writers[0].pending(event_row(1, "run-0")),
                writers[1].pending(*twice)._replace(nodes=[NodeRow(b"n" * 32, b"x")]),
                writers[2].pending(event_row(1, "run-2")),
            ]
        )
        assert [type(result).__name__ for result in (results[0], results[2])] == ["NoneType", "NoneType"]
        assert isinstance(results[1], Refused)
        assert [len(all_rows(store, f"run-{n}")) for n in range(3)] == [1, 0, 1]
        assert store.nodes(NS, [b"n" * 32]) == {}

    def test_many_of_nothing(self, store: Store) -> None:
        assert store.append_many([]) == []
