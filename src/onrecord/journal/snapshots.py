"""Snapshots: shortcuts to a state, never the truth. Without them every state is the same.

A snapshot is trusted only if its seal matches its own bytes, the link it names is in the chain, and its state is the
one that the `SnapshotTaken` event right after its position commits to. A snapshot that fails is skipped for an older
one, and reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from onrecord.core.canonical import canonical_bytes, parse_stored, stored_bytes
from onrecord.core.codec import decode, encode
from onrecord.core.events import Event, SnapshotTaken, event_from_content
from onrecord.core.hashing import render, snapshot_seal, state_link_of
from onrecord.core.packing import pack, unpack
from onrecord.core.state import Reducer, encode_state, next_state
from onrecord.errors import BadPosition, Damaged, InvalidInput, OnrecordError
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.journal.lineage import shared_stretches
from onrecord.journal.reader import JournalReader, SequencedEvent
from onrecord.store.contract import SnapshotRow

Migrations = Mapping[int, Callable[[Any], Any]]
"""State version → a function that turns a state of that version into the next."""


class Snapshot(NamedTuple):
    position: int
    state: Any


class RejectedSnapshot(NamedTuple):
    position: int
    reason: str


class SnapshotPolicy(Protocol):
    def due(self, event: SequencedEvent, events_since: int, state_bytes: Callable[[], int]) -> bool:
        """Return True if a snapshot must be taken right after `event`."""
        ...


class EveryEvents:
    """Take a snapshot after every `count` events."""

    def __init__(self, count: int) -> None:
        if count < 1:
            raise InvalidInput("a snapshot policy needs a count of at least 1", code="bad_policy")
        self.count = count

    def due(self, event: SequencedEvent, events_since: int, state_bytes: Callable[[], int]) -> bool:
        return events_since >= self.count


class AtMarkedPoints:
    """Take a snapshot after events of certain kinds or with certain keys."""

    def __init__(self, kinds: frozenset[str] = frozenset(), keys: frozenset[str] = frozenset()) -> None:
        self.kinds, self.keys = kinds, keys

    def due(self, event: SequencedEvent, events_since: int, state_bytes: Callable[[], int]) -> bool:
        return event.kind in self.kinds or event.key in self.keys


class WhenStateReaches:
    """Take a snapshot when the state has grown by `size_bytes` since the last one."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._last = 0

    def due(self, event: SequencedEvent, events_since: int, state_bytes: Callable[[], int]) -> bool:
        size = state_bytes()
        if size - self._last < self.size_bytes:
            return False
        self._last = size
        return True


class SnapshotManager:
    """Takes snapshots of a run while it is written. Pass it what `append` returned."""

    def __init__(self, journal: Journal, reducer: Reducer, policy: SnapshotPolicy) -> None:
        self._journal = journal
        self._reducer = reducer
        self._policy = policy
        fold = StateFold.from_snapshot(journal, reducer)
        self._events_since = -fold.position
        fold.replay_all()
        self.state, self._position = fold.state, fold.position
        self._events_since += fold.position

    def observe(self, events: list[SequencedEvent]) -> list[int]:
        """Fold appended events. Return the positions of the snapshots that were taken."""
        due = False
        for event in events:
            if event.seq != self._position + 1:
                raise InvalidInput(f"event {event.seq} does not follow position {self._position}", code="bad_position")
            self.state = next_state(self._reducer, self.state, _as_recorded(event.event))
            self._position = event.seq
            self._events_since += 1
            due |= self._policy.due(event, self._events_since, self._state_bytes)
        # A batch is one append: a snapshot that is due within it is taken at its end.
        ended = bool(events) and events[-1].event.terminal
        return [self.take()] if due and not ended else []

    def take(self) -> int:
        """Take a snapshot of the current state and return its position."""
        position = take_snapshot(self._journal, self._reducer, self.state, self._position)
        self._position += 1
        self._events_since = 0
        return position

    def _state_bytes(self) -> int:
        return len(stored_bytes(encode(self.state).tree))


