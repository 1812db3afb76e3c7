"""The operations journal of a namespace: what concerns a run and may not, or may no longer, enter it.

Retired runs, erased contents, late resolutions, abandoned attempts, rotated keys. It is a chain like any other,
written by anybody under an expected head (nobody holds a lease on it), and it never ends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from reenact.core.events import Event
from reenact.core.links import OPERATIONS_RUN, check_namespace
from reenact.errors import MovedHead, RunExists
from reenact.journal.beginning import create_header
from reenact.journal.chain import Draft
from reenact.journal.journal import Journal
from reenact.journal.reader import SequencedEvent
from reenact.journal.sources import Sources, SystemSources
from reenact.store.contract import PendingAppend, Store

MAX_TRIES = 100
NO_LEASE_EPOCH = 0


class OperationsJournal(Journal):
    """Made by `open`, which begins it when the namespace has none."""

    @classmethod
    def open_for(cls, store: Store, namespace: str = "default", *, sources: Sources | None = None) -> OperationsJournal:
        check_namespace(namespace)
        sources = sources or SystemSources()
        if store.run_row(namespace, OPERATIONS_RUN) is None:
            with suppress(RunExists):  # somebody else may begin it at the same moment
                create_header(store, OPERATIONS_RUN, namespace, {}, kind="operations", sources=sources)
        return cls(store, OPERATIONS_RUN, namespace, epoch=NO_LEASE_EPOCH, sources=sources)

    def note(self, event: Event) -> SequencedEvent:
        """Appends one event, going on behind whoever was faster."""
        for _ in range(MAX_TRIES):
            try:
                return self.append(event)[0]
            except MovedHead:
                self._read_tail()
        return self.append(event)[0]

    def together_with(self, event: Event, act: Callable[[PendingAppend], None]) -> None:
        """Does `act` with the event's rows, which the store appends in the same transaction."""
        for attempt in range(MAX_TRIES):
            linked = self._link_one(event)
            try:
                act(linked)
            except MovedHead:
                self._chain.undo()
                self._read_tail()
                if attempt == MAX_TRIES - 1:
                    raise
                continue
            except BaseException:
                self._chain.undo()
                raise
            self._chain.keep()
            return

    def _link_one(self, event: Event) -> PendingAppend:
        linked = self._chain.link([Draft(event)], self._sources, self._new_id)
        for address, data in linked.artifacts.items():
            self.store.put_artifact(self.namespace, address, data)
        return PendingAppend(self.namespace, self.run, linked.rows, linked.before, NO_LEASE_EPOCH, linked.nodes)
