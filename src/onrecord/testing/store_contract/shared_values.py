"""Nodes and artifacts that events share, and snapshots."""

from __future__ import annotations

import os
from collections.abc import Callable

from onrecord.store.contract import NodeRow, SnapshotRow, Store
from onrecord.testing.store_contract.builders import NS, Writer, at_once, digest, event_row
from onrecord.testing.store_contract.hooks import StoreHooks


class SharedValues(StoreHooks):
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

    def test_only_the_artifacts_named_are_removed(self, store: Store, cold: Callable[[], Store]) -> None:
        for namespace, address in ((NS, b"a" * 32), (NS, b"b" * 32), ("other", b"a" * 32)):
            store.put_artifact(namespace, address, namespace.encode())
        store.remove_artifacts(NS, iter([b"a" * 32, b"never put" + b"." * 23]))
        store.remove_artifacts("unknown", [b"a" * 32])
        store.remove_artifacts(NS, [])
        for seen in (store, cold()):
            # A store may keep an artifact that it was asked to remove, but then unchanged.
            left = seen.artifact(NS, b"a" * 32)
            assert left in (None, NS.encode())
            assert (b"a" * 32 in seen.all_artifacts(NS)) == (left is not None)
            assert seen.artifact(NS, b"b" * 32) == NS.encode()
            assert seen.artifact("other", b"a" * 32) == b"other"

    def test_removed_artifact_can_be_put_again(self, store: Store) -> None:
        store.put_artifact(NS, b"a" * 32, b"data")
        store.remove_artifacts(NS, [b"a" * 32])
        store.put_artifact(NS, b"a" * 32, b"data")
        assert store.artifact(NS, b"a" * 32) == b"data"

    def test_same_artifact_from_many_threads(self, store: Store) -> None:
        results = at_once([lambda: store.put_artifact(NS, b"a" * 32, b"x" * 100_000)] * 8)
        assert results == [None] * 8
        assert store.artifact(NS, b"a" * 32) == b"x" * 100_000
        assert list(store.all_artifacts(NS)) == [b"a" * 32]

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
