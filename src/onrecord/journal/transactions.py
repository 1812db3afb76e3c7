"""Append in one transaction with the user's own rows, so that both are written or neither."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onrecord.errors import InvalidInput
from onrecord.journal.chain import Draft, Linked
from onrecord.journal.journal import Journal
from onrecord.journal.reader import SequencedEvent
from onrecord.store.contract import PendingAppend, Store, TransactionalStore


def require_transactions(store: Store) -> TransactionalStore:
    """Return the store if it supports user transactions, else raise InvalidInput."""
    if not isinstance(store, TransactionalStore):
        raise InvalidInput(
            f"the store {store.url} has no transactions for steps",
            hint="Use a SQLite or Postgres store, or a step without transactional=True.",
            code="no_transactions",
        )
    return store


def append_in_transaction(journal: Journal, work: Callable[[Any], Sequence[Draft]]) -> list[SequencedEvent]:
    """Call `work` with the database connection and append the drafts it returns, in one durable transaction.

    If `work` raises, nothing is written and the error is raised unchanged. No other append to the run happens
    meanwhile.
    """
    store = require_transactions(journal.store)
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
            journal.fail_append(linked, error)
        assert linked is not None
        journal.confirm_append(linked, True)
        return linked.sequenced
