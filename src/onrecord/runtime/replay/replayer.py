"""A run that comes back: what it asks for again is found in its record, until nothing of the record is left.

1. A request that the record has is answered from the record. With another input it is a divergence, and nothing runs.
2. Nothing new runs until every recorded request has been made again: it is held back. If the run comes to rest before
   that, it has diverged.
3. Then requests without an answer are decided about (`in_doubt`), what was held back begins, and the run is live.
4. Where changed code is accepted, what it does not ask for any more is dropped instead, once the run can go on no other
   way. What was dropped is on record: whoever comes back later drops it too.

All of this is called with the run's lock held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from onrecord.core.events import ActionFailed, Event, ProcessAttached, Resumed, StateUpdated, WaitResolved
from onrecord.errors import OnrecordError
from onrecord.runtime.engine.open_effect import EffectSpec, EffectWaiter, OpenEffect
from onrecord.runtime.engine.outcomes import open_recorded
from onrecord.runtime.replay.divergence import (
    beyond_the_record,
    conflicting_request,
    conflicting_state,
    record_ended,
    resting_too_early,
    unrecorded_request,
    unrecorded_state,
)
from onrecord.runtime.replay.history import History
from onrecord.runtime.replay.in_doubt import effect_in_doubt, may_be_done_again
from onrecord.runtime.replay.records import (
    CANCELLED,
    LATE,
    LATE_LOCK,
    TIMER,
    RecordedLane,
    RecordedMark,
    RecordedRequest,
    RecordedTurn,
)
from onrecord.runtime.scheduler.delivery_item import SIGNAL
from onrecord.runtime.scheduler.lane_exchange import LaneExchange

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.runtime.scheduler.lanes import Lane

_BEYOND = 1 << 62


class MadeRequest(msgspec.Struct, frozen=True):
    """A request as the record would have it."""

    event: Event
    match: bytes


class Replayer:
    def __init__(self, run: LiveRun, past: History, *, accepts: bool = False) -> None:
        self._run = run
        self.past = past
        self._accepts = accepts
        self._by_seq = sorted(past.by_key.values(), key=lambda request: request.seq)
        self._unmade_at = 0
        self._exchanges = LaneExchange(run, past)
        self.held: list[OpenEffect] = []
        """What the program asked for while the record lasted, and the record does not have. In a fork, that is also
        what had no answer where it began: it asks for it itself."""
        self.in_doubt: list[OpenEffect] = []
        """Requests of the record without an answer that were made again."""

    def first_unmade(self) -> int:
        """Seq of the first recorded request that has not been made again; beyond all if there is none."""
        unmade = self._next_unmade()
        return unmade.seq if unmade is not None else _BEYOND

    def _next_unmade(self) -> RecordedRequest | None:
        requests = self._by_seq
        while self._unmade_at < len(requests) and requests[self._unmade_at].made:
            self._unmade_at += 1
        return requests[self._unmade_at] if self._unmade_at < len(requests) else None

    # Requests

    def asked(self, event: Event) -> MadeRequest:
        return MadeRequest(event, self._run.rules.match_of(event.kind, event.content()))

    def at_once(self, lane: Lane, spec: EffectSpec, asked: MadeRequest) -> RecordedRequest | None:
        """The usual case, served without waiting: the next thing of the record answers exactly this request, and
        nothing else could happen before. None: the long way has to be gone."""
        turns, requests = self._run.turns, self._by_seq
        entry = turns.order.next() if turns.order is not None else None
        if type(entry) is not RecordedRequest or entry.made or entry.match != asked.match or lane.recorded is None:
            return None
        answer, ordinal = entry.answer, lane.ordinals.get(spec.name, 0)
        if answer is None or entry.key != f"{lane.path}/{spec.name}/{ordinal}" or self._next_unmade() is not entry:
            return None
        after = self._unmade_at + 1
        while after < len(requests) and requests[after].made:
            after += 1
        if (after < len(requests) and requests[after].seq < answer.seq) or answer.seq in self.past.busy:
            return None
        self._unmade_at = after
        self._note_made(lane, entry)
        lane.ordinals[spec.name] = ordinal + 1
        turns.handed(entry)
        if not self.past.unmade:
            self.go_live_if_over()
        return entry

    def find(
        self, lane: Lane, spec: EffectSpec, asked: MadeRequest, key: str | None, waiter: EffectWaiter
    ) -> OpenEffect | None:
        """The ticket of a request that the record has, or that is held back. None: it is new, and may run."""
        event = asked.event
        if lane.recorded is None and not self._bound(lane, asked.match, key):
            instead = self._instead(spec, asked)
            if instead is not None:
                return self._made_again(OpenEffect(lane, spec, instead.key, event, waiter), instead)
            return self._not_recorded(lane, spec, event, key, waiter)
        ordinal = lane.next_ordinal(spec.name)
        recorded = self.past.by_key.get(key or f"{lane.path}/{spec.name}/{ordinal}")
        known = recorded is not None and not recorded.made and _same(recorded, asked)
        if recorded is None or not known or not self._is_next(lane, recorded):
            path, found = lane.path, self._found_elsewhere(lane, asked, key, f"/{spec.name}/{ordinal}", known=known)
            if found is not None:
                recorded = found
            elif (recorded is None or not known) and (instead := self._instead(spec, asked)) is not None:
                recorded = instead
            elif recorded is None or not known:
                if recorded is not None and not recorded.made and not self._accepts and lane.path == path:
                    self._run.stop_here(conflicting_request(self._run, recorded, event))
                lane.ordinals[spec.name] = ordinal  # it was not the record's
                return self._not_recorded(lane, spec, event, key, waiter)
        if key is None and not self._accepts:
            self._run.loose.check_order(lane, recorded)
        return self._made_again(OpenEffect(lane, spec, recorded.key, event, waiter), recorded)

    def _instead(self, spec: EffectSpec, asked: MadeRequest) -> RecordedRequest | None:
        return self._run.loose.instead(spec, asked.event, asked.match)

    def _bound(self, lane: Lane, match: bytes, key: str | None) -> bool:
        """The lane's first request: from now on it is known which recorded lane it is."""
        book, exchanges = self._run.book, self._exchanges
        if book.bind_by_birth(lane, match, key):
            return True
        above, begins = book.beginning(lane, match, key)
        place, made = above.recorded, len(above.made)
        if place is None or above.main:
            return book.bind(lane, match, key)

        def begins_here(below: RecordedLane) -> bool:
            first = below.first
            if not begins(below) or type(first) is not RecordedRequest:
                return False
            over = self.past.lanes[below.path.rpartition(".")[0]]
            asked = sum(request.rank < first.rank for request in over.requests)
            return asked == made and self._is_as_far(above, over, first)

        # It may be the first to ask for what the record does not have. In a replay there is no such thing.
        with exchanges.trusting_births(self._run.journal is not None):
            if not any(map(begins_here, self.past.unbound(place.path, match))):
                exchanges.for_beginning(above, begins_here)
            if book.bind(lane, match, key):
                return True
            return exchanges.for_beginning(above, begins) and book.bind(lane, match, key)

    def _found_elsewhere(
        self, lane: Lane, asked: MadeRequest, key: str | None, name: str, *, known: bool
    ) -> RecordedRequest | None:
        """The request in the record of a sibling that was like this lane so far; the two change places. Known: the
        lane's own record has it as well, but not here."""
        made, recorded = len(lane.made), lane.recorded

        def has_it(place: RecordedLane) -> bool:
            request = place.requests[made] if made < len(place.requests) else None
            return (
                request is not None
                and not request.made
                and request.key == (key or f"{place.path}{name}")
                and _same(request, asked)
            )

        def has_it_next(place: RecordedLane) -> bool:
            return has_it(place) and self._is_as_far(lane, place, place.requests[made])

        is_over = self._run.journal is not None and recorded is not None and made >= len(recorded.requests)
        # Rather somebody who is there than a place that nobody has yet: its beginning would have to be made once more.
        with self._exchanges.trusting_births(known or is_over):
            for fits in (lambda place: place.bound is not None and has_it_next(place), has_it_next, has_it):
                if (not known or fits is not has_it) and self._exchanges.for_request(lane, fits):
                    return self.past.by_key[key or f"{lane.path}{name}"]
        if not known and self._run.journal is not None and recorded is not None and made < len(recorded.requests):
            # Where the record of a sibling ends, what comes now is new.
            self._exchanges.for_request(lane, lambda place: len(place.requests) == made)
        return None

    def _is_next(self, lane: Lane, recorded: RecordedRequest) -> bool:
        """It is what the lane asked for next when it was recorded. The agent's own lane is like no other."""
        place, made = lane.recorded, len(lane.made)
        if lane.main or place is None:
            return True
        return (
            made < len(place.requests) and place.requests[made] is recorded and self._is_as_far(lane, place, recorded)
        )

    def _is_as_far(self, lane: Lane, place: RecordedLane, request: RecordedRequest) -> bool:
        """Whoever asked for this in the record had had the same turns before, and so had the lanes below."""
        turns = {(turn.kind, turn.ordinal) for turn in self.past.turns_of(place.path) if turn.at <= request.rank}
        taken = {
            (one.kind, one.ordinal) for one in lane.taken if isinstance(one, RecordedTurn) and one.lane == lane.path
        }
        return turns == taken and not self._comes_later(place, request)

    def _comes_later(self, place: RecordedLane, request: RecordedRequest) -> bool:
        """Lanes below have asked for something before that, and have not done so again."""
        return self.first_unmade() < request.seq and any(
            any(not one.made and one.seq < request.seq for one in below.requests) or self._comes_later(below, request)
            for below in self.past.children(place.path)
        )

    def found_another_way(self, *, sure: bool = True) -> bool:
        """The run rests, and what the record has next cannot come: lanes may have been taken for each other. Not sure:
        it has been standing still for long."""
        if len(self.past.lanes) == 1 or (sure and self._run.turns.may_go_on()):
            return False
        entry, unmade, exchanges = self._run.turns.next_recorded(), self._next_unmade(), self._exchanges
        with exchanges.trusting_births(sure):
            if isinstance(entry, RecordedTurn) and exchanges.for_a_turn(entry, sure=sure):
                return True
            if not sure and exchanges.for_a_start():
                return True
            if unmade is None:
                return False
            missing = self.past.lanes[unmade.lane]
            return (
                exchanges.for_an_end(missing)
                or exchanges.for_a_missing_one(missing, self.first_unmade)
                or (not sure and exchanges.for_progress(missing))
            )

    def changed_places(self, tickets: list[OpenEffect]) -> None:
        """Lanes were bound to the records of each other, and wait for other answers now."""
        self._unmade_at = 0
        self.in_doubt = [ticket for ticket in self.in_doubt if ticket not in tickets]
        self.held = [ticket for ticket in self.held if ticket.recorded is None or ticket not in tickets]
        for ticket in tickets:
            if ticket.recorded is not None and ticket.recorded.answer is None:
                self._unanswered(ticket.recorded).append(ticket)

    def _unanswered(self, recorded: RecordedRequest) -> list[OpenEffect]:
        """Where requests go that the record has, without an answer."""
        return self.held if recorded.is_parents else self.in_doubt

    def _note_made(self, lane: Lane, recorded: RecordedRequest) -> None:
        recorded.made = True
        self.past.unmade -= 1
        if not lane.main:
            lane.made.append(recorded)

    def _made_again(self, ticket: OpenEffect, recorded: RecordedRequest) -> OpenEffect:
        self._note_made(ticket.lane, recorded)
        ticket.recorded, ticket.request_seq = recorded, recorded.seq
        if recorded.answer is None:
            self._unanswered(recorded).append(ticket)
        elif recorded.answer.kind == "ActionDenied":
            self.go_live_if_over()
            open_recorded(self._run, ticket.spec, recorded.answer)  # raises what was raised then
        elif not recorded.answer.handed:
            self._run.turns.expect(ticket.item)
        self._run.waiting.add(ticket)
        self.go_live_if_over()
        return ticket

    def _not_recorded(
        self, lane: Lane, spec: EffectSpec, event: Event, key: str | None, waiter: EffectWaiter
    ) -> OpenEffect | None:
        """A request that the record does not have, while the record still has something to come back to."""
        if self._run.journal is None:
            if self.past.unmade == 0 and self.past.is_open_ended:
                self._run.stop_here(record_ended(self._run))
            if not self._is_cut_off(lane):
                self._run.stop_here(unrecorded_request(self._run, lane, spec, event))
        elif self.past.unmade == 0:
            self.go_live_if_over()  # a run that never rests is not asked
            return None  # all recorded requests have been made again
        ticket = OpenEffect(lane, spec, key or "", event, waiter)
        self._run.waiting.add(ticket)
        self.held.append(ticket)
        return ticket

    @staticmethod
    def _is_cut_off(lane: Lane) -> bool:
        """A daemon thread polls faster in a replay, where its sleeps take no time: behind its last recorded request it
        has to wait for the program to end, as it did."""
        return lane.daemon and (lane.recorded is None or all(request.made for request in lane.recorded.requests))

    # State

    def check_state(self, lane: Lane, ordinal: int, event: StateUpdated) -> bool:
        """True: the record has this state already."""
        match = self.asked(event).match
        if lane.recorded is None:
            self._bound(lane, match, None)
        marks = self._marks(lane, ordinal, match)
        if ordinal < len(marks):
            if marks[ordinal].match not in (None, match):
                self._run.stop_here(conflicting_state(self._run, marks[ordinal], event))
            return True
        if self._run.journal is None:
            self._run.stop_here(beyond_the_record(self._run) or unrecorded_state(self._run, lane, event))
        return False

    def _marks(self, lane: Lane, ordinal: int, match: bytes) -> list[RecordedMark]:
        """The states of the lane's record, or of that of a sibling that was like it so far and has this one."""

        def has_it(place: RecordedLane) -> bool:
            return ordinal < len(place.marks) and place.marks[ordinal].match in (None, match)

        if lane.recorded is None:
            return []
        if not has_it(lane.recorded):
            lane.ordinals["state"] = ordinal  # this one is not yet among those that have to be the same
            self._exchanges.for_request(lane, has_it)
            lane.ordinals["state"] = ordinal + 1
        return lane.recorded.marks

    # The end of the record

    def why_it_rests(self) -> OnrecordError:
        """What to say of a run that cannot go on by its record."""
        return beyond_the_record(self._run) or resting_too_early(self._run)

    def accept(self) -> bool:
        """Drops what changed code does not ask for any more; False where that is not wanted."""
        if not self._accepts or self._run.journal is None or self._run.is_live:
            return False
        unmade = [request for request in self._by_seq if not request.made]
        order = self._run.turns.order
        turns = order.drop_unexpected({request.seq for request in unmade}) if order is not None else []
        self.past.drop(unmade)
        self._by_seq, self._unmade_at = [request for request in self._by_seq if request.made], 0
        for request in unmade:
            if request.answer is None:  # its key may be asked for again, so it must not stay open
                self._run.note(_closed(request), request.lane, CANCELLED)
        dropped: dict[str, list[Any]] = {"dropped": [request.seq for request in unmade], "turns": turns}
        checkpoints = order.drop_checkpoints() if order is not None else []
        if checkpoints:
            dropped["checkpoints"] = checkpoints
        self._run.note(ProcessAttached({"accepted": dropped}))
        self.go_live_if_over()
        self._run.turns.advance()
        return True

    def go_live_if_over(self) -> bool:
        """Once nothing of the record is left, everything goes its ordinary way. Never in a replay."""
        run = self._run
        if run.is_live or self.past.unmade or run.turns.next_recorded() is not None or run.journal is None:
            return run.is_live
        for item in run.turns.go_live(self._exchanges.holders.turns_beyond_the_record()):
            if item.ticket is None and item.kind not in (TIMER, SIGNAL, LATE, LATE_LOCK):  # these come by the clock
                run.turns.pending.append(item)
        held, self.held = self.held, []
        for ticket in held:
            if ticket.recorded is not None and not ticket.recorded.chunks:
                ticket.recorded = None  # otherwise it is a stream, read in part, which is told that it was cut off
            run.release(ticket)
        for call in run.on_live:
            call()
        self._decide_doubts()
        run.flush()
        return True

    def _decide_doubts(self) -> None:
        """Requests that were made and never answered, as far as the record knows."""
        doubts, self.in_doubt = self.in_doubt, []
        for ticket in doubts:
            recorded, spec, substitutes = ticket.recorded, ticket.spec, self._run.substitutes
            assert recorded is not None
            if substitutes is not None and not substitutes.may_have_begun(ticket):
                recorded.not_begun = True
            if not may_be_done_again(spec, recorded):
                self._run.stop(effect_in_doubt(self._run.name, spec, recorded))
                return
            is_carried_out = substitutes is None or substitutes.executes(spec)
            if spec.once and is_carried_out and not self._run.spend_settlement(ticket):
                return
            ticket.waiter.begin(ticket)


def _closed(request: RecordedRequest) -> Event:
    if request.kind == "WaitCreated":
        return WaitResolved(request.key, {"status": "cancelled", "value": "dropped"})
    if request.kind == "Interrupted":
        return Resumed("dropped")
    return ActionFailed(request.key, "dropped")


def _same(recorded: RecordedRequest, asked: MadeRequest) -> bool:
    return recorded.match in (asked.match, None) and recorded.kind == asked.event.kind
