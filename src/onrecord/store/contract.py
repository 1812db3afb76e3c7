"""The contract of a store: a handful of verbs about bytes and sequence numbers.

A store keeps what it is given and returns it. It reads no link, computes no hash and does not decide whether an event
may follow another: the journal does. A store promises:

1. `append` is all or nothing, nodes included, and durable when it returns (at the store's durability level; with
   `sync=False` it survives the process only).
2. `append` succeeds only if the run's last event is exactly `expected` and its epoch exactly `epoch`, checked in the
   same transaction. (run, seq) and (run, event id) are unique. An id that begins with `_` ends with `_` and its seq in
   hex, so a store may find it by seq. In each lane seq and lane_seq grow together. The writer ensures both. Duplicate
   ids are checked first: see `append`.
3. No user of the database can update or delete events, except through `erase_contents` and `delete_run`.
4. Nothing of another namespace is ever visible, not even by digest.
5. A failure whose result is unknown raises `OutcomeUnknown`, never a guess; afterwards the store works again on a new
   connection.

Stores share no code. They share the suite in `onrecord.testing.store_contract`, which third-party stores can run too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

DURABILITY_LEVELS = ("full", "relaxed")
"""full: an acknowledged append survives power loss. relaxed: it survives the process, not the machine."""


class EventRow(NamedTuple):
    """An event as stored.

    `content`, `salt` and `match` are None if erased; `lane_seq` and `prefix` are None for events that are no behaviour.
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
    """A run's header and facts as stored. `imported` marks a run that another store recorded."""

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
    """A row of a listing: the header, the last event without its content (None if the run is empty), the epoch."""

    header: HeaderRow
    last: EventRow | None
    epoch: int


class Head(NamedTuple):
    """The last event of a run, or 0 and the hash of its header."""

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
    """The address of a new inbox row. Read its payload with `inbox_find`."""

    namespace: str
    run: str
    key: str


class Claim(NamedTuple):
    epoch: int
    holder: str
    granted: bool
    """False: another holder has an unexpired lease; `epoch` and `holder` are its own."""


class DuplicateIds(Exception):
    """Ids of the batch exist already; raised by `append` before any other refusal.

    `rows` are the existing events, in the order of the batch.
    """

    def __init__(self, rows: Sequence[EventRow]) -> None:
        super().__init__(f"{len(rows)} event ids exist")
        self.rows = list(rows)


