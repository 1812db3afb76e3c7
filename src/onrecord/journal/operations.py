"""The operations journal of a namespace: facts about runs that may not, or no longer, be appended to them.

Examples: retired runs, erased contents, late resolutions, abandoned attempts, rotated keys. It is a chain like any
other. Any process appends under an expected head, without a lease, and it never ends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from onrecord.core.events import Event
from onrecord.core.links import OPERATIONS_RUN, check_namespace
from onrecord.errors import MovedHead, RunExists
from onrecord.journal.chain import Draft
from onrecord.journal.create import create_header
from onrecord.journal.journal import Journal
from onrecord.journal.reader import SequencedEvent
from onrecord.journal.sources import Sources, SystemSources
from onrecord.store.contract import PendingAppend, Store

MAX_ATTEMPTS = 100
NO_LEASE_EPOCH = 0


class OperationsJournal(Journal):
    """The journal that `open_for` opens, or creates if the namespace has none."""

    @classmethod
    def open_for(cls, store: Store, namespace: str = "default", *, sources: Sources | None = None) -> OperationsJournal:
        check_namespace(namespace)
        sources = sources or SystemSources()
        if store.run_row(namespace, OPERATIONS_RUN) is None:
            with suppress(RunExists):  # another process may create it at the same moment
                create_header(store, OPERATIONS_RUN, namespace, {}, kind="operations", sources=sources)
        return cls(store, OPERATIONS_RUN, namespace, epoch=NO_LEASE_EPOCH, sources=sources)

    def note(self, event: Event) -> SequencedEvent:
        """Append one event, and retry if another process was faster."""
        for _ in range(MAX_ATTEMPTS):
            try:
                return self.append(event)[0]
            except MovedHead:
                self._read_tail()
        return self.append(event)[0]

    def append_with(self, event: Event, act: Callable[[PendingAppend], None]) -> None:
        """Call `act` with the linked event; its store verb appends it in the same transaction."""
        for attempt in range(MAX_ATTEMPTS):
            linked = self._link_one(event)
            try:
                act(linked)
            except MovedHead:
                self._chain.undo()
                self._read_tail()
                if attempt == MAX_ATTEMPTS - 1:
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
