"""The history of a run: its journal as items of the scheduler.

It is read twice. The first pass learns what depends on the end: which requests are open, which chunks are void. The
second pass gives the items one after the other as the program needs them, so memory does not grow with the journal.

A fork's history is what it shares with its parents, at positions up to 0, and then its own events
(`journal.lineage`). A request that was open where they part is the parents': the fork requests it in its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import msgspec

from onrecord.core.events import ANSWERS, OPENING_KINDS, TERMINAL_KINDS
from onrecord.core.links import Link
from onrecord.errors import Damaged
from onrecord.journal.journal import Journal
from onrecord.journal.lineage import Stretch, shared_stretches, stretch_of
from onrecord.journal.reader import JournalReader
from onrecord.runtime.replay.delivery_marks import parse_mark
from onrecord.runtime.replay.records import (
    CHECKPOINT,
    OUTSIDE,
    Beginning,
    Recorded,
    RecordedChunk,
    RecordedDenial,
    RecordedEnd,
    RecordedOutcome,
    RecordedRequest,
)
from onrecord.runtime.scheduler.items import (
    APART,
    Away,
    Began,
    CheckpointTaken,
    Chunk,
    Drawn,
    Dropped,
    EffectCancelled,
    EffectOutcome,
    Ended,
    Item,
    Noted,
    Requested,
    SettledItem,
    Turn,
)
from onrecord.runtime.scheduler.window import Placed, Window, digest_history
from onrecord.store.contract import EventRow

ITEMS_IN_EVENT = 1 << 20
"""Positions of one event: an event has at most so many turns or draws."""


MOST_KEPT, MOST_BYTES_KEPT = 20_000, 8 << 20
"""Items of a history, and bytes of their contents, that are kept from the first pass."""


def position_of(seq: int, index: int = 0) -> int:
    return seq * ITEMS_IN_EVENT + index


def seq_of(position: int) -> int:
    return position // ITEMS_IN_EVENT


class History:
    """The recorded events of a run, from the beginning or from a checkpoint."""

    def __init__(self, reader: JournalReader, beginning: Beginning | None = None) -> None:
        self.reader = reader
        self.beginning = beginning
        self.shared = shared_stretches(reader)
        self._stretches = (*self.shared, Stretch(reader, reader.head().seq, 0))
        self.rules = reader.rules()
        self.open: dict[str, RecordedRequest] = {}
        """Requests without an outcome, by key."""
        self.last_requests: dict[str, tuple[RecordedRequest, int]] = {}
        """The last request of each lane that has an outcome, with the seq of the outcome."""
        self.stream_outcomes: dict[str, int] = {}
        """Positions of the outcomes of streams, by key, without those that an operator settled."""
        self.requested = 0
        """Requests of the run itself."""
        self.has_signals = False
        """The run was told to end."""
        self.denied: list[str] = []
        """Keys of requests that policy denied."""
        self.end: Recorded | None = None
        self.was_cut_off = False
        """The end was written from outside: the agent did not learn of it."""
        self.last_seq = 0
        self.created = self._stretches[0].reader.header_row.created
        """When the clock of the run began: a fork has that of its first parent."""
        self.last_time = reader.header_row.created
        self.last_state: EventRow | None = None if beginning is None else beginning.row
        self.lane_ends: dict[str, EventRow] = {}
        self.spent_by_children: dict[str, dict[str, float]] = {}
        """Spending of called runs that have ended, by run."""
        self.served: dict[str, int] = {}
        """Requests (seq) of another run whose outcomes served requests (key) of this one."""
        self.policies: list[tuple[int, Any]] = []
        """Tail policies that were set since the run began, with their positions."""
        self.carried: dict[str, Any] | None = None
        """Members of the checkpoint besides the state."""
        self.is_dropped = False
        """Changed code dropped the checkpoint."""
        self.on_damage: Callable[[Damaged], NoReturn] | None = None
        self.open_chunk: Callable[[JournalReader, EventRow, Any], Any] | None = None
        """Restores the redacted parts of a chunk."""
        self.find_shared_match: Callable[[RecordedRequest], bytes | None] | None = None
        """Returns the match digest of a shared request, as the overrides of a fork change it."""
        self._kept: list[Placed] | None = [] if not self.shared else None
        """Items of a short history, which is read once; None for a long one."""
        self.digest = digest_history(self._read_first(), writable=isinstance(reader, Journal))
        if beginning is not None:
            self.is_dropped = position_of(beginning.row.seq) in self.digest.dropped

    # The items

    def _read_first(self) -> Iterator[Placed]:
        reading, size = _Reading(self, is_first=True), 0
        for placed in reading.items():
            if self._kept is not None:
                size += reading.content_bytes
                self._kept.append(placed)
                if len(self._kept) > MOST_KEPT or size > MOST_BYTES_KEPT:
                    self._kept = None
            yield placed

    @property
    def is_kept(self) -> bool:
        return self._kept is not None

    def window(self) -> Window:
        """Return a window at the beginning of the history."""
        return Window(_Reading(self).items() if self._kept is None else self._kept, self.digest)

    def requests(self) -> Iterator[RecordedRequest]:
        """Yield every recorded request, made again or not."""
        for placed in _Reading(self).items():
            if isinstance(placed[1], Requested):
                yield placed[1].digest

    @property
    def began_at(self) -> int:
        """The position after which it is read: that of a checkpoint, or that before the first event."""
        if self.beginning is not None:
            return self.beginning.row.seq
        return self.shared[0].shift if self.shared else 0

    @property
    def is_whole(self) -> bool:
        """The agent itself has ended."""
        return self.end is not None and not self.was_cut_off

    def stretches(self) -> Iterator[tuple[Stretch, int]]:
        """Yield the parts of the history, each with the seq (of its own run) after which it is read."""
        for stretch in self._stretches:
            if self.beginning is None or self.beginning.row.seq <= stretch.shift:
                yield stretch, 0
            elif self.beginning.row.seq <= stretch.last + stretch.shift or not stretch.shift:
                yield stretch, self.beginning.row.seq - stretch.shift

    # Contents

    def members(self, row: EventRow, missing: list[str] | None = None) -> Any:
        """Return the decoded content of a row."""
        try:
            tree = self.tree(row)
            if tree is None:
                raise Damaged(
                    f"the content of event {row.seq} of run {self.reader.run} was erased; it cannot be replayed",
                    hint="Fork the run before that event, or start a new one.",
                    code="erased_content",
                )
            if self.open_chunk is not None and row.kind == "ChunkReceived":
                tree = self.open_chunk(self.reader_of(row), row, tree)
            return self.reader_of(row).decoded(tree, missing=missing)
        except Damaged as damage:
            if self.on_damage is None:
                raise
            self.on_damage(damage)

    def tree(self, row: EventRow) -> Any:
        """Return the encoded content of a row; None once erased."""
        reader, own = self.reader_of(row), self.own_row(row)
        return reader.content_tree(own, reader.link(own))

    def find_stream_outcome(self, key: str) -> RecordedOutcome | None:
        """Return the outcome of a stream, which may be recorded far after its chunks."""
        position = self.stream_outcomes.get(key)
        if position is None:
            return None
        stretch = stretch_of(list(self._stretches), position)
        reader = stretch.reader
        row = reader.store.event(reader.namespace, reader.run, position - stretch.shift)
        if row is None:
            raise Damaged(f"event {position - stretch.shift} of run {reader.run} is missing", code="missing_event")
        placed, link = stretch.placed(row)
        return RecordedOutcome(placed, link.content, link.time)

    def own_row(self, row: EventRow) -> EventRow:
        """Return a row with the seq of its own run."""
        return row if row.seq > 0 else stretch_of(list(self.shared), row.seq).own(row)

    def reader_of(self, row: EventRow) -> JournalReader:
        """Return the reader of the run that the event belongs to: this one, or one that it was forked from."""
        return self.reader if row.seq > 0 else stretch_of(list(self.shared), row.seq).reader

    def name_position(self, position: int) -> str:
        """Return an event as people know it: `seq 3`, or `seq 3 of run base` in what a fork shares."""
        if position > 0 or not self.shared:
            return f"seq {position}"
        stretch = stretch_of(list(self.shared), position)
        return f"seq {position - stretch.shift} of run {stretch.reader.run}"

    def open_rows(self) -> list[EventRow]:
        """Return what a writer has to know of its own past events: the open requests and the last state."""
        rows = [request.row for request in self.open.values()]
        rows += [self.last_state] if self.last_state is not None else []
        return sorted((row for row in rows if row.seq > 0), key=lambda row: row.seq)


class _Reading:
    """Read the history once. The first pass also notes what depends on the end."""

    def __init__(self, history: History, *, is_first: bool = False) -> None:
        self._history = history
        self._is_first = is_first
        self._open: dict[str, RecordedRequest] = history.open if is_first else {}
        self._keys: dict[int, str] = {}
        """Keys of open requests, by seq."""
        self._chunks: dict[str, int] = {}
        self._not_begun: set[str] = set()
        """Keys of requests of which the record says that they were not begun."""
        self._dropped: set[int] = set()
        """Positions of what changed code dropped, as far as was read."""
        self._shift = 0
        self._signals = 0
        self.content_bytes = 0
        """The size of the event that was read last."""

    def items(self) -> Iterator[Placed]:
        for stretch, after in self._history.stretches():
            self._shift = stretch.shift
            for row, link in stretch.rows(after):
                self.content_bytes = len(row.content or b"")
                try:
                    if self._is_first:
                        self._note(row, link)
                    items = self._items_of(row, link)
                except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
                    # A recording may come from anywhere: whatever is not as we write it is damage, not a crash.
                    seq, run = row.seq - stretch.shift, stretch.reader.run
                    raise Damaged(f"event {seq} of run {run} is not well formed", code="bad_content") from error
                position = row.seq * ITEMS_IN_EVENT
                for item in items:
                    yield position, item
                    position += 1
            if stretch.shift and self._is_first:
                self._history.spent_by_children.clear()  # shared effects have been paid for

    def _note(self, row: EventRow, link: Link) -> None:
        history = self._history
        history.last_seq, history.last_time = row.seq, link.time
        if history.beginning is not None and row.lane_seq is not None:
            history.lane_ends[row.lane] = row
        if row.kind in OPENING_KINDS:
            history.requested += row.seq > 0
        elif row.kind == "StateUpdated":
            history.last_state = row
        elif row.kind == "ActionDenied" and link.parent is None:
            history.denied.append(link.key or "")

    def _items_of(self, row: EventRow, link: Link) -> Sequence[Item]:
        kind = row.kind
        if kind in OPENING_KINDS:
            return self._take_request(row, link)
        if kind == "ActionDenied" and link.parent is None:
            return (Noted(row.lane, RecordedDenial(row, link, lambda: self._match_of_denied(row))),)
        if kind in ANSWERS:
            return self._take_outcome(row, link)
        if kind == "ChunkReceived":
            return (self._take_chunk(row, link),)
        if kind == "StateUpdated":
            recorded = Recorded(row, link)
            if link.key == CHECKPOINT:
                return (CheckpointTaken(row.lane, recorded, self._clock(link)),)
            return (Noted(row.lane, recorded),)
        if kind == "SignalReceived":
            self._signals += 1
            self._history.has_signals = True
            outcome = RecordedOutcome(row, link.content, link.time)
            name = self._history.members(row)["name"]
            return (EffectOutcome(f"!{name}", outcome, self._clock(link), parse_mark(link.key).forced),)
        if kind in TERMINAL_KINDS:
            return self._take_end(row, link)
        return list(self._take_bookkeeping(row))

    def _clock(self, link: Link) -> int:
        return link.time - self._history.created

    def _take_request(self, row: EventRow, link: Link) -> Sequence[Item]:
        request = RecordedRequest(row, link)
        again = self._open.get(request.key)
        self._keys[row.seq] = request.key
        if again is not None:
            if again.row.seq > self._shift:
                raise Damaged(f"event {row.seq} repeats the replay key of event {again.seq}")
            again.is_shared, again.row = row.seq <= 0, row  # a fork requests it in its own name
            # With chunks it is cut off, or the turn `began` follows.
            return () if request.key in self._chunks else (Began(request.key),)
        if request.is_shared and self._history.find_shared_match is not None:
            request.match = self._history.find_shared_match(request)
        self._open[request.key] = request
        births: Any = _Births(self, row)
        return (Requested(request.key, row.lane, "", request, False, births),)

    def _take_outcome(self, row: EventRow, link: Link) -> Sequence[Item]:
        key = self._keys.pop(link.parent or 0, None)
        request = self._open.pop(key, None) if key is not None else None
        if key is None or request is None:
            raise Damaged(f"event {row.seq} answers no open request")
        has_chunks = bool(self._chunks.pop(key, 0))
        outcome, mark = RecordedOutcome(row, link.content, link.time), parse_mark(link.key)
        if mark.forced == APART and position_of(request.seq) in self._dropped:
            return ()  # it only closes a request that changed code does not make any more
        if self._is_first:
            self._history.last_requests[row.lane] = request, row.seq
            if has_chunks and not request.settled:
                self._history.stream_outcomes[key] = row.seq
        value: Any = EffectCancelled() if mark.is_cancelled else outcome
        return (EffectOutcome(key, value, self._clock(link), mark.forced),)

    def _take_chunk(self, row: EventRow, link: Link) -> Item:
        key = self._keys.get(link.parent or 0)
        if key is None:
            key = str(self._history.members(row)["action_id"])
            if key not in self._open:
                raise Damaged(f"event {row.seq} belongs to no request")
        number = self._chunks.get(key, 0)
        self._chunks[key] = number + 1
        return Chunk(key, number, RecordedChunk(row), self._clock(link), parse_mark(link.key).forced)

    def _take_end(self, row: EventRow, link: Link) -> Sequence[Item]:
        history, end = self._history, RecordedEnd(row, link)
        was_told = row.kind != "Cancelled" or bool(self._signals)
        was_cut_off = link.key == OUTSIDE or (not was_told and bool(self._open))
        if self._is_first:
            history.end, history.was_cut_off = end, was_cut_off
        return () if was_cut_off else (Ended(end),)

    def _take_bookkeeping(self, row: EventRow) -> Iterator[Item]:
        kind = row.kind
        if kind == "TurnTaken":
            for turn in self._history.members(row)["turns"]:
                yield _item_of_turn(turn)
                if turn[0] == "began":
                    self._chunks.pop(turn[1], None)
                    if self._is_first and turn[1] in self._open:
                        self._open[turn[1]].attempts += 1
                        self._open[turn[1]].settled = False
        elif kind == "ValuesDrawn":
            if self._is_first and not self._history.is_kept:
                yield Drawn("", "", None)  # the values are read in the second pass
                return
            for lane, site, value in self._history.members(row)["draws"]:
                yield Drawn(lane, site, value)
        elif kind == "EffectSettled":
            members = self._history.members(row)
            request = self._open.get(members["action_id"])
            if request is not None:
                request.settled = True
            if members["decision"] == "retry":
                yield SettledItem(members["action_id"], "retry")
        elif kind == "AttemptRecorded" and (self._is_first or self._not_begun):
            members = self._history.members(row)
            request = self._open.get(members["action_id"])
            if request is not None:
                request.attempts = max(request.attempts, int(members["attempt"]))
                if request.key in self._not_begun:
                    self._not_begun.discard(request.key)
                    yield Began(request.key)
        elif kind == "ProcessAttached":
            note = self._history.members(row)["process"]
            if isinstance(note, dict):
                yield from self._take_note(row, note)

    def _take_note(self, row: EventRow, note: dict[str, Any]) -> Iterator[Item]:
        if "accepted" in note:
            dropped = [(seq + self._shift, index) for seq, index in note["accepted"]["dropped"]]
            for seq, _ in dropped:  # keys of dropped requests may be used again
                if (key := self._keys.pop(seq, None)) is not None:
                    self._open.pop(key, None)
            yield Dropped(tuple(position_of(seq, index) for seq, index in dropped))
        if "not_begun" in note and not self._shift:
            key = note["not_begun"]
            if key not in self._open:
                raise Damaged(f"event {row.seq} is about no open request")
            self._not_begun.add(key)
            yield SettledItem(key, "retry")
        history = self._history
        if not self._is_first:
            return
        if "spent" in note:
            history.spent_by_children[str(note["child"])] = dict(note["spent"])
        is_own = history.beginning is not None and note.get("checkpoint", 0) + self._shift == history.began_at
        if "carried" in note and is_own:
            history.carried = dict(note["carried"])
        if self._shift:
            return
        if "stood_in" in note:
            history.served[str(note["stood_in"]["action"])] = int(note["stood_in"]["seq"])
        if "standing_in" in note:
            history.policies.append((row.seq, note["standing_in"]))

    def _match_of_denied(self, row: EventRow) -> bytes | None:
        """Return the match digest of a request that policy denied."""
        tree = self._history.tree(row)
        if tree is None or not isinstance(tree.get("reason"), dict):
            return None
        asked = {"payload": tree.get("payload"), "name": tree["reason"]["name"], "effect": tree["reason"]["effect"]}
        return self._history.rules.match("ActionRequested", asked)

    def births_of(self, row: EventRow) -> int:
        meta = self._history.members(row).get("meta")
        births = meta.get("births") if isinstance(meta, dict) else None
        return births if type(births) is int else 0


class _Births(msgspec.Struct, eq=False):
    """How many lanes the lane had started before a request. Only a divergence needs the number."""

    reading: _Reading
    row: EventRow

    def __le__(self, other: int) -> bool:
        return self.reading.births_of(self.row) <= other


def _item_of_turn(turn: list[Any]) -> Item:
    kind = turn[0]
    if kind == "away":
        return Away(str(turn[1]), int(turn[2]), int(turn[3]))
    if kind == "began":
        return Began(str(turn[1]))
    lane, ordinal, time, forced = (*turn[1:], 0) if len(turn) == 4 else turn[1:]
    return Turn(str(kind), str(lane), int(ordinal), int(time), int(forced))


def served_before(history: History) -> dict[str, int]:
    """Return `History.served` of the run's own events up to the checkpoint that it was read after."""
    found: dict[str, int] = {}
    reader = history.reader
    for row in reader.store.scan(reader.namespace, reader.run, 1, history.began_at, contents=False):
        if row.kind == "ProcessAttached":
            process = reader.event(row.seq).event.content()["process"]
            if isinstance(process, dict) and "stood_in" in process:
                found[str(process["stood_in"]["action"])] = int(process["stood_in"]["seq"])
    return found
