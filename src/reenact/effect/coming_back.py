"""A run that comes back: what it asks for again is found in its record, until nothing of the record is left.

1. A request that the record has is answered from the record. With another input it is a divergence, and nothing runs.
2. Nothing new runs until every recorded request has been made again: it is held back. If the run comes to rest before
   that, it has diverged.
3. Then requests without an answer are decided about (`doubts`), what was held back begins, and the run is live.
4. Where changed code is accepted, what it does not ask for any more is dropped instead, once the run can go on no other
   way. What was dropped is on record: whoever comes back later drops it too.

All of this is called with the run's lock held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reenact.core.events import ActionFailed, Event, ProcessAttached, Resumed, StateUpdated, WaitResolved
from reenact.effect.divergences import (
    conflicting_request,
    conflicting_state,
    resting_too_early,
    unrecorded_request,
    unrecorded_state,
)
from reenact.effect.doubts import effect_in_doubt, may_be_done_again
from reenact.effect.outcomes import open_recorded
from reenact.effect.past import CANCELLED, TIMER, Past, RecordedRequest
from reenact.effect.stopping import RecordEnded
from reenact.effect.tickets import EffectSpec, Ticket, Waiter
from reenact.effect.turns import SIGNAL
from reenact.errors import ReenactError

if TYPE_CHECKING:
    from reenact.effect.lanes import Lane
    from reenact.effect.live_run import LiveRun

_BEYOND = 1 << 62


class Asked(NamedTuple):
    """A request as the record would have it."""

    event: Event
    match: bytes


class ComingBack:
    def __init__(self, run: LiveRun, past: Past, *, accepts: bool = False) -> None:
        self._run = run
        self.past = past
        self._accepts = accepts
        self._by_seq = sorted(past.by_key.values(), key=lambda request: request.seq)
        self._unmade_at = 0
        self.held: list[Ticket] = []
        """What the program asked for while the record lasted, and the record does not have."""
        self.in_doubt: list[Ticket] = []
        """Requests of the record without an answer that were made again."""

    def first_unmade(self) -> int:
        """Seq of the first recorded request that has not been made again; beyond all if there is none."""
        requests = self._by_seq
        while self._unmade_at < len(requests) and requests[self._unmade_at].made:
            self._unmade_at += 1
        return requests[self._unmade_at].seq if self._unmade_at < len(requests) else _BEYOND

    # Requests

    def asked(self, event: Event) -> Asked:
        return Asked(event, self._run.rules.match_of(event.kind, event.content()))

    def at_once(self, lane: Lane, spec: EffectSpec, asked: Asked) -> RecordedRequest | None:
        """The usual case, served without waiting: the next thing of the record answers exactly this request, and
        nothing else could happen before. None: the long way has to be gone."""
        entry = self._run.turns.next_recorded()
        if type(entry) is not RecordedRequest or entry.made or entry.match != asked.match or lane.recorded is None:
            return None
        answer = entry.answer
        expected = f"{lane.path}/{spec.name}/{lane.ordinals.get(spec.name, 0)}"
        if answer is None or entry.key != expected or self.first_unmade() != entry.seq:
            return None
        entry.made = True
        if self.first_unmade() < answer.seq or self._run.turns.forced(entry):
            entry.made = False
            self._unmade_at = 0
            return None
        self._note_made(lane, entry)
        lane.next_ordinal(spec.name)
        self._run.turns.handed(entry)
        self.go_live_if_over()
        return entry

    def find(self, lane: Lane, spec: EffectSpec, asked: Asked, key: str | None, waiter: Waiter) -> Ticket | None:
        """The ticket of a request that the record has, or that is held back. None: it is new, and may run."""
        book, event = self._run.book, asked.event
        if lane.recorded is None and not book.bind(lane, asked.match, key):
            return self._not_recorded(lane, spec, event, key, waiter)
        ordinal = lane.next_ordinal(spec.name)
        recorded = self.past.by_key.get(key or f"{lane.path}/{spec.name}/{ordinal}")
        if recorded is None or recorded.made or not _same(recorded, asked):
            found = book.exchange(lane, asked.match)
            if found is None:
                if recorded is not None and not recorded.made and not self._accepts:
                    self._run.stop_here(conflicting_request(self._run, recorded, event))
                lane.ordinals[spec.name] = ordinal  # it was not the record's
                return self._not_recorded(lane, spec, event, key, waiter)
            recorded = found
        return self._made_again(Ticket(lane, spec, recorded.key, event, waiter), recorded)

    def _note_made(self, lane: Lane, recorded: RecordedRequest) -> None:
        recorded.made = True
        self.past.unmade -= 1
        if lane.path != "0":
            lane.made.append(recorded)

    def _made_again(self, ticket: Ticket, recorded: RecordedRequest) -> Ticket:
        self._note_made(ticket.lane, recorded)
        ticket.recorded, ticket.request_seq = recorded, recorded.seq
        if recorded.answer is None:
            self.in_doubt.append(ticket)
        elif recorded.answer.kind == "ActionDenied":
            self.go_live_if_over()
            open_recorded(self._run, ticket.spec, recorded.answer)  # raises what was raised then
        elif not recorded.answer.handed:
            self._run.turns.expect(ticket.item)
        self._run.waiting.add(ticket)
        self.go_live_if_over()
        return ticket

    def _not_recorded(
        self, lane: Lane, spec: EffectSpec, event: Event, key: str | None, waiter: Waiter
    ) -> Ticket | None:
        """A request that the record does not have, while the record still has something to come back to."""
        if self._run.journal is None:
            if self.past.end is None and self.past.unmade == 0:
                self._run.stop_here(self._record_ended())
            self._run.stop_here(unrecorded_request(self._run, lane, spec, event))
        if self.past.unmade == 0:
            return None  # all recorded requests have been made again
        ticket = Ticket(lane, spec, key or "", event, waiter)
        self._run.waiting.add(ticket)
        self.held.append(ticket)
        return ticket

    # State

    def check_state(self, lane: Lane, ordinal: int, event: StateUpdated) -> bool:
        """True: the record has this state already."""
        match = self.asked(event).match
        if lane.recorded is None:
            self._run.book.bind(lane, match, None)
        marks = lane.recorded.marks if lane.recorded is not None else []
        if ordinal < len(marks):
            if marks[ordinal].match not in (None, match):
                self._run.stop_here(conflicting_state(self._run, marks[ordinal], event))
            return True
        if self._run.journal is None:
            self._run.stop_here(unrecorded_state(self._run, lane, event))
        return False

    # The end of the record

    def _record_ended(self) -> RecordEnded:
        return RecordEnded(f"the record of run {self._run.name} ends at seq {self.past.last_seq}, before its end")

    def why_it_rests(self) -> ReenactError:
        """What to say of a run that cannot go on by its record."""
        if self.past.unmade == 0 and self._run.turns.next_recorded() is None and self.past.end is None:
            return self._record_ended()
        return resting_too_early(self._run)

    def accept(self) -> bool:
        """Drops what changed code does not ask for any more; False where that is not wanted."""
        if not self._accepts or self._run.journal is None or self._run.is_live:
            return False
        unmade = [request for request in self._by_seq if not request.made]
        turns = self._run.turns.drop_unexpected({request.seq for request in unmade})
        self.past.drop(unmade)
        self._by_seq, self._unmade_at = [request for request in self._by_seq if request.made], 0
        for request in unmade:
            if request.answer is None:  # its key may be asked for again, so it must not stay open
                self._run.note(_closed(request), request.lane, CANCELLED)
        dropped = {"dropped": [request.seq for request in unmade], "turns": turns}
        self._run.note(ProcessAttached({"accepted": dropped}))
        self.go_live_if_over()
        self._run.turns.advance()
        return True

    def go_live_if_over(self) -> bool:
        """Once nothing of the record is left, everything goes its ordinary way. Never in a replay."""
        run = self._run
        if run.is_live or self.past.unmade or run.turns.next_recorded() is not None or run.journal is None:
            return run.is_live
        for item in run.turns.go_live():
            if item.ticket is None and item.kind not in (TIMER, SIGNAL):
                run.turns.pending.append(item)
        held, self.held = self.held, []
        for ticket in held:
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
            assert ticket.recorded is not None
            if may_be_done_again(ticket.spec, ticket.recorded):
                if ticket.spec.once and not self._run.spend_settlement(ticket):
                    return
                ticket.waiter.begin(ticket)
            else:
                self._run.stop(effect_in_doubt(self._run.name, ticket.spec, ticket.recorded))
                return


def _closed(request: RecordedRequest) -> Event:
    if request.kind == "WaitCreated":
        return WaitResolved(request.key, {"status": "cancelled", "value": "dropped"})
    if request.kind == "Interrupted":
        return Resumed("dropped")
    return ActionFailed(request.key, "dropped")


def _same(recorded: RecordedRequest, asked: Asked) -> bool:
    return recorded.match in (asked.match, None) and recorded.kind == asked.event.kind
