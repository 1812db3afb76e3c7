"""The order of the record: what a run that comes back is handed next, and who waits for it.

Rules: what is next is handed over when every request recorded before it has been made again, and somebody waits for it.
A checkpoint is waited for by nobody: the agent passes it, and only then comes what is behind it.
Lanes that were exchanged (`lane_exchange`) exchange what follows, too: what one of them has taken is returned to the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from onrecord.runtime.replay.history import History
from onrecord.runtime.replay.records import (
    LOCK,
    MISS,
    TAKE,
    HandOver,
    RecordedCheckpoint,
    RecordedChunk,
    RecordedMark,
    RecordedRequest,
    RecordedTurn,
)
from onrecord.runtime.scheduler.delivery_item import ANSWER, CHUNK, SIGNAL, Item, name_of

if TYPE_CHECKING:
    from onrecord.runtime.scheduler.lanes import Lane, LaneBook


class ReplayCursor:
    def __init__(self, past: History, book: LaneBook, first_unmade: Callable[[], int]) -> None:
        self.past = past
        self._book = book
        self._first_unmade = first_unmade
        self.expected: dict[tuple[Any, ...], Item] = {}
        """Who waits for what the record has for them."""
        self._next = 0
        self._places: dict[int, int] = {}
        self._locks: dict[tuple[str, int], list[RecordedTurn]] = {}
        """Locks that were taken, or missed, in a turn of their own, by how many the lane had asked for before."""
        self.counts_waits_for_locks = False
        """It is, or begins as, an earlier recording, whose turns of locks are counted otherwise."""
        for entry in past.hand_overs:
            if isinstance(entry, RecordedTurn) and entry.kind in (TAKE, MISS):
                self._locks.setdefault((entry.kind, entry.ordinal), []).append(entry)
            elif isinstance(entry, RecordedTurn) and entry.kind == LOCK:
                self.counts_waits_for_locks = True

    # What comes next

    def next(self) -> HandOver | None:
        """The next thing of the record that is still to be handed over."""
        entries = self.past.hand_overs
        while self._next < len(entries):
            entry = entries[self._next]
            if isinstance(entry, RecordedRequest) and entry.answer is not None and entry.answer.handed:
                self._next += 1
                continue
            return entry
        return None

    def ready(self, requests_made: int) -> Item | None:
        """Who is to be handed the next thing, if that can be done now."""
        entry = self.next()
        return self.find(entry) if entry is not None and self._is_due(entry, requests_made) else None

    def bring_threads_forward(self) -> None:
        """The loop stands: what its tasks wait for comes when it goes on. It was passed over in the recording, too."""
        entries = self.past.hand_overs
        if self.next() is None:
            return
        for place in range(self._next, len(entries)):
            item = self.find(entries[place])
            if item is None or not item.looped:
                if place > self._next:
                    entries.insert(self._next, entries.pop(place))
                return

    def take(self, entry: HandOver, item: Item | None = None) -> None:
        """It is handed over, at once or to whoever waits."""
        self._next += 1
        if item is None:
            return
        del self.expected[name_of(item)]
        if isinstance(entry, RecordedChunk):
            item.chunk = entry
        if isinstance(entry, (RecordedTurn, RecordedChunk)) and not item.lane.main:
            item.lane.taken.append(entry)

    def _is_due(self, entry: HandOver, requests_made: int) -> bool:
        """Every request recorded before it has been made again."""
        if isinstance(entry, RecordedTurn):
            return requests_made >= entry.at
        seq = entry.answer.seq if isinstance(entry, RecordedRequest) and entry.answer is not None else entry.seq
        return self._first_unmade() > seq

    def find(self, entry: HandOver) -> Item | None:
        """Who waits for this."""
        expected = self.expected
        if isinstance(entry, RecordedCheckpoint):
            return None
        if isinstance(entry, RecordedRequest):
            return expected.get((ANSWER, entry.key))
        if isinstance(entry, RecordedMark):
            return expected.get((SIGNAL,))
        if isinstance(entry, RecordedChunk):
            return expected.get((CHUNK, entry.key, entry.number))
        lane = self._book.find(entry.lane)
        label = entry.lane.partition("=")[2]
        if lane is not None and (not label or lane.label == label):
            return expected.get((entry.kind, id(lane), entry.ordinal))
        for item in expected.values():  # born in another order than when it was recorded
            if label and item.kind == entry.kind and item.ordinal == entry.ordinal and item.lane.label == label:
                return item
        return expected.get((entry.kind, id(lane), entry.ordinal))

    def has(self, item: Item) -> bool:
        """The record has a turn for it, sooner or later."""
        return any(
            isinstance(entry, RecordedTurn)
            and entry.kind == item.kind
            and entry.ordinal == item.ordinal
            and self.find(entry) is item
            for entry in self.rest
        )

    def has_lock(self, kind: str, lane: Lane, ordinal: int) -> bool:
        """The lane took this lock, or missed it, in a turn of its own."""
        return any(self._is_of(entry, lane) for entry in self._locks.get((kind, ordinal), ()))

    def _is_of(self, entry: RecordedTurn, lane: Lane) -> bool:
        found, label = self._book.find(entry.lane), entry.lane.partition("=")[2]
        if found is not None and (not label or found.label == label):
            return found is lane
        return bool(label) and lane.label == label

    def forced_at(self) -> int:
        """At which step the next thing of the record came without waiting for a rest; -1: it waited."""
        entry = self.next()
        if isinstance(entry, RecordedTurn):
            return entry.busy or -1
        if isinstance(entry, RecordedRequest) and entry.answer is not None:
            return self.past.busy.get(entry.answer.seq, -1)
        return -1

    def may_have_been_forced(self) -> bool:
        """The next thing of the record may have come without waiting for a rest: the process died before it said so."""
        entry = self.next()
        return isinstance(entry, RecordedRequest) and entry.answer is not None and entry.answer.seq > self.past.noted_to

    # Changes

    @property
    def rest(self) -> list[HandOver]:
        return self.past.hand_overs[self._next :]

    def change(self, given_back: Iterable[HandOver], taken: Iterable[HandOver]) -> None:
        """What is given back comes again, where it came; what was taken does not come any more."""
        if not self._places:
            self._places = {id(entry): place for place, entry in enumerate(self.past.hand_overs)}
        rest = {id(entry): entry for entry in self.rest}
        for entry in given_back:
            if id(entry) in self._places:  # some answers were never handed to anybody
                rest[id(entry)] = entry
        for entry in taken:
            rest.pop(id(entry), None)
        self.past.hand_overs[self._next :] = sorted(rest.values(), key=lambda entry: self._places[id(entry)])

    def drop_checkpoints(self) -> list[int]:
        """Takes the rest of them out of the record. Returns their seqs."""
        dropped = [entry.seq for entry in self.rest if isinstance(entry, RecordedCheckpoint)]
        self.past.hand_overs[self._next :] = [one for one in self.rest if not isinstance(one, RecordedCheckpoint)]
        return dropped

    def drop_unexpected(self, unmade: set[int]) -> list[list[Any]]:
        """Takes out of the record the answers to requests that were never made again, and turns that nobody waits for.
        Returns the turns."""
        dropped: list[list[Any]] = []
        kept: list[HandOver] = []
        for entry in self.rest:
            if isinstance(entry, RecordedTurn) and self.find(entry) is None:
                dropped.append([entry.kind, entry.lane, entry.ordinal])
            elif not (isinstance(entry, RecordedRequest) and entry.seq in unmade):
                kept.append(entry)
        self.past.hand_overs[self._next :] = kept
        return dropped
