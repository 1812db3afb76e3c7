"""What a store is: a handful of verbs about bytes and sequence numbers.

A store keeps what it is given and gives it back. It decides nothing by a link, never computes a hash, never says
whether an event may follow another: that is the journal's business. What it does promise:

1. `append` is all or nothing, also with its nodes, and durable when it returns (at the store's durability level;
   `sync=False` asks for
   survival of the process only).
2. `append` happens only if the run's last event is exactly `expected` and its epoch exactly `epoch`, checked in the
   same transaction.
   (run, seq) and (run, event id) are unique. An id that begins with `_` ends with `_` and its seq in hex, so a store
   may find it by that. In each lane seq and lane_seq grow together. Both are the writer's care. Duplicated ids are
   looked for first: see `append`.
3. Events are never updated or deleted, by anybody using the database, except as `erase_contents` and `delete_run` do
   it.
4. Nothing of another namespace is ever visible, not even by digest.
5. A failure whose result is unknown is `OutcomeUnknown`, never a guess; after it the store works again on a fresh
   connection.

Stores share no code. They share the suite in `reenact.testing.store_contract`, which a third-party store runs too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

DURABILITY_LEVELS = ("full", "relaxed")
"""full: an acknowledged append survives power loss. relaxed: it survives the process, not the machine."""


class EventRow(NamedTuple):
    """One event as it is kept.

    `content`, `salt`, `match` are None once erased; `lane_seq` and `prefix` are None for bookkeeping.
    """

    seq: int
    id: str
    kind: str
    lane: str
    lane_seq: int | None
    link: bytes
    hash: bytes
    salt: bytes | None
    match: bytes | None
    prefix: bytes | None
    content: bytes | None


class HeaderRow(NamedTuple):
    """A run's header and facts as they are kept. `imported` marks a run that was not recorded by this store."""

    run: str
    kind: str
    created: int
    header: bytes
    hash: bytes
    salt: bytes | None
    match: bytes | None
    content: bytes | None
    imported: bool


class RunRow(NamedTuple):
    """A line of a listing:

    the header and the last event's seq, hash, kind and time of reading it needs (None when empty).
    """

    header: HeaderRow
    last: EventRow | None
    epoch: int


class Head(NamedTuple):
    """Where a run stands: its last event, or 0 and the hash of its header."""

    seq: int
    hash: bytes


class NodeRow(NamedTuple):
    address: bytes
    blob: bytes


class SnapshotRow(NamedTuple):
    seq: int
    head: bytes
    reducer: str
    state_version: int
    seal: bytes
    blob: bytes


class InboxRow(NamedTuple):
    number: int
    key: str
    payload: bytes
    time: int


class InboxArrival(NamedTuple):
    """Where something new stands; what it says is read from there."""

    namespace: str
    run: str
    key: str


class Claim(NamedTuple):
    epoch: int
    holder: str
    granted: bool
    """False: somebody else holds an unexpired lease; `epoch` and `holder` are theirs."""


class DuplicateIds(Exception):
    """Raised by `append` instead of anything else when ids of the batch exist already; `rows` are those found, in the
    order of the batch.
    """

    def __init__(self, rows: Sequence[EventRow]) -> None:
        super().__init__(f"{len(rows)} event ids exist")
        self.rows = list(rows)


