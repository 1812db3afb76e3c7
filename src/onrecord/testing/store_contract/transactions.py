"""Transactions that the user's own rows share with an append. Skipped for stores without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onrecord.errors import MovedHead, NotFound, StaleEpoch
from onrecord.store.contract import DuplicateIds, NodeRow, PendingAppend, Store, TransactionalStore
from onrecord.testing.store_contract.builders import NS, Writer, all_rows, event_row
from onrecord.testing.store_contract.hooks import StoreHooks


class Transactions(StoreHooks):
    def make_own_rows(self, connection: Any) -> None:
        """Write to a table of the user. Override it if the connection does not speak SQL."""
        connection.execute("CREATE TABLE IF NOT EXISTS guest_rows(number INTEGER)")
        connection.execute("INSERT INTO guest_rows VALUES(1)")

    def count_own_rows(self, connection: Any) -> int:
        connection.execute("CREATE TABLE IF NOT EXISTS guest_rows(number INTEGER)")
        return len(connection.execute("SELECT number FROM guest_rows").fetchall())

    @pytest.fixture
    def transacting(self, store: Store) -> TransactionalStore:
        if not isinstance(store, TransactionalStore):
            pytest.skip("this store has no transactions to share")
        return store

    def rows_of(self, store: Any) -> int:
        found: list[int] = []

        def look(connection: Any) -> PendingAppend:
            found.append(self.count_own_rows(connection))
            raise LookupError

        with pytest.raises(LookupError):
            store.transact(look)
        return found[0]

    def work(self, pending: PendingAppend) -> Callable[[Any], PendingAppend]:
        def work(connection: Any) -> PendingAppend:
            self.make_own_rows(connection)
            return pending

        return work

    def test_rows_and_events_are_there_together(
        self, transacting: TransactionalStore, store: Store, writer: Writer, cold: Callable[[], Store]
    ) -> None:
        node = NodeRow(b"n" * 32, b"blob")
        transacting.transact(self.work(writer.pending(event_row(1), event_row(2))._replace(nodes=[node])))
        other = cold()
        assert [row.seq for row in all_rows(other)] == [1, 2]
        assert other.nodes(NS, [node.address]) == {node.address: node.blob}
        assert self.rows_of(store) == 1

    def test_what_the_work_raises_undoes_everything(
        self, transacting: TransactionalStore, store: Store, writer: Writer
    ) -> None:
        raised = LookupError("mine")

        def work(connection: Any) -> PendingAppend:
            self.make_own_rows(connection)
            raise raised

        with pytest.raises(LookupError) as caught:
            transacting.transact(work)
        assert caught.value is raised
        assert self.rows_of(store) == 0
        writer.append(event_row(1))

    @pytest.mark.parametrize("refusal", [NotFound, DuplicateIds, StaleEpoch, MovedHead])
    def test_a_refused_append_undoes_the_rows(
        self, transacting: TransactionalStore, store: Store, writer: Writer, refusal: type[Exception]
    ) -> None:
        before = writer.pending(event_row(2))
        writer.append(event_row(1))
        pending = {
            NotFound: writer.pending(event_row(2))._replace(run="nobody"),
            DuplicateIds: writer.pending(event_row(1)),
            StaleEpoch: writer.pending(event_row(2))._replace(epoch=7),
            MovedHead: before,
        }[refusal]
        with pytest.raises(refusal):
            transacting.transact(self.work(pending))
        assert self.rows_of(store) == 0
        assert [row.seq for row in all_rows(store)] == [1]