class Store(Protocol):
    """A store. All methods may be called from any thread, and after a fork() (the child opens its own connections).

    For an unknown run, verbs that write raise NotFound; verbs that read return None or nothing.
    """

    url: str
    """The URL for messages, without a password."""
    durability: str

    @property
    def private_url(self) -> str:
        """Return the URL with which another process opens the store. It may hold a password and is never shown."""
        ...

    def close(self) -> None: ...

    def sync(self) -> None:
        """Make everything committed so far, by any process, durable."""
        ...

    # Runs
    def create_run(self, namespace: str, header: HeaderRow, nodes: Sequence[NodeRow] = ()) -> None:
        """Add a run. The same header bytes again change nothing. Another header under that id raises RunExists."""
        ...

    def import_run(
        self,
        namespace: str,
        header: HeaderRow,
        nodes: Sequence[NodeRow],
        batches: Iterable[tuple[Sequence[EventRow], Sequence[NodeRow]]],
    ) -> None:
        """Add a whole run in one transaction, in bounded memory.

        Raise RunExists if the id is taken. If `batches` raises, nothing is written.
        """
        ...

    def run_row(self, namespace: str, run: str) -> RunRow | None: ...

    def list_runs(self, namespace: str, *, before: tuple[int, str] | None = None, limit: int = 100) -> list[RunRow]:
        """Return runs by (created, run) descending, beginning below `before`, without the operations journal."""
        ...

    def find_runs(self, namespace: str, prefix: str, limit: int = 10) -> list[str]:
        """Return run ids that begin with the literal `prefix`, ascending."""
        ...

    def namespaces(self) -> list[str]: ...

    def runs_since(self, namespace: str, cursor: str | None) -> tuple[str, list[str] | None]:
        """Return the next cursor and the runs created or appended to since `cursor`, with the operations journal.

        None instead of a list means unknown: any run may have changed. That is so for a cursor of None. No change is
        missed, even if transactions commit in another order than they began. An unchanged run may be listed. A removed
        run shows only as a change of the operations journal. The list may be one page: call again until it is empty. A
        cursor is opaque and valid for this store only.
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
        """Add the events in one transaction. `expected` is (0, header hash) for an empty run.

        Checks, in this order: unknown run NotFound · any id of the batch exists DuplicateIds · epoch differs StaleEpoch
        · head differs MovedHead. Existing nodes are unchanged.
        """
        ...

    def append_many(self, appends: Sequence[PendingAppend]) -> list[Exception | None]:
        """Append to several runs in one durable transaction (group commit).

        Each append succeeds or is refused on its own: the list holds None or what `append` would have raised. A failure
        of the commit itself is raised for all.
        """
        ...

    def last_event(self, namespace: str, run: str) -> EventRow | None: ...

    def event(self, namespace: str, run: str, seq: int) -> EventRow | None: ...

    def events_by_id(self, namespace: str, run: str, ids: Sequence[str]) -> list[EventRow]: ...

    def scan(
        self, namespace: str, run: str, start: int = 1, stop: int | None = None, *, contents: bool = True
    ) -> Iterator[EventRow]:
        """Yield events with start <= seq < stop, ascending, in bounded memory; `contents=False` omits `content`."""
        ...

    def lane_event(self, namespace: str, run: str, lane: str, lane_seq: int) -> EventRow | None:
        """Return the lane_seq-th behavioural event of a lane (from 1), without its content."""
        ...

    def lanes(self, namespace: str, run: str, below: int | None = None) -> list[EventRow]:
        """Return the last behavioural event of each lane (with seq < below), without contents."""
        ...

    # Shared values
    def nodes(self, namespace: str, addresses: Sequence[bytes]) -> dict[bytes, bytes]: ...

    def all_nodes(self, namespace: str) -> Iterator[NodeRow]: ...

    def put_artifact(self, namespace: str, address: bytes, data: bytes) -> None:
        """Store an artifact durably. An existing address is unchanged."""
        ...

    def artifact(self, namespace: str, address: bytes) -> bytes | None: ...

    def remove_artifacts(self, namespace: str, addresses: Iterable[bytes]) -> None:
        """Remove artifacts that no event names, after a failed import.

        A store may leave them: nothing reaches them.
        """
        ...

    def all_artifacts(self, namespace: str) -> Iterator[bytes]: ...

    # Leases
    def claim(self, namespace: str, run: str, holder: str, ttl_seconds: float, superseding: str | None = None) -> Claim:
        """Claim the run if no other holder has an unexpired lease, or if that holder is exactly `superseding`.

        A new holder increases the epoch by one. The same holder renews its lease under its epoch.
        """
        ...

    def release(self, namespace: str, run: str, epoch: int) -> None: ...

    def holder(self, namespace: str, run: str) -> str | None:
        """Return the holder of an unexpired lease, without claiming it; None if there is no holder or no such run."""
        ...

    # Inbox: messages from other processes to a run
    def inbox_put(self, namespace: str, run: str, key: str, payload: bytes, time: int) -> InboxRow:
        """Add a row unless the key exists, and return the row under the key. Numbers ascend from 1 in each run."""
        ...

    def inbox(self, namespace: str, run: str, after: int = 0) -> list[InboxRow]: ...

    def inbox_find(self, namespace: str, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], InboxRow]:
        """Return the rows under these (run, key) pairs, read at one moment. Missing pairs are left out."""
        ...

    def inbox_since(self, cursor: str | None) -> tuple[str, list[InboxArrival]]:
        """Return the next cursor and what was added to the inboxes of all namespaces since `cursor`.

        None is the present end: nothing is returned. No row is missed, even if transactions commit in another order
        than they began; a row that was removed meanwhile may be. A cursor is opaque and valid for this store only.
        """
        ...

    # Snapshots (derived, replaceable)
    def put_snapshot(self, namespace: str, run: str, snapshot: SnapshotRow) -> None: ...

    def snapshots(self, namespace: str, run: str) -> list[SnapshotRow]:
        """Return the snapshots, newest first."""
        ...

    def delete_snapshot(self, namespace: str, run: str, seq: int) -> None: ...

    # Retention and erasure: only together with their record in the operations journal
    def delete_run(
        self, namespace: str, run: str, record: PendingAppend, nodes: Iterable[bytes], artifacts: Iterable[bytes]
    ) -> None:
        """Remove the run with its rows, and the given nodes and artifacts, and append `record`, in one transaction.

        The iterables are consumed inside the transaction, while no other process can append; they may read the store.
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
        """Erase content, salt and match of (run, seq) (seq 0: the facts) and append `record`, in one transaction.

        The same transaction sets the prefix digests of (run, seq), and removes the snapshots of those runs, all rows of
        the inboxes `inboxes`, and the given nodes and artifacts. Afterwards no file holds the erased bytes.

        The iterables are consumed as in `delete_run`, and again if the transaction is retried.
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
    """A store whose database may also hold the user's own tables. Not every store is one."""

    def transact(self, work: Callable[[Any], PendingAppend]) -> None:
        """Begin a transaction, call `work` with the connection, append what it returns as `append` does, and commit
        durably.

        On any failure everything is rolled back, including what `work` wrote; an error of `work` is raised unchanged.
        The connection is valid until `work` returns, for tables that are not the store's. `work` must not end the
        transaction or write to the store in another way. Other writers may wait until it ends.
        """
        ...
