"""Appending in one transaction with rows of the user's own, so that both are there or neither is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from reenact.errors import InvalidInput
from reenact.journal.chain import Draft, Linked
from reenact.journal.journal import Journal
from reenact.journal.reader import SequencedEvent
from reenact.store.contract import PendingAppend, Store, TransactionalStore


def transactional(store: Store) -> TransactionalStore:
    """The store, if it can do that."""
    if not isinstance(store, TransactionalStore):
        raise InvalidInput(
            f"the store {store.url} has no transactions that a step could write in",
            hint="Use a SQLite or Postgres store, or a step without transactional=True.",
            code="no_transactions",
        )
    return store


def append_in_transaction(journal: Journal, work: Callable[[Any], Sequence[Draft]]) -> list[SequencedEvent]:
    """Calls `work` with the database connection and appends what it returns, in one durable transaction.

    What `work` raises comes out as it is, and nothing was written. Nobody else appends to the run meanwhile.
    """
    store = transactional(journal.store)
    linked: Linked | None = None

    def inside(connection: Any) -> PendingAppend:
        nonlocal linked
        drafts = work(connection)
        linked = journal.prepare(drafts, None)
        return PendingAppend(journal.namespace, journal.run, linked.rows, linked.before, journal.epoch, linked.nodes)

    with journal.appending():
        try:
            store.transact(inside)
        except BaseException as error:
            if linked is None:
                raise
            journal.not_appended(linked, error)
        assert linked is not None
        journal.appended(linked, True)
        return linked.sequenced