class Store(Protocol):
    """All methods may be called from any thread, and after a fork() (the child opens its own connections).

    Under an unknown run, verbs that write raise NotFound; verbs that read answer None or nothing."""

    url: str
    """For people: without a password."""
    durability: str

    @property
    def private_url(self) -> str:
        """What another process opens the same store with; may hold a password, and is never shown."""
        ...

    def close(self) -> None: ...

    def sync(self) -> None:
        """Everything committed so far, by anybody, is durable when this returns."""
        ...

    # Runs
    def create_run(self, namespace: str, header: HeaderRow, nodes: Sequence[NodeRow] = ()) -> None:
        """Adds a run. The same header bytes again: nothing happens. Another header under that id: RunExists."""
        ...

    def import_run(
        self,
        namespace: str,
        header: HeaderRow,
        nodes: Sequence[NodeRow],
        batches: Iterable[tuple[Sequence[EventRow], Sequence[NodeRow]]],
    ) -> None:
        """Adds a whole run in one transaction, in bounded memory.

        RunExists when the id is taken, whatever by. If `batches` raises, nothing is written.
        """
        ...

    def run_row(self, namespace: str, run: str) -> RunRow | None: ...

    def list_runs(self, namespace: str, *, before: tuple[int, str] | None = None, limit: int = 100) -> list[RunRow]:
        """Runs by (created, run) descending, beginning below `before`. The operations journal is not among them."""
        ...

    def find_runs(self, namespace: str, prefix: str, limit: int = 10) -> list[str]:
        """Run ids that begin with `prefix`, taken literally, ascending."""
        ...

    def namespaces(self) -> list[str]: ...

    def runs_since(self, namespace: str, cursor: str | None) -> tuple[str, list[str] | None]:
        """Runs that were begun or appended to since `cursor`, the operations journal too, and the cursor to go on with.

        None instead of a list: it cannot be told, and any of them may have changed. That is so for a cursor of None.
        Nothing is left out, also when transactions commit in another order than they began; a run may be named though
        nothing is new in it, and one that was removed is named by its record in the operations journal alone. They
        may come in pages: whoever is given some asks again. A cursor is opaque and good for this store alone.
        """
        ...

    # Events
    def append(
        self,
        namespace: str,
        run: str,
        events: Sequence[EventRow],
        *,
        expected: Head,
        epoch: int,
        nodes: Sequence[NodeRow] = (),
        sync: bool = True,
    ) -> None:
        """Adds the events in one transaction. `expected` is (0, header hash) for an empty run.

        Checked in this order: unknown run NotFound · any id of the batch exists DuplicateIds · epoch differs
        StaleEpoch · head differs MovedHead. Nodes that exist already are left as they are.
        """
        ...

    def append_many(self, appends: Sequence[PendingAppend]) -> list[Exception | None]:
        """Several appends of different runs in one durable transaction (group commit). Each succeeds or is refused on
        its own; the list holds None or what `append` would have raised. A failure of the commit itself is raised
        for all.
        """
        ...

    def last_event(self, namespace: str, run: str) -> EventRow | None: ...

    def event(self, namespace: str, run: str, seq: int) -> EventRow | None: ...

    def events_by_id(self, namespace: str, run: str, ids: Sequence[str]) -> list[EventRow]: ...

    def scan(
        self, namespace: str, run: str, start: int = 1, stop: int | None = None, *, contents: bool = True
    ) -> Iterator[EventRow]:
        """Events with start <= seq < stop, ascending, in bounded memory. `contents=False` leaves `content` None."""
        ...

    def lane_event(self, namespace: str, run: str, lane: str, lane_seq: int) -> EventRow | None:
        """The lane_seq-th behavioural event of a lane (from 1), without its content."""
        ...

    def lanes(self, namespace: str, run: str, below: int | None = None) -> list[EventRow]:
        """The last behavioural event of each lane (with seq < below), without contents."""
        ...

    # Shared values
    def nodes(self, namespace: str, addresses: Sequence[bytes]) -> dict[bytes, bytes]: ...

    def all_nodes(self, namespace: str) -> Iterator[NodeRow]: ...

    def put_artifact(self, namespace: str, address: bytes, data: bytes) -> None:
        """Durable when it returns; the same address again is left as it is."""
        ...

    def artifact(self, namespace: str, address: bytes) -> bytes | None: ...

    def remove_artifacts(self, namespace: str, addresses: Iterable[bytes]) -> None:
        """Removes artifacts that no event names, as the caller knows: after an import that failed. A store that cannot
        may leave them; nothing reaches them.
        """
        ...

    def all_artifacts(self, namespace: str) -> Iterator[bytes]: ...

    # Leases
    def claim(self, namespace: str, run: str, holder: str, ttl_seconds: float, superseding: str | None = None) -> Claim:
        """Takes the run over if nobody holds an unexpired lease, or if exactly `superseding` does: the epoch grows by
        one. The holder itself renews under its epoch.
        """
        ...

    def release(self, namespace: str, run: str, epoch: int) -> None: ...

    def holder(self, namespace: str, run: str) -> str | None:
        """Who holds an unexpired lease of the run, without claiming it; None: nobody, or there is no such run."""
        ...

    # Inbox: what others have to say to a run
    def inbox_put(self, namespace: str, run: str, key: str, payload: bytes, time: int) -> InboxRow:
        """First writer wins: returns the row under that key, whoever wrote it. Numbers ascend from 1 in each run."""
        ...

    def inbox(self, namespace: str, run: str, after: int = 0) -> list[InboxRow]: ...

    def inbox_find(self, namespace: str, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], InboxRow]:
        """The rows under these (run, key), in one statement, seen at one moment; what is not there is left out."""
        ...

    def inbox_since(self, cursor: str | None) -> tuple[str, list[InboxArrival]]:
        """What came into the inboxes of all namespaces since `cursor`, and the cursor to go on with.

        None is the present end: nothing came yet. Nothing is left out, also when transactions commit in another order
        than they began; a row that was removed meanwhile may be. A cursor is opaque and good for this store alone.
        """
        ...

    # Snapshots (derived, replaceable)
    def put_snapshot(self, namespace: str, run: str, snapshot: SnapshotRow) -> None: ...

    def snapshots(self, namespace: str, run: str) -> list[SnapshotRow]:
        """Newest first."""
        ...

    def delete_snapshot(self, namespace: str, run: str, seq: int) -> None: ...

    # Retention and erasure: only together with their record in the operations journal
    def delete_run(
        self, namespace: str, run: str, record: PendingAppend, nodes: Iterable[bytes], artifacts: Iterable[bytes]
    ) -> None:
        """Removes the run with everything under it and the given nodes and artifacts, and appends `record`, in one
        transaction.

        The iterables are consumed inside the transaction, while nobody else can append; they may read the store.
        """
        ...

    def erase_contents(
        self,
        namespace: str,
        contents: Sequence[tuple[str, int]],
        prefixes: Sequence[tuple[str, int, bytes]],
        record: PendingAppend,
        nodes: Iterable[bytes],
        artifacts: Iterable[bytes],
        inboxes: Sequence[str] = (),
    ) -> None:
        """Erases content, salt and match of (run, seq) (seq 0: the header's facts), sets prefix digests of (run, seq),
        removes the snapshots of those runs, everything in the inboxes of the runs `inboxes`, the given nodes and
        artifacts, and appends `record`, in one transaction; afterwards no file holds the erased bytes.

        The iterables are consumed as those of `delete_run`, more than once when the transaction is tried again.
        """
        ...


class PendingAppend(NamedTuple):
    namespace: str
    run: str
    events: Sequence[EventRow]
    expected: Head
    epoch: int
    nodes: Sequence[NodeRow] = ()


@runtime_checkable
class TransactionalStore(Protocol):
    """A store whose database may hold tables of the user's own beside its own. Not every store is one."""

    def transact(self, work: Callable[[Any], PendingAppend]) -> None:
        """Begins a transaction, calls `work` with the database connection, appends what it returns with all the checks
        of `append`, and commits durably.

        Whatever fails, everything is rolled back, what `work` wrote too; what `work` raises comes out as it is. The
        connection is good until `work` returns, for tables that are not the store's; `work` neither ends the
        transaction nor writes to the store in any other way. Others who write may wait until it is over.
        """
        ...
