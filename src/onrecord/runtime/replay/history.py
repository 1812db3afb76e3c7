"""What a run has recorded so far, indexed for coming back to it: who asked what, what was answered, in which order.

Rules of the order in which things are handed to the agent again (`History.hand_overs`):

1. Answers come in the order of the journal.
2. What has no event of its own (a timer that fired, a job that ended) comes where its record says: `TurnTaken` names
   the answer after which it was handed over, and how far the journal had come by then.
3. A checkpoint comes where it stands, and what is behind it comes behind it. Who begins there reads nothing before it.
4. A fork's past is what it shares with its parents, at positions up to 0, and then its own events (`journal.lineage`).
   What had no answer where they part belongs to the parents alone: the fork asks for it again, in its own name.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from onrecord.core.events import ANSWERS, OPENING_KINDS, TERMINAL_KINDS
from onrecord.core.links import Link
from onrecord.errors import Damaged
from onrecord.journal.lineage import Stretch, shared_stretches, stretch_of
from onrecord.journal.reader import JournalReader
from onrecord.runtime.replay.records import (
    BORN,
    CANCELLED,
    CHECKPOINT,
    OUTSIDE,
    Beginning,
    Birth,
    HandOver,
    RecordedAnswer,
    RecordedCheckpoint,
    RecordedChunk,
    RecordedLane,
    RecordedMark,
    RecordedRequest,
    RecordedTurn,
)
from onrecord.store.contract import EventRow

MOST_ALIKE = 100
"""More siblings that began alike are told apart by their order alone."""


@contextmanager
def _nothing_to_collect() -> Iterator[None]:
    """All that is made meanwhile is kept: asking time and again whether it is garbage takes a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class History:
    """The index. Contents are opened when they are needed, not before."""

    def __init__(self, reader: JournalReader, beginning: Beginning | None = None) -> None:
        self.reader = reader
        self.beginning = beginning
        """The checkpoint behind which it was read; None: it is the whole of it."""
        self._shared = shared_stretches(reader)
        self._first = self._shared[0].shift if self._shared else 0
        """The position before the first event of all."""
        self._shift = 0
        """What is to be added to a seq that stands in the content that is being read."""
        self._asked = 0
        self._rules = reader.rules()
        self.lanes: dict[str, RecordedLane] = {"0": RecordedLane("0")}
        self.births: dict[str, Birth] = {}
        """Of threads and jobs, by their lane."""
        self.numbers_born: set[tuple[str, int]] = set()
        self.born: dict[Birth, str] = {}
        """And the other way round."""
        self.by_key: dict[str, RecordedRequest] = {}
        self.hand_overs: list[HandOver] = []
        self.draws: dict[tuple[str, str], list[Any]] = {}
        self._draws_claimed: dict[str, str] = {}
        self.busy: dict[int, int] = {}
        """Answers that were handed over without waiting for a rest: seq → steps taken."""
        self.noted_to = self.began_at
        """Up to this answer that is known. It is written with the next commit of whoever was handed one: of the last
        answers nobody knows."""
        self._answered: dict[str, int] = {}
        """The last answer of each lane."""
        self.unmade = 0
        self.spent_by_children: dict[str, dict[str, float]] = {}
        """What runs that this one called, and that have ended, spent of its budget."""
        self.stood_in: dict[str, int] = {}
        """Which request of another run answers which of this one (`forks.substitutes`), by its key."""
        self.standing_in: list[tuple[int, Any]] = []
        """How it treats what its record does not have, wherever somebody has said so since it began."""
        self.on_damage: Callable[[Damaged], NoReturn] | None = None
        """What a run does that comes back and finds a content damaged: the agent is not told of it."""
        self.end: RecordedMark | None = None
        self.was_cut_off = False
        """The end was put to it from outside: the agent was never told."""
        self.last_seq = 0
        self.last_time = reader.header_row.created
        self._last_state: EventRow | None = None
        self._by_seq: dict[int, RecordedRequest] = {}
        self._by_action: dict[str, RecordedRequest] = {}
        self._turns: dict[int, list[RecordedTurn]] = {}
        self._turns_noted: list[tuple[int, RecordedTurn]] = []
        """Those of the run that is being read, and where they stand."""
        self._turns_of: dict[str, list[RecordedTurn]] | None = None
        self._answers: list[RecordedRequest | RecordedMark | RecordedChunk | RecordedCheckpoint] = []
        self.begins_anew: set[str] = set()
        """Streams that have parts on record which were seen by nobody, by their keys."""
        self._ranks_from = 0
        """How many requests came before the last checkpoint: behind it they are counted anew."""
        self.carried: dict[str, Any] | None = None
        """What the checkpoint that it begins with has carried over besides the state."""
        self.lane_ends: dict[str, EventRow] = {}
        """The last behavioural event of each lane that it was read of."""
        self.is_dropped = False
        """The checkpoint that it begins with was dropped by changed code: nobody begins there any more."""
        self.opens_parts: Callable[[JournalReader, EventRow, Any], Any] | None = None
        """Where secrets were redacted: the part of a stream as it was given (`secrets.redaction`)."""
        self._children: dict[str, list[RecordedLane]] = {}
        self._by_beginning: dict[str, dict[bytes | None, deque[RecordedLane]]] = {}

    @classmethod
    def read(cls, reader: JournalReader, beginning: Beginning | None = None) -> History:
        """The whole record, or what is behind a checkpoint."""
        past = cls(reader, beginning)
        own = Stretch(reader, reader.head().seq, 0)
        with _nothing_to_collect():
            for stretch in (*past._shared, own):
                if beginning is None or beginning.row.seq <= stretch.last + stretch.shift or stretch is own:
                    past._read(stretch)
                if stretch is not own:
                    past._part_from_parents()
            past._order()
        return past

    def _read(self, stretch: Stretch) -> None:
        self._shift, after = stretch.shift, 0
        if self.beginning is not None and self.beginning.row.seq > stretch.shift:
            after = self.beginning.row.seq - stretch.shift - 1  # the checkpoint itself is read
        row, reader = None, stretch.reader
        try:
            for row, link in stretch.rows(after):
                self._take(row, link)
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
            # A recording may come from anywhere: what is not as we write it is damage, not a crash.
            seq = row.seq - stretch.shift if row is not None else after + 1
            raise Damaged(f"event {seq} of run {reader.run} is not well formed", code="bad_content") from error

    def _part_from_parents(self) -> None:
        """What the parents share ends here."""
        self._drop_unseen_chunks()
        self.begins_anew.clear()  # the fork asks in its own name
        self._drop_last_steps()
        for request in self.open_requests:
            request.is_parents, request.attempts, request.settled = True, 0, None
        self.spent_by_children.clear()  # what was shared has been paid for

    @property
    def is_forked(self) -> bool:
        """Some of it is shared with the run that it was forked from."""
        return bool(self._shared)

    @property
    def began_at(self) -> int:
        """The position behind which it was read: that of a checkpoint, or that before the first event."""
        return self.beginning.row.seq if self.beginning is not None else self._first

    def _take(self, row: EventRow, link: Link) -> None:
        kind = row.kind
        self.last_seq, self.last_time = row.seq, link.time
        if self.beginning is not None and row.lane_seq is not None:
            self.lane_ends[row.lane] = row
        if kind in OPENING_KINDS or (kind == "ActionDenied" and link.parent is None):
            self._take_request(row, link)
        elif kind in ANSWERS:
            self._take_answer(row, link)
            return
        elif kind in ("StateUpdated", "SignalReceived"):
            mark = RecordedMark(row.seq, kind, row)
            if kind == "SignalReceived":
                self._answers.append(mark)
            else:
                self._last_state = row
                self.lane(row.lane).marks.append(mark)
                self._begin_lane(mark)
                if link.key == CHECKPOINT:
                    self._take_checkpoint(row, link)
        elif kind in TERMINAL_KINDS:
            self.end = RecordedMark(row.seq, kind, row)
            told = any(isinstance(one, RecordedMark) for one in self._answers)
            cut_off_unsaid = kind == "Cancelled" and not told and bool(self.open_requests)  # before it had its key
            self.was_cut_off = link.key == OUTSIDE or cut_off_unsaid
            self.noted_to = row.seq
        else:
            self._take_bookkeeping(row)
            return
        self._is_noted(self._answered.get(row.lane, self.began_at))

    def _is_noted(self, answer: int) -> None:
        """Whoever was handed that answer has gone on from there, or somebody after him."""
        self.noted_to = max(self.noted_to, answer)

    def _drop_last_steps(self) -> None:
        """A fork that has been handed everything goes its own way: it sets its state itself, and nobody has asked for
        anything since the last turns."""
        answered = [one.answer.seq for one in self.by_key.values() if one.answer is not None]
        last = max((*self._by_seq, *answered, *(one.seq for one in self._answers)), default=self.began_at)
        for lane in list(self.lanes.values()):
            lane.marks = [mark for mark in lane.marks if mark.seq <= last]
            if lane.first is not None and lane.first.seq > last:
                lane.first = None
        for seq, turn in self._turns_noted:
            if seq > last and turn in self._turns[turn.after]:
                self._turns[turn.after].remove(turn)
        self._turns_noted.clear()
        self._drop_unborn()

    def _drop_unborn(self) -> None:
        """A birth is noted before what was first asked for. Where a fork begins between the two nobody has asked for
        anything there: in the fork that number may be another's."""
        for path, birth in list(self.births.items()):
            lane = self.lanes.get(path)
            if lane is None or lane.first is None:
                del self.births[path], self.born[birth]
                self.numbers_born.discard((birth.above, birth.number))

    def _take_checkpoint(self, row: EventRow, link: Link) -> None:
        self.lane(row.lane).main = True
        self._ranks_from = self._asked
        if row.seq != self.began_at:  # that one has been passed
            self._answers.append(RecordedCheckpoint(row.seq, link.time, row))

    def _take_request(self, row: EventRow, link: Link) -> None:
        again = self.by_key.get(link.key or "")
        if again is not None and again.is_parents:  # the fork has asked for it in its own name
            again.is_parents, again.row, again.time = False, row, link.time
            self._by_seq[row.seq] = again
            return
        request = RecordedRequest(row, link, self._asked - self._ranks_from)
        self._asked += 1
        if row.kind == "ActionDenied":
            request.match = self._match_of_denied(row)
            request.answer = RecordedAnswer(row, link)
            request.answer.handed = True
        if request.key in self.by_key:
            raise Damaged(f"event {row.seq} repeats the replay key of event {self.by_key[request.key].seq}")
        self.by_key[request.key] = self._by_seq[row.seq] = self._by_action[request.key] = request
        lane = self.lane(row.lane)
        lane.requests.append(request)
        if lane.first is None:
            self._begin_lane(request)
        self.unmade += 1

    def _match_of_denied(self, row: EventRow) -> bytes | None:
        """That of the request which was never made: when the run comes back it has to be the same one."""
        tree = self._tree(row)
        if tree is None or not isinstance(tree.get("reason"), dict):
            return None
        asked = {"payload": tree.get("payload"), "name": tree["reason"]["name"], "effect": tree["reason"]["effect"]}
        return self._rules.match("ActionRequested", asked)

    def _begin_lane(self, first: RecordedRequest | RecordedMark) -> None:
        lane = self.lane(first.lane)
        while lane.first is None:
            lane.first = first
            lane = self.lane(lane.path.rpartition(".")[0] or "0")

    def _take_answer(self, row: EventRow, link: Link) -> None:
        request = self._by_seq.get(link.parent or 0)
        if request is None or request.answer is not None:
            raise Damaged(f"event {row.seq} answers no open request")
        request.answer = RecordedAnswer(row, link)
        if link.key != CANCELLED:
            self._answers.append(request)
            self._answered[request.lane] = row.seq

    def _take_bookkeeping(self, row: EventRow) -> None:
        members = self.members(row)
        if row.kind == "TurnTaken":
            for turn in members["turns"]:
                if turn[0] == BORN:
                    self._take_birth(*turn[1:])
                elif turn[0] == "busy":
                    self.busy[turn[1] + self._shift] = turn[2]
                    self._is_noted(turn[1] + self._shift)
                else:
                    recorded = RecordedTurn(*turn)
                    recorded = recorded._replace(after=recorded.after + self._shift)
                    self._turns.setdefault(recorded.after, []).append(recorded)
                    self._is_noted(recorded.after)
                    if self._shared:
                        self._turns_noted.append((row.seq, recorded))
        elif row.kind == "ProcessAttached":
            if isinstance(members["process"], dict):
                self._take_note(members["process"])
        elif row.kind == "ValuesDrawn":
            for lane, kind, value in members["draws"]:
                self.draws.setdefault((lane, kind), []).append(value)
        elif row.kind in ("AttemptRecorded", "ChunkReceived", "EffectSettled"):
            request = self._by_action.get(members["action_id"])
            if request is None and self.beginning is not None:
                return  # of something that was given up before: nobody asks for it any more
            if request is None:
                raise Damaged(f"event {row.seq} belongs to no request")
            if row.kind == "AttemptRecorded":
                request.attempts = max(request.attempts, members["attempt"])
                request.settled, request.not_begun = None, False  # an operator's word is for one attempt
            elif row.kind == "ChunkReceived":
                self._take_chunk(request, row, members["index"])
            else:
                request.settled = row

    def _take_birth(self, path: str, number: int, label: str) -> None:
        birth = Birth(path.rpartition(".")[0], number, label)
        self.births[path], self.born[birth] = birth, path
        self.numbers_born.add((birth.above, number))

    def _take_note(self, note: dict[str, Any]) -> None:
        if "accepted" in note:
            self._take_accepted(note["accepted"])
        if "spent" in note:
            self.spent_by_children[str(note["child"])] = dict(note["spent"])
        if "carried" in note and self.beginning is not None and note["checkpoint"] + self._shift == self.began_at:
            self.carried = dict(note["carried"])
        if "begun_anew" in note and note["begun_anew"] in self._by_action:
            self._forget_chunks(self._by_action[note["begun_anew"]])
        if self._shift:
            return
        if "stood_in" in note:
            self.stood_in[str(note["stood_in"]["action"])] = int(note["stood_in"]["seq"])
        if "standing_in" in note:
            self.standing_in.append((self.last_seq, note["standing_in"]))
        if "not_begun" in note:
            self._by_action[note["not_begun"]].not_begun = True

    def _take_chunk(self, request: RecordedRequest, row: EventRow, index: int) -> None:
        if index == 0 and request.chunks:  # the stream was done again; what came before was seen by nobody
            self._forget_chunks(request)
        chunk = RecordedChunk(row.seq, request.key, index, row)
        request.chunks.append(chunk)
        self._answers.append(chunk)

    def _forget_chunks(self, request: RecordedRequest) -> None:
        forgotten = {chunk.seq for chunk in request.chunks}
        request.chunks.clear()
        self._answers = [one for one in self._answers if one.seq not in forgotten or not isinstance(one, RecordedChunk)]

    def _drop_unseen_chunks(self) -> None:
        """Streams that were cut off and whose chunks nobody acted upon begin anew. A run that has ended did so upon
        what it had seen."""
        if self.end is not None:
            return
        last_request = max(self._by_seq, default=0)
        for request in self.open_requests:
            if request.chunks and last_request < request.chunks[0].seq:
                self._forget_chunks(request)
                self.begins_anew.add(request.key)

    def _order(self) -> None:
        self._drop_unseen_chunks()
        if not self._turns:
            self.hand_overs.extend(self._answers)
            return
        self.hand_overs.extend(self._turns.get(self.began_at, ()))
        for answer in self._answers:
            self.hand_overs.append(answer)
            self.hand_overs.extend(self._turns.get(_seq_handed(answer), ()))

    @property
    def last_handed(self) -> int:
        """Seq of the last thing of the record that is handed over and has an event of its own."""
        return _seq_handed(self._answers[-1]) if self._answers else self.began_at

    def lane(self, path: str) -> RecordedLane:
        lane = self.lanes.get(path)
        if lane is None:
            lane = self.lanes[path] = RecordedLane(path)
            above = path.rpartition(".")[0]
            if above:
                self.lane(above)
                self._children.setdefault(above, []).append(lane)
        return lane

    def children(self, path: str) -> list[RecordedLane]:
        """In the order of their first requests, which is that of their numbers."""
        return self._children.get(path, [])

    def last_number(self, path: str) -> int:
        """The highest number among the lanes right below; behind a checkpoint the earlier ones are not known."""
        return max((int(lane.path.rpartition(".")[2]) for lane in self.children(path)), default=0)

    def unbound(self, path: str, match: bytes | None) -> list[RecordedLane]:
        """Lanes below that began with this digest and that no lane of the program is bound to yet."""
        if path not in self._by_beginning:
            begun: dict[bytes | None, deque[RecordedLane]] = {}
            for lane in self.children(path):
                if lane.first is not None and not lane.main:
                    begun.setdefault(lane.first.match, deque()).append(lane)
            self._by_beginning[path] = begun
        lanes = self._by_beginning[path].get(match, deque())
        while lanes and lanes[0].bound is not None:
            lanes.popleft()
        return [lane for lane in lanes if lane.bound is None] if len(lanes) < MOST_ALIKE else [lanes[0]]

    def turns_of(self, path: str) -> list[RecordedTurn]:
        """The turns of a lane, once it had its number."""
        if self._turns_of is None:
            self._turns_of = {}
            for turns in self._turns.values():
                for turn in turns:
                    self._turns_of.setdefault(turn.lane, []).append(turn)
        return self._turns_of.get(path, [])

    def is_free_again(self, lane: RecordedLane) -> None:
        """Nobody is bound to it any more."""
        begun = self._by_beginning.get(lane.path.rpartition(".")[0], {})
        alike = begun.get(lane.first.match if lane.first is not None else None)
        if alike is not None and lane not in alike:
            alike.appendleft(lane)

    def drawn(self, identity: str, kind: str) -> list[Any]:
        """What that lane drew. A lane that has no number yet, and was born in another order, is known by its label."""
        found = self.draws.get((identity, kind))
        if found is not None or not identity.startswith(":"):
            return found or []
        label = identity.partition("=")[2]
        for (other, other_kind), values in self.draws.items():
            unclaimed = self._draws_claimed.get(other, identity) == identity
            if other_kind == kind and other.startswith(":") and other.endswith(f"={label}") and unclaimed:
                self._draws_claimed[other] = identity
                return values
        return []

    def members(self, row: EventRow, missing: list[str] | None = None) -> Any:
        """The decoded content of a row. An erased one cannot be handed over again."""
        try:
            return self._members(row, missing)
        except Damaged as damage:
            if self.on_damage is None:
                raise
            self.on_damage(damage)

    def _members(self, row: EventRow, missing: list[str] | None) -> Any:
        tree = self._tree(row)
        if tree is None:
            raise Damaged(
                f"the content of event {row.seq} of run {self.reader.run} was erased; it cannot be handed over again",
                hint="Fork the run before that event, or go on with a new one.",
                code="erased_content",
            )
        if self.opens_parts is not None and row.kind == "ChunkReceived":
            tree = self.opens_parts(self.reader_of(row), row, tree)
        return self.reader_of(row).decoded(tree, missing=missing)

    def _tree(self, row: EventRow) -> Any:
        """The encoded content of a row; None once erased."""
        reader = self.reader
        if row.seq <= 0:
            stretch = stretch_of(self._shared, row.seq)
            reader, row = stretch.reader, stretch.own(row)
        return reader.content_tree(row, reader.link(row))

    def own_row(self, row: EventRow) -> EventRow:
        """A row as the run has it that it is one of."""
        return row if row.seq > 0 else stretch_of(self._shared, row.seq).own(row)

    def place_of(self, position: int) -> str:
        """An event as people know it: `seq 3`, or `seq 3 of run base` in what a fork shares."""
        if position > 0 or not self._shared:
            return f"seq {position}"
        stretch = stretch_of(self._shared, position)
        return f"seq {position - stretch.shift} of run {stretch.reader.run}"

    def reader_of(self, row: EventRow) -> JournalReader:
        """The run that the event is one of: this one, or one that it was forked from."""
        return self.reader if row.seq > 0 else stretch_of(self._shared, row.seq).reader

    def drop(self, requests: Iterable[RecordedRequest]) -> None:
        """Takes out requests that changed code does not make any more."""
        for request in requests:
            del self.by_key[request.key]
            for seq in (request.seq, request.row.seq):
                self._by_seq.pop(seq, None)
            self._by_action.pop(request.key, None)
            self.lane(request.lane).requests.remove(request)
            self.unmade -= 1

    def _take_accepted(self, accepted: Any) -> None:
        """Somebody before us has accepted changed code: what it did not ask for is not in the record any more."""
        dropped = {seq + self._shift for seq in accepted["dropped"]}
        requests = [request for request in self.by_key.values() if request.seq in dropped]
        gone = {id(request) for request in requests}
        keys = {request.key for request in requests}
        self._answers = [
            one
            for one in self._answers
            if id(one) not in gone and not (isinstance(one, RecordedChunk) and one.key in keys)
        ]
        self._drop_checkpoints({seq + self._shift for seq in accepted.get("checkpoints", ())})
        turns = {tuple(turn) for turn in accepted["turns"]}
        for after, recorded in self._turns.items():
            self._turns[after] = [turn for turn in recorded if (turn.kind, turn.lane, turn.ordinal) not in turns]
        self.drop(requests)
        passed = max((one.seq for one in self._answers if isinstance(one, RecordedCheckpoint)), default=self.began_at)
        self._ranks_from = sum(one.seq < passed for one in self.by_key.values())
        self._asked = len(self.by_key)

    def _drop_checkpoints(self, dropped: set[int]) -> None:
        """The changed code has not come by there, nor to anything that was behind."""
        self.is_dropped |= self.began_at in dropped
        for one in [one for one in self._answers if one.seq in dropped]:
            if isinstance(one, RecordedCheckpoint):
                self._answers.remove(one)
                self.lane(one.lane).marks.clear()

    @property
    def is_open_ended(self) -> bool:
        """The agent did not come to an end of its own."""
        return self.end is None or self.was_cut_off

    @property
    def open_requests(self) -> list[RecordedRequest]:
        return [request for request in self.by_key.values() if request.answer is None]

    def unfinished(self) -> list[EventRow]:
        """What a writer has to know of the past: requests that were never answered, and the last state."""
        rows = [request.row for request in self.open_requests]
        rows += [self._last_state] if self._last_state is not None else []
        return sorted((row for row in rows if row.seq > 0), key=lambda row: row.seq)


def stood_in_before(past: History) -> dict[str, int]:
    """As `History.stood_in`, of the run's own events up to the checkpoint that it was read behind."""
    found: dict[str, int] = {}
    reader = past.reader
    for row in reader.store.scan(reader.namespace, reader.run, 1, past.began_at, contents=False):
        if row.kind == "ProcessAttached":
            process = reader.event(row.seq).event.content()["process"]
            if isinstance(process, dict) and "stood_in" in process:
                found[str(process["stood_in"]["action"])] = int(process["stood_in"]["seq"])
    return found


def _seq_handed(entry: RecordedRequest | RecordedMark | RecordedChunk | RecordedCheckpoint) -> int:
    return entry.answer.seq if isinstance(entry, RecordedRequest) and entry.answer is not None else entry.seq