def _as_recorded(event: Event) -> Event:
    """Return the event as a reader will see it, without the caller's own mutable objects."""
    encoded = encode(event.content())
    members = decode(
        parse_stored(stored_bytes(encoded.tree)), loaded_classes=True, artifact=encoded.artifacts.__getitem__
    )
    return event_from_content(event.kind, members)


class PendingSnapshot(NamedTuple):
    """A snapshot to be stored: the event that commits to it, and the state to store after that event."""

    draft: Draft
    position: int
    stored: bytes


def take_snapshot(journal: Journal, reducer: Reducer, state: Any, position: int) -> int:
    """Store the state at `position`, which must be the head, and append the event that commits to it."""
    head = journal.head()
    if head.seq != position:
        raise InvalidInput(f"a snapshot is of the head (seq {head.seq}), not of seq {position}", code="bad_position")
    pending = prepare_snapshot(journal, reducer, state, position)
    # The event comes first: a crash in between leaves an event without a snapshot, which is harmless.
    journal.append(pending.draft, expected=head)
    keep_snapshot(journal, reducer, pending, head.hash)
    return position


def prepare_snapshot(journal: Journal, reducer: Reducer, state: Any, position: int) -> PendingSnapshot:
    """Prepare a snapshot. Its event must come right after `position`; appended in one batch, both cost one commit."""
    encoded = encode_state(state)
    for address, data in encoded.artifacts.items():
        journal.store.put_artifact(journal.namespace, address, data)
    stored = stored_bytes(encoded.tree)
    salt = journal.new_salt()
    event = SnapshotTaken(
        position=position,
        reducer=reducer.id,
        state_version=reducer.state_version,
        state=render(state_link_of(salt, canonical_bytes(encoded.tree))),
    )
    return PendingSnapshot(Draft(event, salt=salt), position, stored)


def keep_snapshot(journal: Journal, reducer: Reducer, pending: PendingSnapshot, head: bytes) -> None:
    """Store a snapshot whose event is appended. `head` is the hash of the link at its position."""
    position, stored = pending.position, pending.stored
    seal = snapshot_seal(journal.run, position, head, reducer.id, reducer.state_version, stored)
    row = SnapshotRow(position, head, reducer.id, reducer.state_version, seal, pack(stored))
    journal.store.put_snapshot(journal.namespace, journal.run, row)


def load_snapshot(
    reader: JournalReader, reducer: Reducer, *, at_most: int | None = None, migrations: Migrations | None = None
) -> tuple[Snapshot | None, list[RejectedSnapshot]]:
    """Return the newest trusted snapshot, and the skipped ones with reasons."""
    rejected: list[RejectedSnapshot] = []
    for row in reader.store.snapshots(reader.namespace, reader.run):
        if at_most is not None and row.seq > at_most:
            continue
        try:
            return Snapshot(row.seq, _check_state(reader, row, reducer, migrations or {})), rejected
        except OnrecordError as problem:
            rejected.append(RejectedSnapshot(row.seq, problem.message))
    return None, rejected


def check_snapshot(reader: JournalReader, row: SnapshotRow) -> Any:
    """Return the encoded state of a snapshot. Raise Damaged if the log does not commit to it."""
    stored = unpack(row.blob)
    if snapshot_seal(reader.recorded_run, row.seq, row.head, row.reducer, row.state_version, stored) != row.seal:
        raise Damaged("the snapshot does not match its seal", code="bad_snapshot")
    at = reader.store.event(reader.namespace, reader.run, row.seq) if row.seq else None
    head = reader.header_row.hash if row.seq == 0 else at.hash if at is not None else b""
    if head != row.head:
        raise Damaged("the snapshot names another head than the log has there", code="bad_snapshot")
    snapshot_event = reader.store.event(reader.namespace, reader.run, row.seq + 1)
    if snapshot_event is None or snapshot_event.kind != "SnapshotTaken" or snapshot_event.salt is None:
        raise Damaged("no event of the log commits to the snapshot", code="bad_snapshot")
    taken = reader.sequenced(snapshot_event).event
    tree = parse_stored(stored)
    link = render(state_link_of(snapshot_event.salt, canonical_bytes(tree)))
    if not isinstance(taken, SnapshotTaken) or taken.position != row.seq or taken.state != link:
        raise Damaged("the log commits to another state than that of the snapshot", code="bad_snapshot")
    return tree


