"""Namespaces: nothing of one is visible in another."""

from __future__ import annotations

from onrecord.store.contract import NodeRow, SnapshotRow, Store
from onrecord.testing.store_contract.builders import NS, Writer, all_rows, event_row, event_rows
from onrecord.testing.store_contract.hooks import StoreHooks


class Namespaces(StoreHooks):
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
            assert store.lane_event(other, "run-1", "main", 1) is None
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
