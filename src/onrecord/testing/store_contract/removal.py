"""Retention and erasure: only with their record, and exactly what was requested."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from onrecord.errors import MovedHead, NotFound, StaleEpoch
from onrecord.store.contract import Head, NodeRow, SnapshotRow, Store
from onrecord.testing.store_contract.builders import NS, Writer, all_rows, event_row, event_rows, head_of, header_row
from onrecord.testing.store_contract.hooks import StoreHooks


class Removal(StoreHooks):
    def operations(self, store: Store) -> Writer:
        return Writer(store, "operations", kind="operations")

    def make_full_run(self, store: Store, run: str = "run-1") -> Writer:
        writer = Writer(store, run)
        nodes = [NodeRow(b"n" * 32, b"node"), NodeRow(b"o" * 32, b"kept")]
        writer.append(*event_rows(1, 5, run), nodes=nodes)
        store.put_artifact(NS, b"a" * 32, b"artifact")
        store.put_artifact(NS, b"b" * 32, b"kept")
        store.inbox_put(NS, run, "key", b"payload", 1)
        store.put_snapshot(NS, run, SnapshotRow(3, b"h" * 32, "r/1", 1, b"s" * 32, b"state"))
        return writer

    def test_deleted_run_is_gone_and_recorded(self, store: Store, cold: Callable[[], Store]) -> None:
        self.make_full_run(store)
        kept = self.make_full_run(store, "kept")
        record = self.operations(store).pending(event_row(1, "operations"))
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
        self.make_full_run(store)
        record = self.operations(store).pending(event_row(1, "operations"))
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
        self.make_full_run(store)
        store.delete_run(NS, "run-1", self.operations(store).pending(event_row(1, "operations")), [], [])
        with pytest.raises(NotFound):
            store.append(NS, "run-1", [event_row(6)], expected=Head(5, event_row(5).hash), epoch=0)
        again = Writer(store, body=b"again")
        again.fill(2)
        assert [row.seq for row in all_rows(store)] == [1, 2]

    def test_erased_content_leaves_its_link(self, store: Store, cold: Callable[[], Store]) -> None:
        self.make_full_run(store)
        before = all_rows(store)
        record = self.operations(store).pending(event_row(1, "operations"))
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
        first, second = self.make_full_run(store), self.make_full_run(store, "second")
        record = self.operations(store).pending(event_row(1, "operations"))
        store.erase_contents(NS, [("run-1", 5), ("second", 1)], [], record, [], [])
        assert [row.content is None for row in all_rows(store)] == [False] * 4 + [True]
        assert [row.content is None for row in all_rows(store, "second")] == [True] + [False] * 4
        first.fill(1)
        second.fill(1)

    def test_erasure_twice(self, store: Store) -> None:
        self.make_full_run(store)
        operations = self.operations(store)
        for seq in (1, 2):
            row = event_row(seq, "operations")
            store.erase_contents(NS, [("run-1", 2)], [("run-1", 2, bytes([seq]) * 32)], operations.pending(row), [], [])
            operations.head = head_of([row])
        assert all_rows(store)[1].prefix == b"\x02" * 32
        assert all_rows(store)[1].content is None

    def test_exactly_the_inboxes_named_are_emptied(self, store: Store, cold: Callable[[], Store]) -> None:
        for run in ("run-1", "second", "third", "fourth"):
            self.make_full_run(store, run)
        store.create_run("other", header_row("second"))
        store.inbox_put("other", "second", "key", b"payload", 1)
        record = self.operations(store).pending(event_row(1, "operations"))
        store.erase_contents(NS, [("run-1", 2), ("third", 2)], [], record, [], [], inboxes=["second", "third"])
        for seen in (store, cold()):
            counts = {run: len(seen.inbox(NS, run)) for run in ("run-1", "second", "third", "fourth")}
            assert counts == {"run-1": 1, "second": 0, "third": 0, "fourth": 1}
            assert len(seen.inbox("other", "second")) == 1
            assert [row.content is None for row in all_rows(seen, "second")] == [False] * 5
            assert len(all_rows(seen, "operations")) == 1
        assert store.inbox_put(NS, "second", "key", b"again", 2).payload == b"again"

    def test_inboxes_stay_when_the_erasure_does_not_happen(self, store: Store) -> None:
        self.make_full_run(store)
        record = self.operations(store).pending(event_row(1, "operations"))
        broken = record._replace(expected=Head(3, b""))
        with pytest.raises(MovedHead):
            store.erase_contents(NS, [], [], broken, [], [], inboxes=["run-1"])
        with pytest.raises(NotFound):
            store.erase_contents(NS, [], [], record, [], [], inboxes=["run-1", "unknown"])
        assert [row.payload for row in store.inbox(NS, "run-1")] == [b"payload"]
        assert all_rows(store, "operations") == []

    def test_erasure_without_its_record_does_not_happen(self, store: Store) -> None:
        self.make_full_run(store)
        before = all_rows(store)
        record = self.operations(store).pending(event_row(1, "operations"))
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
        writer = self.make_full_run(store)
        record = self.operations(store).pending(event_row(1, "operations"))
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
        self.make_full_run(store)
        record = self.operations(store).pending(event_row(1, "operations"))
        store.erase_contents(NS, [("run-1", 1)], [], record, [], [b"a" * 32])
        store.put_artifact(NS, b"a" * 32, b"again")
        assert store.artifact(NS, b"a" * 32) == b"again"