def _check_state(reader: JournalReader, row: SnapshotRow, reducer: Reducer, migrations: Migrations) -> Any:
    tree = check_snapshot(reader, row)
    if row.reducer != reducer.id:
        raise InvalidInput(f"the snapshot was made by the reducer {row.reducer!r}", code="other_reducer")
    state = decode(tree, loaded_classes=not reader.imported, artifact=reader.nodes.artifact)
    version = row.state_version
    while version < reducer.state_version:
        if version not in migrations:
            raise InvalidInput(
                f"the snapshot has state version {version}, the reducer {reducer.state_version}; no migration is given",
                code="state_version",
            )
        state = migrations[version](state)
        version += 1
    if version > reducer.state_version:
        raise InvalidInput(
            f"the snapshot has state version {version}, newer than the reducer's {reducer.state_version}",
            code="state_version",
        )
    return state


def first_state(reader: JournalReader, reducer: Reducer) -> Any:
    """Return the state that a run begins with; for a fork, its parent's state at the fork position."""
    shared = shared_stretches(reader)
    if not shared:
        return reducer.initial()
    parent, last, _ = shared[-1]
    return StateFold.from_snapshot(parent, reducer, at_most=last).replay_to(last)


class StateFold:
    """Folds the events of a run into its state: step by step, to a position, or to the end."""

    def __init__(
        self, reader: JournalReader, reducer: Reducer, *, state: Any = None, position: int = 0, use_state: bool = False
    ) -> None:
        self._reader = reader
        self._reducer = reducer
        if position:
            reader.check_start(position + 1)
        self.position = position
        self.state = state if use_state or position else first_state(reader, reducer)
        self.reductions = 0
        self.rejected: list[RejectedSnapshot] = []

    @classmethod
    def from_snapshot(
        cls,
        reader: JournalReader,
        reducer: Reducer,
        *,
        at_most: int | None = None,
        migrations: Migrations | None = None,
    ) -> StateFold:
        """Begin at the newest trusted snapshot (at or before `at_most`), or at the first event."""
        snapshot, rejected = load_snapshot(reader, reducer, at_most=at_most, migrations=migrations)
        if snapshot is None:
            fold = cls(reader, reducer)
        else:
            fold = cls(reader, reducer, state=snapshot.state, position=snapshot.position, use_state=True)
        fold.rejected = rejected
        return fold

    def step(self) -> SequencedEvent | None:
        """Apply the next event and return it; None at the end."""
        for event in self._reader.scan(self.position + 1, self.position + 2):
            self._apply(event)
            return event
        return None

    def replay_to(self, position: int) -> Any:
        """Return the state at `position`, the last applied seq. To go back, create another fold."""
        last = self._reader.head().seq
        if not self.position <= position <= last:
            raise BadPosition(
                f"position {position} is not between {self.position} and {last}, the last of run {self._reader.run}"
            )
        for event in self._reader.scan(self.position + 1, position + 1):
            self._apply(event)
        return self.state

    def replay_all(self) -> Any:
        for event in self._reader.scan(self.position + 1):
            self._apply(event)
        return self.state

    def _apply(self, event: SequencedEvent) -> None:
        self.state = next_state(self._reducer, self.state, event.event)
        self.position = event.seq
        self.reductions += not isinstance(event.event, SnapshotTaken)
