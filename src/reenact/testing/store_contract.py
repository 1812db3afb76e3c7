"""The suite every store passes. For a store of your own, subclass and say how to make one:

    class TestMyStore(StoreContract):
        def make_store(self):
            return MyStore(...)          # empty

        def reopen(self, store):
            return MyStore(...)          # a second instance over the same data, or None

Rules: each test takes one sentence of `reenact.store.contract` and tries to break it. Rows are arbitrary
bytes, since a store parses none. Tests of races start their threads at a barrier and repeat; tests of forks
need a store that survives one.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from reenact.errors import InvalidInput, MovedHead, NotFound, Refused, RunExists, StaleEpoch
from reenact.store.contract import (
    DuplicateIds,
    EventRow,
    Head,
    HeaderRow,
    NodeRow,
    PendingAppend,
    SnapshotRow,
    Store,
)

NS = "default"


def digest(*parts: object) -> bytes:
    """32 bytes that differ when the parts do."""
    return hashlib.sha256(repr(parts).encode()).digest()


def header_row(run: str = "run-1", created: int = 1, kind: str = "run", body: bytes = b"header") -> HeaderRow:
    return HeaderRow(
        run, kind, created, body + run.encode(), digest("header", run), b"s" * 16, b"m" * 32, b"facts", False
    )


def event_row(
    seq: int,
    run: str = "run-1",
    lane: str = "0",
    lane_seq: int | None = -1,
    content: bytes | None = b"content",
    **more: Any,
) -> EventRow:
    row = EventRow(
        seq,
        f"event-{seq}",
        "StateUpdated",
        lane,
        seq if lane_seq == -1 else lane_seq,
        b"link\x00\xff" + str(seq).encode(),
        digest("event", run, seq),
        b"salt" * 4,
        digest("match", seq),
        digest("prefix", seq),
        content,
    )
    return row._replace(**more)


def event_rows(first: int, last: int, run: str = "run-1", **more: Any) -> list[EventRow]:
    return [event_row(seq, run, **more) for seq in range(first, last + 1)]


def head_of(rows: Sequence[EventRow]) -> Head:
    return Head(rows[-1].seq, rows[-1].hash)


class Writer:
    """Appends to one run and remembers its head, as a journal does."""

    def __init__(self, store: Store, run: str = "run-1", namespace: str = NS, **header: Any) -> None:
        self.store, self.run, self.namespace = store, run, namespace
        row = header_row(run, **header)
        store.create_run(namespace, row)
        self.head = Head(0, row.hash)
        self.epoch = 0

    def append(self, *rows: EventRow, **more: Any) -> None:
        self.store.append(self.namespace, self.run, rows, expected=self.head, epoch=self.epoch, **more)
        self.head = head_of(rows)

    def fill(self, count: int, **more: Any) -> list[EventRow]:
        rows = event_rows(self.head.seq + 1, self.head.seq + count, self.run, **more)
        self.append(*rows)
        return rows

    def pending(self, *rows: EventRow) -> PendingAppend:
        return PendingAppend(self.namespace, self.run, rows, self.head, self.epoch)


def all_rows(store: Store, run: str = "run-1", namespace: str = NS) -> list[EventRow]:
    return list(store.scan(namespace, run))


def at_once(actions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Runs the actions in threads that start together; results or exceptions, in order."""
    barrier = threading.Barrier(len(actions))
    results: list[Any] = [None] * len(actions)

    def carry_out(index: int) -> None:
        barrier.wait()
        try:
            results[index] = actions[index]()
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=carry_out, args=(i,)) for i in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def in_child(action: Callable[[], Any]) -> int:
    """Runs the action in a forked child; its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class StoreContract:
    race_rounds = 100
    """How often a race is run. Raise it for a store that answers in microseconds."""
    shares_with_children = True
    """False for a store whose data a forked child only has a copy of."""

    def make_store(self) -> Store:
        """An empty store."""
        raise NotImplementedError("say how to make an empty store")

    def reopen(self, store: Store) -> Store | None:
        """A second instance over the same data, with nothing in its caches; None if there can be none."""
        return None

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = self.make_store()
        yield store
        store.close()

    @pytest.fixture
    def cold(self, store: Store) -> Iterator[Callable[[], Store]]:
        """Another instance over what `store` holds; `store` itself where there can be none."""
        opened: list[Store] = []

        def open_again() -> Store:
            other = self.reopen(store)
            if other is None:
                return store
            opened.append(other)
            return other

        yield open_again
        for other in opened:
            other.close()

    @pytest.fixture
    def writer(self, store: Store) -> Writer:
        return Writer(store)

    # Runs

    def test_says_what_it_is(self, store: Store) -> None:
        assert "://" in store.url
        assert store.durability in ("full", "relaxed")

    def test_header_comes_back_as_it_was(self, store: Store, cold: Callable[[], Store]) -> None:
        header = HeaderRow("r", "run", -5, b"\x00\xff", b"h" * 32, b"s" * 16, b"m" * 32, b"", True)
        store.create_run(NS, header)
        row = cold().run_row(NS, "r")
        assert row is not None
        assert row.header == header
        assert (row.last, row.epoch) == (None, 0)
        assert isinstance(row.header.imported, bool)

    def test_same_header_again_does_nothing(self, store: Store, writer: Writer) -> None:
        writer.fill(2)
        store.create_run(NS, header_row())
        assert len(all_rows(store)) == 2

    def test_another_header_under_the_id_is_refused(self, store: Store, writer: Writer) -> None:
        with pytest.raises(RunExists):
            store.create_run(NS, header_row(body=b"other"), [NodeRow(b"n" * 32, b"x")])
        row = store.run_row(NS, "run-1")
        assert row is not None
        assert row.header == header_row()
        assert store.nodes(NS, [b"n" * 32]) == {}

    def test_header_brings_its_nodes(self, store: Store, cold: Callable[[], Store]) -> None:
        store.create_run(NS, header_row(), [NodeRow(b"n" * 32, b"node")])
        assert cold().nodes(NS, [b"n" * 32]) == {b"n" * 32: b"node"}

    def test_unknown_run_has_no_row(self, store: Store) -> None:
        assert store.run_row(NS, "nothing") is None

    def test_run_row_names_the_last_event(self, store: Store, writer: Writer) -> None:
        rows = writer.fill(3)
        found = store.run_row(NS, "run-1")
        assert found is not None
        assert found.last is not None
        assert found.last._replace(content=None) == rows[-1]._replace(content=None)

    def test_runs_are_listed_newest_first(self, store: Store) -> None:
        for created, run in ((3, "a"), (1, "b"), (2, "c"), (2, "d")):
            store.create_run(NS, header_row(run, created))
        assert [row.header.run for row in store.list_runs(NS)] == ["a", "d", "c", "b"]

    def test_listing_goes_on_below_a_position(self, store: Store) -> None:
        for number in range(25):
            store.create_run(NS, header_row(f"run-{number:02}", created=number // 3))
        seen: list[str] = []
        before = None
        while page := store.list_runs(NS, before=before, limit=4):
            assert len(page) <= 4
            seen += [row.header.run for row in page]
            before = (page[-1].header.created, page[-1].header.run)
        assert seen == sorted(seen, reverse=True)
        assert len(seen) == 25

    def test_operations_journal_is_not_listed(self, store: Store) -> None:
        store.create_run(NS, header_row("operations", kind="operations"))
        store.create_run(NS, header_row("mine"))
        assert [row.header.run for row in store.list_runs(NS)] == ["mine"]
        assert store.run_row(NS, "operations") is not None

    def test_listing_bears_epoch_and_last_event(self, store: Store, writer: Writer) -> None:
        writer.fill(2)
        store.claim(NS, "run-1", "me", 60)
        (row,) = store.list_runs(NS)
        assert row.epoch == 1
        assert row.last is not None
        assert (row.last.seq, row.last.kind, row.last.hash) == (2, "StateUpdated", writer.head.hash)

    @pytest.mark.parametrize("limit", [0, 1, 1 << 70])
    def test_any_limit_of_a_listing(self, store: Store, writer: Writer, limit: int) -> None:
        assert len(store.list_runs(NS, limit=limit)) == min(limit, 1)
        assert len(store.find_runs(NS, "", limit=limit)) == min(limit, 1)

    def test_negative_limit_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidInput):
            store.list_runs(NS, limit=-1)
        with pytest.raises(InvalidInput):
            store.find_runs(NS, "", limit=-1)

    def test_runs_are_found_by_prefix_taken_literally(self, store: Store) -> None:
        for run in ("a1", "a2", "a_b", "axb", "b", "A1", "a.c", "a:c"):
            store.create_run(NS, header_row(run))
        assert store.find_runs(NS, "a") == sorted(["a1", "a2", "a_b", "axb", "a.c", "a:c"])
        assert store.find_runs(NS, "a_") == ["a_b"]
        assert store.find_runs(NS, "a%") == []
        assert store.find_runs(NS, "a*") == []
        assert store.find_runs(NS, "a' OR '1'='1") == []
        assert store.find_runs(NS, "a", limit=2) == ["a.c", "a1"]

    def test_namespaces_are_listed(self, store: Store) -> None:
        for namespace in ("b", "a"):
            store.create_run(namespace, header_row())
        assert store.namespaces() == ["a", "b"]

    # Import

    def test_run_is_imported_whole(self, store: Store, cold: Callable[[], Store]) -> None:
        rows = event_rows(1, 1500)
        batches = ((rows[at : at + 200], [NodeRow(digest("node", at), b"blob")]) for at in range(0, len(rows), 200))
        header = header_row()._replace(imported=True)
        store.import_run(NS, header, [NodeRow(b"f" * 32, b"facts")], batches)
        other = cold()
        assert all_rows(other) == rows
        row = other.run_row(NS, "run-1")
        assert row is not None
        assert row.header == header
        assert len(list(other.all_nodes(NS))) == 9

    def test_import_over_any_existing_run_is_refused(self, store: Store, writer: Writer) -> None:
        with pytest.raises(RunExists):
            store.import_run(NS, header_row(), [NodeRow(b"f" * 32, b"x")], [(event_rows(1, 2), [])])
        assert all_rows(store) == []
        assert store.nodes(NS, [b"f" * 32]) == {}

    def test_import_that_fails_leaves_nothing(self, store: Store) -> None:
        def batches() -> Iterator[tuple[list[EventRow], list[NodeRow]]]:
            yield event_rows(1, 3), [NodeRow(b"n" * 32, b"x")]
            raise ValueError("the file ends here")

        with pytest.raises(ValueError, match="ends here"):
            store.import_run(NS, header_row(), [], batches())
        assert store.run_row(NS, "run-1") is None
        assert list(store.all_nodes(NS)) == []
        store.import_run(NS, header_row(), [], [(event_rows(1, 3), [])])
        assert len(all_rows(store)) == 3

    # Appends

    def test_event_comes_back_as_it_was(self, writer: Writer, cold: Callable[[], Store]) -> None:
        rows = [
            event_row(1, content=bytes(range(256)) * 500),
            event_row(2, lane="0.1", lane_seq=1, content=b""),
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
        expected = {
            "seq": Head(4, rows[-1].hash),
            "hash": Head(3, rows[0].hash),
            "behind": Head(2, rows[1].hash),
        }[wrong]
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
        [
            [event_row(3), event_row(4, id="event-3")],
            [event_row(3), event_row(3, id="other", lane_seq=9)],
        ],
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

    # Reading

    def test_last_event(self, store: Store, writer: Writer) -> None:
        assert store.last_event(NS, "run-1") is None
        assert store.last_event(NS, "unknown") is None
        rows = writer.fill(3)
        assert store.last_event(NS, "run-1") == rows[-1]

    def test_event_by_seq(self, store: Store, writer: Writer) -> None:
        rows = writer.fill(3)
        assert [store.event(NS, "run-1", seq) for seq in (0, 1, 3, 4, -1, 1 << 70)] == [
            None,
            rows[0],
            rows[2],
            None,
            None,
            None,
        ]
        assert store.event(NS, "unknown", 1) is None

    def test_events_by_id(self, store: Store, writer: Writer) -> None:
        rows = writer.fill(3)
        found = store.events_by_id(NS, "run-1", ["event-3", "no", "event-1"])
        assert sorted(found) == sorted([rows[2], rows[0]])
        assert store.events_by_id(NS, "run-1", []) == []
        assert store.events_by_id(NS, "unknown", ["event-1"]) == []

    @pytest.mark.parametrize(
        ("start", "stop", "expected"),
        [
            (1, None, range(1, 8)),
            (3, None, range(3, 8)),
            (3, 5, range(3, 5)),
            (3, 3, range(0)),
            (5, 3, range(0)),
            (0, 100, range(1, 8)),
            (8, None, range(0)),
            (-(1 << 70), 1 << 70, range(1, 8)),
        ],
    )
    def test_scan_from_start_to_before_stop(
        self, store: Store, writer: Writer, start: int, stop: int | None, expected: range
    ) -> None:
        writer.fill(7)
        assert [row.seq for row in store.scan(NS, "run-1", start, stop)] == list(expected)

    def test_scan_of_nothing(self, store: Store, writer: Writer) -> None:
        assert all_rows(store) == []
        assert all_rows(store, "unknown") == []

    def test_scan_over_many_pages(self, store: Store, writer: Writer) -> None:
        for _ in range(3):
            writer.fill(1024)
        assert [row.seq for row in store.scan(NS, "run-1")] == list(range(1, 3073))
        assert [row.seq for row in store.scan(NS, "run-1", 500, 2600)] == list(range(500, 2600))

    def test_scan_of_large_contents(self, store: Store, writer: Writer) -> None:
        for seq in range(1, 8):
            writer.append(event_row(seq, content=bytes([seq]) * 3_000_000))
        for seq, row in enumerate(store.scan(NS, "run-1"), 1):
            assert row.seq == seq
            assert row.content == bytes([seq]) * 3_000_000

    def test_scan_without_contents(self, store: Store, writer: Writer) -> None:
        rows = writer.fill(3)
        assert list(store.scan(NS, "run-1", contents=False)) == [row._replace(content=None) for row in rows]

    def test_appends_while_scanning(self, store: Store, writer: Writer) -> None:
        writer.fill(600)
        seen = []
        for row in store.scan(NS, "run-1"):
            seen.append(row.seq)
            if len(seen) in (1, 550):
                writer.fill(3)
        assert seen[:600] == list(range(1, 601))
        assert seen == list(range(1, len(seen) + 1))

    def test_abandoned_scans_are_in_nobodys_way(self, store: Store, writer: Writer) -> None:
        writer.fill(600)
        scans = [store.scan(NS, "run-1") for _ in range(50)]
        assert [next(scan).seq for scan in scans] == [1] * 50
        writer.fill(1)
        assert store.last_event(NS, "run-1") is not None

    # Lanes

    def laned(self, writer: Writer) -> list[EventRow]:
        lanes = ["0", "0.1", "0", "0.2", "0.10", "0.1", "0"]
        count: dict[str, int] = {}
        rows = []
        for seq, lane in enumerate(lanes, 1):
            count[lane] = count.get(lane, 0) + 1
            rows.append(event_row(seq, lane=lane, lane_seq=count[lane]))
        rows.append(event_row(8, lane="0", lane_seq=None, prefix=None))
        rows.append(event_row(9, lane="0.9", lane_seq=None, prefix=None))
        writer.append(*rows)
        return rows

    def test_event_by_its_place_in_a_lane(self, store: Store, writer: Writer) -> None:
        rows = self.laned(writer)
        for row in rows:
            if row.lane_seq is not None:
                found = store.lane_event(NS, "run-1", row.lane, row.lane_seq)
                assert found == row._replace(content=None)
        assert store.lane_event(NS, "run-1", "0", 4) is None
        assert store.lane_event(NS, "run-1", "0.3", 1) is None
        assert store.lane_event(NS, "unknown", "0", 1) is None

    @pytest.mark.parametrize("below", [None, 1, 2, 3, 5, 7, 8, 100])
    def test_last_behavioural_event_of_each_lane(self, store: Store, writer: Writer, below: int | None) -> None:
        rows = self.laned(writer)
        expected = {
            row.lane: row._replace(content=None)
            for row in rows
            if row.lane_seq is not None and (below is None or row.seq < below)
        }
        found = store.lanes(NS, "run-1", below)
        assert {row.lane: row for row in found} == expected
        assert len(found) == len(expected)

    def test_lanes_of_nothing(self, store: Store, writer: Writer) -> None:
        assert store.lanes(NS, "run-1") == []
        assert store.lanes(NS, "unknown") == []

    def test_many_lanes(self, store: Store, writer: Writer) -> None:
        writer.append(*(event_row(n, lane=f"0.{n}", lane_seq=1) for n in range(1, 301)))
        assert len(store.lanes(NS, "run-1")) == 300

    # Nodes and artifacts

    def test_nodes_come_back(self, store: Store, writer: Writer, cold: Callable[[], Store]) -> None:
        nodes = [NodeRow(digest("node", n), bytes([n]) * n) for n in range(200)]
        writer.append(event_row(1), nodes=nodes)
        other = cold()
        wanted = [node.address for node in nodes]
        assert other.nodes(NS, [*wanted, b"?" * 32]) == dict(nodes)
        assert other.nodes(NS, []) == {}

    def test_existing_node_is_left_as_it_is(self, store: Store, writer: Writer) -> None:
        address = b"n" * 32
        writer.append(event_row(1), nodes=[NodeRow(address, b"first")])
        writer.append(event_row(2), nodes=[NodeRow(address, b"second"), NodeRow(b"o" * 32, b"other")])
        assert store.nodes(NS, [address, b"o" * 32]) == {address: b"first", b"o" * 32: b"other"}

    def test_node_twice_in_one_append(self, store: Store, writer: Writer) -> None:
        writer.append(event_row(1), nodes=[NodeRow(b"n" * 32, b"x"), NodeRow(b"n" * 32, b"x")])
        assert list(store.all_nodes(NS)) == [NodeRow(b"n" * 32, b"x")]

    def test_all_nodes_over_many_pages(self, store: Store, writer: Writer) -> None:
        nodes = {digest("node", n): str(n).encode() for n in range(1300)}
        writer.append(event_row(1), nodes=[NodeRow(*item) for item in nodes.items()])
        Writer(store, "x", "other").append(event_row(1, "x"), nodes=[NodeRow(b"o" * 32, b"other")])
        found = list(store.all_nodes(NS))
        assert len(found) == 1300
        assert dict(found) == nodes

    def test_artifacts_come_back(self, store: Store, cold: Callable[[], Store]) -> None:
        large = os.urandom(3_000_000)
        store.put_artifact(NS, b"a" * 32, large)
        store.put_artifact(NS, b"b" * 32, b"")
        other = cold()
        assert other.artifact(NS, b"a" * 32) == large
        assert other.artifact(NS, b"b" * 32) == b""
        assert other.artifact(NS, b"c" * 32) is None
        assert sorted(other.all_artifacts(NS)) == [b"a" * 32, b"b" * 32]

    def test_existing_artifact_is_left_as_it_is(self, store: Store) -> None:
        store.put_artifact(NS, b"a" * 32, b"first")
        store.put_artifact(NS, b"a" * 32, b"second")
        assert store.artifact(NS, b"a" * 32) == b"first"

    def test_same_artifact_from_many_threads(self, store: Store) -> None:
        results = at_once([lambda: store.put_artifact(NS, b"a" * 32, b"x" * 100_000)] * 8)
        assert results == [None] * 8
        assert store.artifact(NS, b"a" * 32) == b"x" * 100_000
        assert list(store.all_artifacts(NS)) == [b"a" * 32]

    # Namespaces

    def test_nothing_is_seen_from_another_namespace(self, store: Store, writer: Writer) -> None:
        writer.append(*event_rows(1, 2), nodes=[NodeRow(b"n" * 32, b"secret")])
        store.put_artifact(NS, b"a" * 32, b"secret")
        store.inbox_put(NS, "run-1", "key", b"secret", 1)
        store.put_snapshot(NS, "run-1", SnapshotRow(1, b"h" * 32, "r/1", 1, b"s" * 32, b"secret"))
        for other in ("other", "", "default2", "Default", "default%", "*"):
            assert store.run_row(other, "run-1") is None
            assert store.list_runs(other) == []
            assert store.find_runs(other, "") == []
            assert store.last_event(other, "run-1") is None
            assert store.event(other, "run-1", 1) is None
            assert store.events_by_id(other, "run-1", ["event-1"]) == []
            assert all_rows(store, namespace=other) == []
            assert store.lane_event(other, "run-1", "0", 1) is None
            assert store.lanes(other, "run-1") == []
            assert store.nodes(other, [b"n" * 32]) == {}
            assert list(store.all_nodes(other)) == []
            assert store.artifact(other, b"a" * 32) is None
            assert list(store.all_artifacts(other)) == []
            assert store.inbox(other, "run-1") == []
            assert store.snapshots(other, "run-1") == []

    def test_same_names_in_two_namespaces_are_two_things(self, store: Store) -> None:
        for namespace in ("a", "b"):
            writer = Writer(store, namespace=namespace, body=namespace.encode())
            writer.append(event_row(1, content=namespace.encode()), nodes=[NodeRow(b"n" * 32, namespace.encode())])
            store.put_artifact(namespace, b"a" * 32, namespace.encode())
            store.inbox_put(namespace, "run-1", "key", namespace.encode(), 1)
            assert store.claim(namespace, "run-1", namespace, 60).granted
        for namespace in ("a", "b"):
            mine = namespace.encode()
            row = store.run_row(namespace, "run-1")
            assert row is not None
            assert row.header.header.startswith(mine)
            assert [event.content for event in all_rows(store, namespace=namespace)] == [mine]
            assert store.nodes(namespace, [b"n" * 32]) == {b"n" * 32: mine}
            assert store.artifact(namespace, b"a" * 32) == mine
            assert [entry.payload for entry in store.inbox(namespace, "run-1")] == [mine]

    # Leases

    def test_first_claim_is_epoch_one(self, store: Store, writer: Writer) -> None:
        claim = store.claim(NS, "run-1", "me", 60)
        assert (claim.epoch, claim.holder, claim.granted) == (1, "me", True)

    def test_holder_renews_under_its_epoch(self, store: Store, writer: Writer, cold: Callable[[], Store]) -> None:
        store.claim(NS, "run-1", "me", 60)
        claim = cold().claim(NS, "run-1", "me", 60)
        assert (claim.epoch, claim.granted) == (1, True)

    def test_held_run_is_not_given_away(self, store: Store, writer: Writer, cold: Callable[[], Store]) -> None:
        store.claim(NS, "run-1", "me", 60)
        claim = cold().claim(NS, "run-1", "you", 60)
        assert (claim.epoch, claim.holder, claim.granted) == (1, "me", False)

    def test_superseding_takes_only_the_one_named(self, store: Store, writer: Writer) -> None:
        store.claim(NS, "run-1", "me", 60)
        assert not store.claim(NS, "run-1", "you", 60, superseding="somebody").granted
        claim = store.claim(NS, "run-1", "you", 60, superseding="me")
        assert (claim.epoch, claim.holder, claim.granted) == (2, "you", True)

    def test_lease_expires(self, store: Store, writer: Writer) -> None:
        store.claim(NS, "run-1", "me", 0.05)
        time.sleep(0.1)
        claim = store.claim(NS, "run-1", "you", 60)
        assert (claim.epoch, claim.holder, claim.granted) == (2, "you", True)
        writer.epoch = 1
        with pytest.raises(StaleEpoch):
            writer.fill(1)

    def test_renewal_prolongs(self, store: Store, writer: Writer) -> None:
        store.claim(NS, "run-1", "me", 0.05)
        store.claim(NS, "run-1", "me", 60)
        time.sleep(0.1)
        assert not store.claim(NS, "run-1", "you", 60).granted

    def test_release_frees_the_run(self, store: Store, writer: Writer) -> None:
        epoch = store.claim(NS, "run-1", "me", 60).epoch
        store.release(NS, "run-1", epoch)
        claim = store.claim(NS, "run-1", "you", 60)
        assert (claim.epoch, claim.granted) == (2, True)

    def test_release_of_an_old_epoch_does_nothing(self, store: Store, writer: Writer) -> None:
        store.claim(NS, "run-1", "me", 60)
        store.claim(NS, "run-1", "you", 60, superseding="me")
        store.release(NS, "run-1", 1)
        assert not store.claim(NS, "run-1", "me", 60).granted

    def test_release_keeps_the_epoch(self, store: Store, writer: Writer) -> None:
        writer.epoch = store.claim(NS, "run-1", "me", 60).epoch
        store.release(NS, "run-1", writer.epoch)
        writer.fill(1)
        assert store.run_row(NS, "run-1").epoch == 1  # type: ignore[union-attr]

    def test_unknown_run_cannot_be_claimed(self, store: Store) -> None:
        with pytest.raises(NotFound):
            store.claim(NS, "unknown", "me", 60)

    # Inbox

    def test_inbox_numbers_ascend_in_each_run(self, store: Store, cold: Callable[[], Store]) -> None:
        for run in ("a", "b"):
            store.create_run(NS, header_row(run))
            for number in (1, 2, 3):
                row = store.inbox_put(NS, run, f"key-{number}", bytes([number]), number * 10)
                assert row == (number, f"key-{number}", bytes([number]), number * 10)
        other = cold()
        assert [row.number for row in other.inbox(NS, "b")] == [1, 2, 3]
        assert [row.number for row in other.inbox(NS, "b", after=2)] == [3]
        assert other.inbox(NS, "b", after=3) == []
        assert other.inbox(NS, "unknown") == []

    def test_first_writer_wins(self, store: Store, writer: Writer, cold: Callable[[], Store]) -> None:
        first = store.inbox_put(NS, "run-1", "key", b"first", 1)
        assert cold().inbox_put(NS, "run-1", "key", b"second", 2) == first
        assert store.inbox_put(NS, "run-1", "next", b"", 3).number == 2
        assert [row.payload for row in store.inbox(NS, "run-1")] == [b"first", b""]

    def test_inbox_of_unknown_run_is_refused(self, store: Store) -> None:
        with pytest.raises(NotFound):
            store.inbox_put(NS, "unknown", "key", b"", 1)

    def test_first_writer_wins_among_threads(self, store: Store, writer: Writer) -> None:
        for round_number in range(max(1, self.race_rounds // 10)):
            results = at_once(
                [partial(store.inbox_put, NS, "run-1", f"key-{round_number}", bytes([me]), me) for me in range(4)]
            )
            assert len(set(results)) == 1
        numbers = [row.number for row in store.inbox(NS, "run-1")]
        assert numbers == list(range(1, len(numbers) + 1))

    # Snapshots

    def test_snapshots_newest_first(self, store: Store, writer: Writer, cold: Callable[[], Store]) -> None:
        rows = [SnapshotRow(seq, b"h" * 32, "r/1", 2, b"s" * 32, bytes([seq])) for seq in (5, 20, 10)]
        for row in rows:
            store.put_snapshot(NS, "run-1", row)
        assert cold().snapshots(NS, "run-1") == [rows[1], rows[2], rows[0]]
        store.delete_snapshot(NS, "run-1", 20)
        assert [row.seq for row in store.snapshots(NS, "run-1")] == [10, 5]
        assert store.snapshots(NS, "unknown") == []

    def test_snapshot_is_replaced(self, store: Store, writer: Writer) -> None:
        row = SnapshotRow(5, b"h" * 32, "r/1", 2, b"s" * 32, b"old")
        store.put_snapshot(NS, "run-1", row)
        store.put_snapshot(NS, "run-1", row._replace(blob=b"new"))
        assert [found.blob for found in store.snapshots(NS, "run-1")] == [b"new"]

    # Retention and erasure

    def operations(self, store: Store) -> Writer:
        return Writer(store, "operations", kind="operations")

    def full_run(self, store: Store, run: str = "run-1") -> Writer:
        writer = Writer(store, run)
        nodes = [NodeRow(b"n" * 32, b"node"), NodeRow(b"o" * 32, b"kept")]
        writer.append(*event_rows(1, 5, run), nodes=nodes)
        store.put_artifact(NS, b"a" * 32, b"artifact")
        store.put_artifact(NS, b"b" * 32, b"kept")
        store.inbox_put(NS, run, "key", b"payload", 1)
        store.put_snapshot(NS, run, SnapshotRow(3, b"h" * 32, "r/1", 1, b"s" * 32, b"state"))
        return writer

    def test_deleted_run_is_gone_and_recorded(self, store: Store, cold: Callable[[], Store]) -> None:
        self.full_run(store)
        kept = self.full_run(store, "kept")
        operations = self.operations(store)
        record = operations.pending(event_row(1, "operations"))
        store.delete_run(NS, "run-1", record, [b"n" * 32], [b"a" * 32])
        for seen in (store, cold()):
            assert seen.run_row(NS, "run-1") is None
            assert all_rows(seen) == []
            assert seen.inbox(NS, "run-1") == []
            assert seen.snapshots(NS, "run-1") == []
            assert seen.nodes(NS, [b"n" * 32, b"o" * 32]) == {b"o" * 32: b"kept"}
            assert seen.artifact(NS, b"a" * 32) is None
            assert list(seen.all_artifacts(NS)) == [b"b" * 32]
            assert len(all_rows(seen, "operations")) == 1
            assert len(all_rows(seen, "kept")) == 5
        kept.fill(1)

    def test_deletion_without_its_record_does_not_happen(self, store: Store) -> None:
        self.full_run(store)
        operations = self.operations(store)
        record = operations.pending(event_row(1, "operations"))
        for broken, error in (
            (record._replace(expected=Head(9, b"")), MovedHead),
            (record._replace(epoch=4), StaleEpoch),
            (record._replace(run="unknown"), NotFound),
        ):
            with pytest.raises(error):
                store.delete_run(NS, "run-1", broken, [b"n" * 32], [b"a" * 32])
        with pytest.raises(NotFound):
            store.delete_run(NS, "unknown", record, [], [])
        assert len(all_rows(store)) == 5
        assert store.artifact(NS, b"a" * 32) == b"artifact"
        assert store.nodes(NS, [b"n" * 32]) == {b"n" * 32: b"node"}
        assert all_rows(store, "operations") == []

    def test_deleted_run_can_be_made_again(self, store: Store) -> None:
        self.full_run(store)
        operations = self.operations(store)
        store.delete_run(NS, "run-1", operations.pending(event_row(1, "operations")), [], [])
        with pytest.raises(NotFound):
            store.append(NS, "run-1", [event_row(6)], expected=Head(5, event_row(5).hash), epoch=0)
        again = Writer(store, body=b"again")
        again.fill(2)
        assert [row.seq for row in all_rows(store)] == [1, 2]

    def test_erased_content_leaves_its_link(self, store: Store, cold: Callable[[], Store]) -> None:
        self.full_run(store)
        before = all_rows(store)
        operations = self.operations(store)
        record = operations.pending(event_row(1, "operations"))
        prefixes = [("run-1", seq, bytes([seq]) * 32) for seq in (2, 3, 4, 5)]
        store.erase_contents(NS, [("run-1", 2), ("run-1", 0)], prefixes, record, [b"n" * 32], [b"a" * 32])
        for seen in (store, cold()):
            expected = [row if row.seq == 1 else row._replace(prefix=bytes([row.seq]) * 32) for row in before]
            expected[1] = expected[1]._replace(content=None, salt=None, match=None)
            assert all_rows(seen) == expected
            row = seen.run_row(NS, "run-1")
            assert row is not None
            assert row.header == header_row()._replace(content=None, salt=None, match=None)
            assert seen.snapshots(NS, "run-1") == []
            assert seen.nodes(NS, [b"n" * 32, b"o" * 32]) == {b"o" * 32: b"kept"}
            assert seen.artifact(NS, b"a" * 32) is None
            assert len(all_rows(seen, "operations")) == 1

    def test_erasure_over_several_runs(self, store: Store) -> None:
        first, second = self.full_run(store), self.full_run(store, "second")
        operations = self.operations(store)
        record = operations.pending(event_row(1, "operations"))
        store.erase_contents(NS, [("run-1", 5), ("second", 1)], [], record, [], [])
        assert [row.content is None for row in all_rows(store)] == [False] * 4 + [True]
        assert [row.content is None for row in all_rows(store, "second")] == [True] + [False] * 4
        first.fill(1)
        second.fill(1)

    def test_erasure_twice(self, store: Store) -> None:
        self.full_run(store)
        operations = self.operations(store)
        for seq in (1, 2):
            row = event_row(seq, "operations")
            store.erase_contents(NS, [("run-1", 2)], [("run-1", 2, bytes([seq]) * 32)], operations.pending(row), [], [])
            operations.head = head_of([row])
        assert all_rows(store)[1].prefix == b"\x02" * 32
        assert all_rows(store)[1].content is None

    def test_erasure_without_its_record_does_not_happen(self, store: Store) -> None:
        self.full_run(store)
        before = all_rows(store)
        operations = self.operations(store)
        record = operations.pending(event_row(1, "operations"))
        with pytest.raises(MovedHead):
            store.erase_contents(
                NS, [("run-1", 2)], [], record._replace(expected=Head(3, b"")), [b"n" * 32], [b"a" * 32]
            )
        for missing in (("run-1", 99), ("unknown", 1), ("unknown", 0)):
            with pytest.raises(NotFound):
                store.erase_contents(NS, [("run-1", 2), missing], [], record, [b"n" * 32], [b"a" * 32])
        assert all_rows(store) == before
        assert store.nodes(NS, [b"n" * 32]) == {b"n" * 32: b"node"}
        assert store.artifact(NS, b"a" * 32) == b"artifact"
        assert len(store.snapshots(NS, "run-1")) == 1
        assert all_rows(store, "operations") == []

    def test_what_goes_is_chosen_while_nobody_else_appends(self, store: Store) -> None:
        writer = self.full_run(store)
        operations = self.operations(store)
        record = operations.pending(event_row(1, "operations"))
        others: list[threading.Thread] = []

        def chosen() -> Iterator[bytes]:
            others.append(threading.Thread(target=writer.fill, args=(1,)))
            others[0].start()
            others[0].join(0.1)
            assert others[0].is_alive()
            assert store.event(NS, "run-1", 6) is None
            assert len(list(store.all_nodes(NS))) == 2
            yield b"n" * 32

        store.erase_contents(NS, [("run-1", 1)], [], record, chosen(), iter([b"a" * 32]))
        others[0].join()
        assert len(all_rows(store)) == 6
        assert store.nodes(NS, [b"n" * 32, b"o" * 32]) == {b"o" * 32: b"kept"}
        assert store.artifact(NS, b"a" * 32) is None

    def test_artifact_can_be_put_again_after_erasure(self, store: Store) -> None:
        self.full_run(store)
        operations = self.operations(store)
        store.erase_contents(NS, [("run-1", 1)], [], operations.pending(event_row(1, "operations")), [], [b"a" * 32])
        store.put_artifact(NS, b"a" * 32, b"again")
        assert store.artifact(NS, b"a" * 32) == b"again"

    # Races

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
                [
                    partial(store.claim, NS, f"r{number}", "one", 60),
                    partial(other.claim, NS, f"r{number}", "two", 60),
                ]
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
        mine, its = Writer(store, "parent"), Writer(store, "child")
        mine.fill(2)
        its.fill(2)

        def child() -> None:
            its.fill(3)
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
