"""Runs: headers, listings, imports of whole runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from onrecord.errors import InvalidInput, RunExists
from onrecord.store.contract import EventRow, HeaderRow, NodeRow, Store
from onrecord.testing.store_contract.builders import NS, Writer, all_rows, digest, event_row, event_rows, header_row
from onrecord.testing.store_contract.hooks import StoreHooks


class Runs(StoreHooks):
    def test_says_what_it_is(self, store: Store) -> None:
        assert "://" in store.url
        assert store.durability in ("full", "relaxed")

    def test_private_url_opens_the_same_data(self, store: Store, writer: Writer, cold: Callable[[], Store]) -> None:
        if cold() is store:
            pytest.skip("no other process can open this store")
        rows = writer.fill(2)
        other = self.open_url(store.private_url)
        try:
            assert other is not store
            assert all_rows(other) == rows
            other.append(NS, "run-1", [event_row(3)], expected=writer.head, epoch=0)
        finally:
            other.close()
        assert [row.seq for row in all_rows(store)] == [1, 2, 3]

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
