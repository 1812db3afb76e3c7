"""Writing a run: the one handle that may append, under a lease.

Rules:

1. Only the holder of the run's lease appends; the store checks the epoch and the head inside the append.
2. A batch is appended whole or not at all. When `append` returns, the events are durable (with `sync=False` they
   survive the process, but not the machine).
3. An event id that exists with the same content returns the recorded event before any other check; with other content
   it is refused.
4. After an append whose result is unknown the handle is poisoned: `reopen` reads the tail, checks it, appends again
   what was not synced, and says whether that append was committed.
5. Other processes write to the run's inbox (`onrecord.journal.inbox`); the first writer of a key wins, and the holder
   appends events for its messages.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onrecord.core.canonical import stored_bytes
from onrecord.core.codec import encode
from onrecord.core.events import ANSWERS, OPENING_KINDS, TERMINAL_KINDS, Event, read_event
from onrecord.core.hashing import SALT_BYTES
from onrecord.core.lane_names import ROOT_LANE
from onrecord.core.links import OPERATIONS_RUN, ParentRun, check_namespace, check_run_id
from onrecord.core.matching import VolatilePath
from onrecord.core.state import Reducer, StateUpdatedOnlyReducer
from onrecord.errors import (
    ClosedRun,
    ConflictingDuplicate,
    Damaged,
    InvalidInput,
    MovedHead,
    OnrecordError,
    OutcomeUnknown,
    Poisoned,
    Refused,
    StaleEpoch,
)
from onrecord.journal.chain import Chain, Draft, LaneEnd, Linked
from onrecord.journal.create import LEASE_SECONDS, claim_run, create_header
from onrecord.journal.reader import JournalReader, SequencedEvent
from onrecord.journal.sources import Sources, SystemSources
from onrecord.store.contract import DuplicateIds, EventRow, Head, NodeRow, Store

if TYPE_CHECKING:
    from onrecord.journal.async_append import CommitQueue

_STATE_MEMBERS = ("before", "after")


class Journal(JournalReader):
    """A run that is being written. Use `create` or `open`."""

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
        self._unknown: Linked | None = None
        """The append whose result is unknown."""
        self.in_flight = False
        """True while a task's append is in progress."""
        self.commit_queue: CommitQueue | None = None
        """The queue of the last append from a task."""
        self._unsynced: list[tuple[list[EventRow], list[NodeRow]]] = []
        if (reducer.id if reducer else StateUpdatedOnlyReducer.id) != self.header.reducer:
            raise InvalidInput(
                f"run {run} was recorded with the reducer {self.header.reducer!r}",
                hint="Give the same reducer to Journal.open; a changed rule is another run.",
                code="other_reducer",
            )
        self._chain = Chain(run, Head(0, self.header_row.hash), self.rules(), reducer)
        self._synced = self._chain.head
        """The last event that this handle knows to be on disk."""
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
        """Create a run. Without an id it gets a random one."""
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
        """Claim an existing run. Refused (`run_busy`) while another live process holds it."""
        sources = sources or SystemSources()
        if JournalReader(store, run, namespace).imported:
            raise Refused(
                f"run {run} was recorded elsewhere and cannot be continued here",
                hint="Fork it and continue the fork.",
                code="imported_run",
            )
        epoch = claim_run(store, namespace, run, sources, lease_seconds)
        return cls(store, run, namespace, epoch=epoch, reducer=reducer, sources=sources)

    # `prepare`, `confirm_append` and `fail_append` decide; `append` and `append_from_task` do the I/O.

    def append(
        self, events: Event | Draft | Sequence[Event | Draft], *, expected: Head | None = None, sync: bool = True
    ) -> list[SequencedEvent]:
        """Append a batch, all or nothing.

        `expected` is the head on which the caller's decision is based; by default the one that this handle knows.
        """
        drafts = make_drafts(events)
        with self._lock:
            existing = self.find_known_ids(drafts, sync)
            return existing if existing is not None else self.append_new(drafts, expected, sync).sequenced

    def append_new(self, drafts: Sequence[Draft], expected: Head | None, sync: bool) -> Linked:
        """Append at least one draft, all without ids: unlike `append`, this does not look for existing events."""
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
                self.fail_append(linked, error)
            self.confirm_append(linked, sync)
            return linked

    async def append_async(
        self, events: Event | Draft | Sequence[Event | Draft], *, expected: Head | None = None
    ) -> list[SequencedEvent]:
        """Append from a task: the loop continues meanwhile, and appends of other runs share the commit.

        An append that has begun is not cancelled: the cancellation is raised when the result is known.
        """
        # Imported at first use: asyncio is slow to import, and many programs have no tasks.
        from onrecord.journal.async_append import append_from_task

        return await append_from_task(self, make_drafts(events), expected)

    @contextmanager
    def appending(self) -> Iterator[None]:
        """Hold the lock for `transactions`, with the history that linking needs already read."""
        with self._lock:
            self.check_usable()
            if not self._history_known:
                self._read_history()
            yield

    def prepare(self, drafts: Sequence[Draft], expected: Head | None) -> Linked:
        """Return the rows of the batch. Its artifacts are stored, and the chain is advanced but can be undone."""
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

    def confirm_append(self, linked: Linked, sync: bool) -> None:
        self._chain.keep()
        if sync:
            if self._unsynced:
                self._unsynced.clear()
            self._synced = self._chain.head
        else:
            self._unsynced.append((linked.rows, linked.nodes))

    def fail_append(self, linked: Linked, error: BaseException) -> None:
        """Undo the chain and raise the error for the caller. Return if the store already holds these very rows."""
        if isinstance(error, DuplicateIds) and [row.link for row in error.rows] == [row.link for row in linked.rows]:
            return
        self._chain.undo()
        if isinstance(error, DuplicateIds):
            raise ConflictingDuplicate(f"run {self.run} has an event with that id and other content") from None
        if isinstance(error, MovedHead):
            self._raise_closed_if_ended()
        # An interrupt may arrive before or after the commit, so its result is unknown too.
        self._poisoned = isinstance(error, OutcomeUnknown) or not isinstance(error, OnrecordError)
        self._unknown = linked if self._poisoned else None
        raise error

    def find_known_ids(self, drafts: Sequence[Draft], sync: bool) -> list[SequencedEvent] | None:
        for draft in drafts:
            if draft.id is not None:
                self.check_usable()
                existing = self._find_existing(drafts)
                if existing is not None and sync:  # it may have been appended without a sync
                    self.store.sync()
                return existing
        return None

    def _find_existing(self, drafts: Sequence[Draft]) -> list[SequencedEvent] | None:
        """Return the recorded events if all ids exist with the same content, or None if none exists."""
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
            if row.kind != draft.event.kind or not self._has_same_content(draft, row):
                raise ConflictingDuplicate(
                    f"event id {row.id} exists at seq {row.seq} of run {self.run} with other content"
                )
        return found

    def _has_same_content(self, draft: Draft, row: EventRow) -> bool:
        recorded = self.content_tree(row, self.link(row))
        tree = encode(draft.event.content()).tree
        if recorded is None:
            return False
        # State links depend on the salt of their event; everything else must be equal byte for byte.
        return stored_bytes(_remove_state_links(tree)) == stored_bytes(_remove_state_links(recorded))

    def _refresh_if_moved(self, expected: Head) -> None:
        actual = self.head()
        if actual != expected:
            self._raise_closed_if_ended()
            raise MovedHead(f"run {self.run} is at seq {actual.seq}, the append was decided at seq {expected.seq}")
        self._read_tail()

    def _raise_closed_if_ended(self) -> None:
        last = self.store.last_event(self.namespace, self.run)
        if last is not None and last.kind in TERMINAL_KINDS:
            raise ClosedRun(f"run {self.run} ended with {last.kind} at seq {last.seq}; nothing follows it")

    @property
    def known_head(self) -> Head:
        """Return the head that this handle knows, without asking the store."""
        return self._chain.head

    @property
    def position(self) -> int:
        """Return the seq of the last event that this handle knows."""
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
                hint="Create a new run in the forked child.",
                code="forked_handle",
            )

    def new_salt(self) -> bytes:
        return self._sources.entropy(SALT_BYTES)

    def _new_id(self, now_us: int, seq: int) -> str:
        # Unique by its nonce, and within the run by its seq: a store needs no index to find it.
        return f"_{now_us:x}{self._id_nonce}_{seq:x}"

    # The handle's view of the run

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
        """Read the end of each lane, once, before the first event of a lane is written."""
        for row in rows:
            if row.lane_seq is None or row.prefix is None:
                raise Damaged(f"event {row.seq} of run {self.run} has no position in its lane", code="bad_lane")
            self._chain.lanes.setdefault(row.lane, LaneEnd(row.lane_seq, row.prefix))

    def _needs_lanes(self, draft: Draft) -> bool:
        if not draft.event.behavioural or draft.lane in self._chain.lanes:
            return False
        return not self._later_lanes_known or draft.lane == ROOT_LANE

    def adopt_lanes(self, position: int, rows: Iterable[EventRow]) -> None:
        """Adopt the ends of lanes from a caller that has read the run from a checkpoint to `position`.

        The caller has found every lane that continues; the first lane may be missing.
        """
        with self._lock:
            if not self._lanes_known and position == self._chain.head.seq:
                self._read_lanes(rows)
                self._later_lanes_known = True

    def _read_history(self) -> None:
        """Read open requests and the last state, once, before the first event that depends on them."""
        if self._reducer is not None:
            self._observe(self.store.scan(self.namespace, self.run, 1, self._chain.head.seq + 1))
        else:
            self._observe(self._find_open_and_state())

    def adopt_history(self, position: int, rows: Sequence[EventRow]) -> None:
        """Adopt the open requests and the last state from a caller that has read the run up to `position`."""
        with self._lock:
            if not self._history_known and self._reducer is None and position == self._chain.head.seq:
                self._observe(rows)

    def forget_requests(self, seqs: Iterable[int]) -> None:
        """Forget open requests that changed code dropped: their ids may be used again."""
        with self._lock:
            self._chain.forget(seqs)

    def _observe(self, rows: Iterable[EventRow]) -> None:
        for row in rows:
            link = self.link(row)
            tree = self.content_tree(row, link)
            event = None if tree is None else read_event(row.kind, self.decoded(tree))
            self._chain.observe(row, link.parent, event)
        self._history_known = True

    def _find_open_and_state(self) -> list[EventRow]:
        """Return the open requests and the last state, found without opening a content."""
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

    def append_surely(self, drafts: Sequence[Draft], sync: bool) -> Linked:
        """Append as `append_new` does. An append of unknown result is looked up, and repeated if it did not happen."""
        try:
            return self.append_new(drafts, None, sync)
        except OutcomeUnknown:
            return self.reopen() or self.append_new(drafts, None, sync)

    def reopen(self) -> Linked | None:
        """Recover from an unknown result: read the tail, check it, and append again what was never synced.

        Return the append of unknown result if it was committed; it is on disk then.
        """
        with self._lock:
            row = self.store.run_row(self.namespace, self.run)
            if row is None or row.header.hash != self.header_row.hash:
                raise Damaged(f"run {self.run} is gone, or another run has its id", code="regressed")
            actual = self.head()
            if actual.seq < self._synced.seq:
                raise Damaged(
                    f"run {self.run} is at seq {actual.seq}, but seq {self._synced.seq} was acknowledged",
                    code="regressed",
                )
            self._check_link_at(self._synced)
            self._restore_unsynced(actual)
            self._read_tail()
            unknown, self._unknown, self._poisoned = self._unknown, None, False
            return unknown if unknown is not None and self._holds(unknown.rows[-1]) else None

    def _holds(self, written: EventRow) -> bool:
        """Return True if the store has that very row, and sync it. Another holder may have written there instead."""
        row = self.store.event(self.namespace, self.run, written.seq)
        if row is None or row.hash != written.hash:
            return False
        self.store.sync()
        return True

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
        """Renew the lease. Refused if another process has held the run meanwhile: this handle is out of date."""
        epoch = claim_run(self.store, self.namespace, self.run, self._sources, lease_seconds)
        if epoch != self.epoch:
            self.store.release(self.namespace, self.run, epoch)
            raise StaleEpoch(f"run {self.run} is at epoch {epoch}, this writer has epoch {self.epoch}")

    def release(self) -> None:
        """Release the lease, so that another process need not wait for it to end."""
        if os.getpid() != self._pid:
            return  # a forked child does not hold the lease
        self.store.release(self.namespace, self.run, self.epoch)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def make_drafts(events: Event | Draft | Sequence[Event | Draft]) -> list[Draft]:
    if isinstance(events, Event):
        return [Draft(events)]
    if isinstance(events, Draft):
        events = (events,)
    drafts = [event if isinstance(event, Draft) else Draft(event) for event in events]
    for draft in drafts:
        if not isinstance(draft.event, Event):
            raise InvalidInput(
                "only events can be appended",
                hint="Pass one of onrecord's event classes, a Draft of one, or a list of them.",
                code="not_an_event",
            )
    if not drafts:
        raise InvalidInput("an append needs at least one event", code="empty_append")
    return drafts


def _needs_history(draft: Draft, reducer: Reducer | None) -> bool:
    kind = draft.event.kind
    return reducer is not None or kind == "StateUpdated" or kind in ANSWERS or kind in OPENING_KINDS


def _remove_state_links(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tree.items() if name not in _STATE_MEMBERS}


__all__ = ["LEASE_SECONDS", "Draft", "Journal"]
