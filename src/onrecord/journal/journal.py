"""Writing a run: the one handle that may append, under a lease.

Rules:

1. Only the holder of the run's lease appends; the store checks the epoch and the head inside the append.
2. A batch is appended whole or not at all. What `append` returned is durable (unless `sync=False`, which survives the
   process only).
3. The same event id with the same content again is answered with what is there, before anything else is looked at;
   with other content it is refused.
4. After an append whose result is unknown the handle is poisoned: `reopen` reads the tail, checks it, and brings back
   what was not synced.
5. Everybody else talks to a run through its inbox (`reenact.journal.inbox`), first writer wins; the holder folds it in.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reenact.core.canonical import stored_bytes
from reenact.core.codec import encode
from reenact.core.events import ANSWERS, OPENING_KINDS, TERMINAL_KINDS, Event, event_from_content
from reenact.core.hashing import SALT_BYTES
from reenact.core.links import (
    OPERATIONS_RUN,
    ParentRun,
    check_namespace,
    check_run_id,
)
from reenact.core.matching import VolatilePath
from reenact.core.state import Reducer, StateUpdatedOnlyReducer
from reenact.errors import (
    ClosedRun,
    ConflictingDuplicate,
    Damaged,
    InvalidInput,
    MovedHead,
    OutcomeUnknown,
    Poisoned,
    ReenactError,
    Refused,
    StaleEpoch,
)
from reenact.journal.beginning import LEASE_SECONDS, claim_run, create_header
from reenact.journal.chain import Chain, Draft, LaneEnd, Linked
from reenact.journal.reader import JournalReader, SequencedEvent
from reenact.journal.sources import Sources, SystemSources
from reenact.store.contract import DuplicateIds, EventRow, Head, NodeRow, Store

if TYPE_CHECKING:
    from reenact.journal.overlapping import CommitQueue

_STATE_MEMBERS = ("before", "after")


class Journal(JournalReader):
    """A run that is being written. Made by `create` and `open`."""

    def __init__(
        self,
        store: Store,
        run: str,
        namespace: str,
        *,
        epoch: int,
        reducer: Reducer | None = None,
        sources: Sources | None = None,
        fresh: bool = False,
    ) -> None:
        super().__init__(store, run, namespace)
        self.epoch = epoch
        self._sources = sources or SystemSources()
        self._reducer = reducer
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._id_nonce = self._sources.entropy(10).hex()
        self._poisoned = False
        self.in_flight = False
        """An append of a task is under way."""
        self.commit_queue: CommitQueue | None = None
        """Where appends of tasks went last."""
        self._unsynced: list[tuple[list[EventRow], list[NodeRow]]] = []
        if (reducer.id if reducer else StateUpdatedOnlyReducer.id) != self.header.reducer:
            raise InvalidInput(
                f"run {run} was recorded with the reducer {self.header.reducer!r}",
                hint="Give the same reducer to Journal.open; a changed rule is another run.",
                code="other_reducer",
            )
        self._chain = Chain(run, Head(0, self.header_row.hash), self.rules(), reducer)
        self._synced = self._chain.head
        """The last event that this handle knows to be on the disk."""
        self._history_known = self._lanes_known = fresh
        self._later_lanes_known = False
        if not fresh:
            self._read_tail()

    @classmethod
    def create(
        cls,
        store: Store,
        run: str | None = None,
        namespace: str = "default",
        *,
        facts: Mapping[str, Any] | None = None,
        parent: ParentRun | None = None,
        volatile: Sequence[VolatilePath] = (),
        reducer: Reducer | None = None,
        sources: Sources | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> Journal:
        """Begins a run. Without an id it gets a random one."""
        sources = sources or SystemSources()
        run = check_run_id(run) if run is not None else sources.entropy(10).hex()
        check_namespace(namespace)
        if run == OPERATIONS_RUN:
            raise InvalidInput("`operations` is the name of the operations journal, not of a run", code="bad_run_id")
        create_header(
            store,
            run,
            namespace,
            dict(facts or {}),
            reducer=reducer.id if reducer is not None else StateUpdatedOnlyReducer.id,
            parent=parent,
            volatile=volatile,
            sources=sources,
        )
        epoch = claim_run(store, namespace, run, sources, lease_seconds)
        return cls(store, run, namespace, epoch=epoch, reducer=reducer, sources=sources, fresh=True)

    @classmethod
    def open(
        cls,
        store: Store,
        run: str,
        namespace: str = "default",
        *,
        reducer: Reducer | None = None,
        sources: Sources | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> Journal:
        """Takes an existing run over. Refused (`run_busy`) while another live process holds it."""
        sources = sources or SystemSources()
        if JournalReader(store, run, namespace).imported:
            raise Refused(
                f"run {run} was recorded elsewhere and cannot be continued here",
                hint="Fork it, and go on with the fork.",
                code="imported_run",
            )
        epoch = claim_run(store, namespace, run, sources, lease_seconds)
        return cls(store, run, namespace, epoch=epoch, reducer=reducer, sources=sources)

    # Appending. `prepare`, `appended` and `not_appended` decide; `append` and `overlapping.append_from_task` do the
    # rest.

    def append(
        self,
        events: Event | Draft | Sequence[Event | Draft],
        *,
        expected: Head | None = None,
        sync: bool = True,
    ) -> list[SequencedEvent]:
        """Appends a batch, all or nothing.

        `expected` is the head the caller decided on; by default the one this handle knows.
        """
        drafts = as_drafts(events)
        with self._lock:
            existing = self.known_ids(drafts, sync)
            return existing if existing is not None else self.append_new(drafts, expected, sync).sequenced

    def append_new(self, drafts: Sequence[Draft], expected: Head | None, sync: bool) -> Linked:
        """`append` of what is known to be drafts of events, at least one, and without ids."""
        with self._lock:
            if self._poisoned or self.in_flight or os.getpid() != self._pid:
                self.check_usable()
            linked = self.prepare(drafts, expected)
            try:
                self.store.append(
                    self.namespace,
                    self.run,
                    linked.rows,
                    expected=linked.before,
                    epoch=self.epoch,
                    nodes=linked.nodes,
                    sync=sync,
                )
            except BaseException as error:
                self.not_appended(linked, error)
            self.appended(linked, sync)
            return linked

    async def append_async(
        self, events: Event | Draft | Sequence[Event | Draft], *, expected: Head | None = None
    ) -> list[SequencedEvent]:
        """`append` for a task: the loop goes on meanwhile, and appends of other runs share the commit.

        Once begun it is not cancelled: a cancellation is delivered when the result is known.
        """
        # Loaded with the first use: asyncio is slow to import, and many programs have no tasks.
        from reenact.journal.overlapping import append_from_task

        return await append_from_task(self, as_drafts(events), expected)

    @contextmanager
    def appending(self) -> Iterator[None]:
        """For `transactions`: nobody else appends meanwhile, and what linking has to know has been read."""
        with self._lock:
            self.check_usable()
            if not self._history_known:
                self._read_history()
            yield

    def prepare(self, drafts: Sequence[Draft], expected: Head | None) -> Linked:
        """The rows of the batch; its artifacts are safe, the chain has moved on and can still go back."""
        if expected is not None and expected != self._chain.head:
            self._refresh_if_moved(expected)
        if not self._history_known and any(_needs_history(draft, self._reducer) for draft in drafts):
            self._read_history()
        if not self._lanes_known and any(map(self._needs_lanes, drafts)):
            self._read_lanes(self.store.lanes(self.namespace, self.run, self._chain.head.seq + 1))
            self._lanes_known = True
        linked = self._chain.link(drafts, self._sources, self._new_id)
        if linked.artifacts:
            try:
                for address, data in linked.artifacts.items():
                    self.store.put_artifact(self.namespace, address, data)
            except BaseException:
                self._chain.undo()
                raise
        return linked

    def appended(self, linked: Linked, sync: bool) -> None:
        self._chain.keep()
        if sync:
            if self._unsynced:
                self._unsynced.clear()
            self._synced = self._chain.head
        else:
            self._unsynced.append((linked.rows, linked.nodes))

    def not_appended(self, linked: Linked, error: BaseException) -> None:
        """Raises what the caller is to see; returns when the very same rows are there already."""
        if isinstance(error, DuplicateIds) and [row.link for row in error.rows] == [row.link for row in linked.rows]:
            return
        self._chain.undo()
        if isinstance(error, DuplicateIds):
            raise ConflictingDuplicate(f"run {self.run} has an event with that id and other content") from None
        if isinstance(error, MovedHead):
            self._raise_closed_if_ended()
        # An interrupt may come before or after the commit: that is an unknown result like any other.
        self._poisoned = isinstance(error, OutcomeUnknown) or not isinstance(error, ReenactError)
        raise error

    def known_ids(self, drafts: Sequence[Draft], sync: bool) -> list[SequencedEvent] | None:
        for draft in drafts:
            if draft.id is not None:
                self.check_usable()
                existing = self._already_there(drafts)
                if existing is not None and sync:  # it may have been appended without
                    self.store.sync()
                return existing
        return None

    def _already_there(self, drafts: Sequence[Draft]) -> list[SequencedEvent] | None:
        """What the store has under these ids when all of it is the same; None when none of them is there."""
        ids = [draft.id for draft in drafts if draft.id is not None]
        if len(set(ids)) != len(ids):
            raise ConflictingDuplicate("two events of one batch have the same id")
        rows = self.store.events_by_id(self.namespace, self.run, ids)
        if not rows:
            return None
        by_id = {row.id: row for row in rows}
        if len(rows) != len(drafts) or any(draft.id not in by_id for draft in drafts):
            raise ConflictingDuplicate(f"some but not all events of the batch are in run {self.run} already")
        found = [self.sequenced(by_id[str(draft.id)]) for draft in drafts]
        for draft in drafts:
            row = by_id[str(draft.id)]
            if row.kind != draft.event.kind or not self._same_content(draft, row):
                raise ConflictingDuplicate(
                    f"event id {row.id} exists at seq {row.seq} of run {self.run} with other content"
                )
        return found

    def _same_content(self, draft: Draft, row: EventRow) -> bool:
        recorded = self.content_tree(row, self.link(row))
        tree = encode(draft.event.content()).tree
        if recorded is None:
            return False
        # State links are under the salt of their own event; everything else has to be the same to the byte.
        return stored_bytes(_without_state_links(tree)) == stored_bytes(_without_state_links(recorded))

    def _refresh_if_moved(self, expected: Head) -> None:
        actual = self.head()
        if actual != expected:
            self._raise_closed_if_ended()
            raise MovedHead(f"run {self.run} stands at seq {actual.seq}, the append was decided at seq {expected.seq}")
        self._read_tail()

    def _raise_closed_if_ended(self) -> None:
        last = self.store.last_event(self.namespace, self.run)
        if last is not None and last.kind in TERMINAL_KINDS:
            raise ClosedRun(f"run {self.run} ended with {last.kind} at seq {last.seq}; nothing follows it")

    @property
    def known_head(self) -> Head:
        """Where this handle believes the run to stand, without asking the store."""
        return self._chain.head

    @property
    def position(self) -> int:
        """The seq of the last event that this handle knows of."""
        return self._chain.head.seq

    def check_usable(self) -> None:
        if self.in_flight:
            raise Refused(
                f"an append of a task to run {self.run} is under way",
                hint="Use append_async for all appends of a run that tasks append to.",
                code="append_in_flight",
            )
        if self._poisoned:
            raise Poisoned(f"the result of an earlier append to run {self.run} is unknown")
        if os.getpid() != self._pid:
            raise Refused(
                f"this handle of run {self.run} belongs to the process that opened it",
                hint="A forked child writes a run of its own.",
                code="forked_handle",
            )

    def new_salt(self) -> bytes:
        return self._sources.entropy(SALT_BYTES)

    def _new_id(self, now_us: int, seq: int) -> str:
        # Unique by its nonce, and within the run by its seq alone: a store needs no index to find it.
        return f"_{now_us:x}{self._id_nonce}_{seq:x}"

    # The handle's idea of the run

    def _read_tail(self) -> None:
        last = self.store.last_event(self.namespace, self.run)
        chain = Chain(self.run, Head(0, self.header_row.hash), self.rules(), self._reducer)
        if last is not None:
            self.link(last)
            chain.head = Head(last.seq, last.hash)
            chain.closed_by = last.kind if last.kind in TERMINAL_KINDS else None
        self._chain = chain
        self._synced = chain.head
        self._history_known = False
        self._lanes_known = self._later_lanes_known = False

    def _read_lanes(self, rows: Iterable[EventRow]) -> None:
        """Where each lane ends. Read once, when an event of a lane is first to be written."""
        for row in rows:
            if row.lane_seq is None or row.prefix is None:
                raise Damaged(f"event {row.seq} of run {self.run} has no place in its lane", code="bad_lane")
            self._chain.lanes.setdefault(row.lane, LaneEnd(row.lane_seq, row.prefix))

    def _needs_lanes(self, draft: Draft) -> bool:
        if not draft.event.behavioural or draft.lane in self._chain.lanes:
            return False
        return not self._later_lanes_known or draft.lane == "0"

    def know_lanes(self, position: int, rows: Iterable[EventRow]) -> None:
        """Spares looking for the ends of lanes: whoever has read the run from a checkpoint up to `position` has found
        those of all lanes that go on, but for that of the first."""
        with self._lock:
            if not self._lanes_known and position == self._chain.head.seq:
                self._read_lanes(rows)
                self._later_lanes_known = True

    def _read_history(self) -> None:
        """Finds open requests and the last state. Read once, when an event first depends on it."""
        if self._reducer is not None:
            self._observe(self.store.scan(self.namespace, self.run, 1, self._chain.head.seq + 1))
        else:
            self._observe(self._open_and_last_state())

    def know_history(self, position: int, rows: Sequence[EventRow]) -> None:
        """Spares looking for it: whoever has just read the run up to `position` has found the requests that were never
        answered, and the last state."""
        with self._lock:
            if not self._history_known and self._reducer is None and position == self._chain.head.seq:
                self._observe(rows)

    def _observe(self, rows: Iterable[EventRow]) -> None:
        for row in rows:
            link = self.link(row)
            tree = self.content_tree(row, link)
            event = None if tree is None else event_from_content(row.kind, self.decoded(tree))
            self._chain.observe(row, link.parent, event)
        self._history_known = True

    def _open_and_last_state(self) -> list[EventRow]:
        """The few events of the past that matter: what was never answered, and the last state. Found without opening
        a content."""
        wanted: dict[int, int] = {}
        state = 0
        for row in self.store.scan(self.namespace, self.run, 1, self._chain.head.seq + 1, contents=False):
            if row.kind in OPENING_KINDS:
                wanted[row.seq] = row.seq
            elif row.kind in ANSWERS:
                wanted.pop(self.link(row).parent or 0, None)
            elif row.kind == "StateUpdated":
                state = row.seq
        found = [self.store.event(self.namespace, self.run, seq) for seq in sorted({*wanted, *({state} - {0})})]
        return [row for row in found if row is not None]

    def reopen(self) -> None:
        """After an unknown result: reads the tail, checks it, and appends again what was never synced."""
        with self._lock:
            row = self.store.run_row(self.namespace, self.run)
            if row is None or row.header.hash != self.header_row.hash:
                raise Damaged(f"run {self.run} is gone or another run stands in its place", code="regressed")
            actual = self.head()
            if actual.seq < self._synced.seq:
                raise Damaged(
                    f"run {self.run} stands at seq {actual.seq}; seq {self._synced.seq} was acknowledged",
                    code="regressed",
                )
            self._check_link_at(self._synced)
            self._restore_unsynced(actual)
            self._read_tail()
            self._poisoned = False

    def _check_link_at(self, known: Head) -> None:
        if known.seq == 0:
            return
        row = self.store.event(self.namespace, self.run, known.seq)
        if row is None or row.hash != known.hash:
            raise Damaged(f"event {known.seq} of run {self.run} is not the one acknowledged", code="regressed")

    def _restore_unsynced(self, actual: Head) -> None:
        for rows, nodes in self._unsynced:
            if rows[-1].seq <= actual.seq:
                continue
            before = Head(actual.seq, actual.hash)
            self.store.append(self.namespace, self.run, rows, expected=before, epoch=self.epoch, nodes=nodes, sync=True)
            actual = Head(rows[-1].seq, rows[-1].hash)
        self._unsynced.clear()

    # Leases and the inbox

    def renew(self, lease_seconds: float = LEASE_SECONDS) -> None:
        """Keeps hold of the run. Refused when somebody else has had it meanwhile, also if it is free again: what this
        handle knows of it is out of date."""
        epoch = claim_run(self.store, self.namespace, self.run, self._sources, lease_seconds)
        if epoch != self.epoch:
            self.store.release(self.namespace, self.run, epoch)
            raise StaleEpoch(f"run {self.run} is at epoch {epoch}, this writer has epoch {self.epoch}")

    def release(self) -> None:
        """Lets go of the run, so that another process need not wait for the lease to end."""
        if os.getpid() != self._pid:
            return  # a forked child has nothing to give away
        self.store.release(self.namespace, self.run, self.epoch)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def as_drafts(events: Event | Draft | Sequence[Event | Draft]) -> list[Draft]:
    if isinstance(events, Event):
        return [Draft(events)]
    if isinstance(events, Draft):
        events = (events,)
    drafts = [event if isinstance(event, Draft) else Draft(event) for event in events]
    for draft in drafts:
        if not isinstance(draft.event, Event):
            raise InvalidInput(
                "what is appended are events",
                hint="Give one of reenact's event classes, a Draft of one, or a list of them.",
                code="not_an_event",
            )
    if not drafts:
        raise InvalidInput("an append needs at least one event", code="empty_append")
    return drafts


def _needs_history(draft: Draft, reducer: Reducer | None) -> bool:
    kind = draft.event.kind
    return reducer is not None or kind == "StateUpdated" or kind in ANSWERS or kind in OPENING_KINDS


def _without_state_links(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tree.items() if name not in _STATE_MEMBERS}


__all__ = ["LEASE_SECONDS", "Draft", "Journal"]
