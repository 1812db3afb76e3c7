"""A run in this process: what the agent asks for is looked up in its past, or written down and carried out.

Rules:

1. A request is committed before its effect starts: without waiting for the disk, but with it for effects that may
   happen at most once. Its answer is on the disk before the agent sees it.
2. A request that the record has is answered from the record. With another input it is a divergence, and nothing runs.
3. Nothing new runs until every recorded request has been made again; if the run comes to rest before that, it diverged.
4. A replay has no live path at all: what the record does not have is a divergence.
5. One lock for the run. Whatever is decided here is decided with it held; effects run without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from reenact.core.codec import encode
from reenact.core.events import (
    ActionDenied,
    ActionRequested,
    Event,
    SignalReceived,
    StateUpdated,
    TurnTaken,
    ValuesDrawn,
)
from reenact.core.matching import MatchRules
from reenact.effect.divergences import (
    conflicting_request,
    conflicting_state,
    resting_too_early,
    unrecorded_request,
    unrecorded_state,
)
from reenact.effect.doubts import effect_in_doubt, may_be_done_again
from reenact.effect.lanes import Lane, LaneBook
from reenact.effect.outcomes import open_answer
from reenact.effect.past import CANCELLED, TIMER, Past, RecordedRequest
from reenact.effect.places import HERE
from reenact.effect.secrets import replaced
from reenact.effect.stopping import Divergence, RecordEnded, RunStopped, Superseded
from reenact.effect.tickets import EffectSpec, Ticket, Waiter
from reenact.effect.turns import SIGNAL, Item, Turns
from reenact.effect.waits import WaitDesk
from reenact.errors import OutcomeUnknown, ReenactError, StaleEpoch
from reenact.journal.chain import Draft
from reenact.journal.journal import Journal
from reenact.journal.reader import JournalReader

_BEYOND = 1 << 62
MakeEvent = Callable[[str], Event]
"""The request as an event, given its key."""


class LiveRun:
    def __init__(
        self,
        reader: JournalReader,
        *,
        past: Past | None = None,
        guard: Callable[[EffectSpec, Event], ReenactError | None] | None = None,
    ) -> None:
        self.reader = reader
        self.journal = reader if isinstance(reader, Journal) else None
        """None in a replay: there is nothing to write to, and so nothing can be done live."""
        self.past = past
        self.lock = threading.RLock()
        self.book = LaneBook(past)
        self.turns = Turns(self.lock, past, self.book, self)
        self.root = Lane(self, None)
        self.book.tie_root(self.root)
        self._rules: MatchRules = reader.rules()
        self._guard = guard
        self._outbox: list[Draft] = []
        self._outbox_tickets: list[Ticket] = []
        self._draws: list[list[Any]] = []
        self._held: list[Ticket] = []
        self._unmade_at = 0
        self._requests_by_seq = sorted(past.by_key.values(), key=lambda request: request.seq) if past else []
        self._explicit: dict[str, Ticket] = {}
        self._waiting: set[Ticket] = set()
        self.in_doubt: list[Ticket] = []
        """Requests of the past without an answer that were made again; decided about when the record has ended."""
        self.stopped: ReenactError | None = None
        self.ended = False
        self.state: Any = None
        self._cancel: Item | None = None
        self._desk: WaitDesk | None = None
        self._secrets: dict[str, str] = {}
        self.records_threads = True
        self.has_threads = False
        self.main_token = object()
        """What turns know the agent's first thread by, once there are others."""
        self.now_us = past.last_time if past else 0
        self.on_stop: list[Callable[[], None]] = []
        self.on_live: list[Callable[[], None]] = []
        self.came_to_rest: Callable[[], None] | None = None
        """Called when the run rests and the record cannot go on: the watchdog."""
        if past is not None and not past.by_key and not past.hand_overs:
            self._go_live_if_over()

    # Being asked

    @property
    def is_stopped(self) -> bool:
        return self.stopped is not None or self.ended

    @property
    def is_live(self) -> bool:
        """Nothing of the record is left to come back to."""
        return not self.turns.replaying

    @property
    def name(self) -> str:
        return self.reader.run

    def check_going_on(self) -> None:
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        if self.ended:
            raise ReenactError(
                f"run {self.name} has ended; nothing can be done in its name any more",
                hint="Wait for what the agent started before it returns.",
                code="run_ended",
            )

    def request(self, lane: Lane, spec: EffectSpec, make: MakeEvent, *, key: str | None, waiter: Waiter) -> Ticket:
        """The agent asks for an effect. The ticket's waiter is woken when the answer is to be handed over."""
        with self.lock:
            self.check_going_on()
            self.turns.requests_made += 1
            ticket = self._from_record(lane, spec, make, key, waiter) if not self.is_live else None
            return ticket if ticket is not None else self._new_request(lane, spec, make, key, waiter)

    def _from_record(
        self, lane: Lane, spec: EffectSpec, make: MakeEvent, key: str | None, waiter: Waiter
    ) -> Ticket | None:
        event = self._without_secrets(make(""))
        encoded = encode(event.content())
        match = self._rules.match(event.kind, encoded.tree, even=encoded.even)
        if lane.recorded is None and not self.book.bind(lane, match, key):
            return self._not_recorded(lane, spec, make, key, waiter)
        ordinal = lane.next_ordinal(spec.name)
        recorded = self.past.by_key.get(key or f"{lane.path}/{spec.name}/{ordinal}") if self.past else None
        if recorded is None or recorded.made or recorded.match not in (match, None) or recorded.kind != event.kind:
            found = self.book.exchange(lane, match)
            if found is None:
                if recorded is not None and not recorded.made:
                    self.stop(conflicting_request(self, recorded, event))
                    raise RunStopped(self.stopped or Divergence("stopped"))
                lane.ordinals[spec.name] = ordinal  # it was not the record's
                return self._not_recorded(lane, spec, make, key, waiter)
            recorded = found
        return self._made_again(Ticket(lane, spec, recorded.key, event, waiter), recorded)

    def _made_again(self, ticket: Ticket, recorded: RecordedRequest) -> Ticket:
        assert self.past is not None
        recorded.made = True
        self.past.unmade -= 1
        if ticket.lane.path != "0":
            ticket.lane.made.append(recorded)
        ticket.recorded, ticket.request_seq = recorded, recorded.seq
        self._waiting.add(ticket)
        if recorded.answer is None:
            self.in_doubt.append(ticket)
        elif recorded.answer.kind == "ActionDenied":
            self._waiting.discard(ticket)
            self._go_live_if_over()
            open_answer(self, ticket)
        elif not recorded.answer.handed:
            self.turns.expect(ticket.item)
        self._go_live_if_over()
        return ticket

    def _not_recorded(
        self, lane: Lane, spec: EffectSpec, make: MakeEvent, key: str | None, waiter: Waiter
    ) -> Ticket | None:
        """A request that the record does not have, while the record still has something to come back to."""
        if self.journal is None:
            self.stop(unrecorded_request(self, lane, spec, make("")))
            raise RunStopped(self.stopped or Divergence("stopped"))
        if self.past is not None and self.past.unmade == 0:
            return None  # all recorded requests have been made again: this one is new, and may run
        ticket = Ticket(lane, spec, key or "", self._without_secrets(make("")), waiter)
        self._waiting.add(ticket)
        self._held.append(ticket)
        return ticket

    def _new_request(self, lane: Lane, spec: EffectSpec, make: MakeEvent, key: str | None, waiter: Waiter) -> Ticket:
        path = self.book.number(lane)
        first = not lane.ordinals and lane.name is not None
        ordinal = lane.next_ordinal(spec.name)
        key = key or f"{path}/{spec.name}/{ordinal}"
        event = self._without_secrets(make(key))
        if first and isinstance(event, ActionRequested):
            event = ActionRequested(
                event.action_id, event.payload, event.name, event.effect, {**(event.meta or {}), "lane": lane.name}
            )
        self._ask_guard(path, spec, event, key)
        ticket = Ticket(lane, spec, key, event, waiter)
        self._waiting.add(ticket)
        self._outbox.append(Draft(event, lane=path, key=key))
        self._outbox_tickets.append(ticket)
        return ticket

    def _ask_guard(self, path: str, spec: EffectSpec, event: Event, key: str) -> None:
        """Policy is asked before anything is recorded as an effect; a denial is an event of its own."""
        refusal = self._guard(spec, event) if self._guard is not None else None
        if refusal is None:
            return
        members = event.content()
        asked = {"name": members.get("name"), "effect": members.get("effect")}
        denial = ActionDenied(key, {"code": refusal.code, "message": refusal.message, **asked}, members.get("payload"))
        self._write([Draft(denial, lane=path, key=key)], sync=True)
        raise refusal

    # Writing

    def flush(self) -> None:
        """Commits what was asked for since the last time, then begins to carry it out."""
        with self.lock:
            if self.is_stopped or not self._outbox_tickets:
                return
            tickets, self._outbox_tickets = self._outbox_tickets, []
            if self._write((), sync=any(ticket.spec.syncs_request for ticket in tickets)):
                for ticket in tickets:
                    ticket.waiter.begin(ticket)

    def _write(self, drafts: Sequence[Draft], *, sync: bool) -> bool:
        """Everything that waits to be written, then the drafts, in one batch. False: the run has stopped over it."""
        assert self.journal is not None
        sync = sync or any(ticket.spec.syncs_request for ticket in self._outbox_tickets)
        batch: list[Draft] = []
        if self.turns.log:
            batch.append(Draft(TurnTaken(self.turns.log)))
            self.turns.log = []
        if self._draws:
            batch.append(Draft(ValuesDrawn(self._draws)))
            self._draws = []
        batch += self._outbox
        batch += drafts
        self._outbox = []
        if not batch:
            return True
        try:
            self._append(batch, sync)
        except StaleEpoch:
            self.stop(Superseded(f"run {self.name} was taken over by another process"))
            return False
        except ReenactError as error:
            self.stop(error)
            return False
        return True

    def _append(self, batch: list[Draft], sync: bool) -> None:
        assert self.journal is not None
        before, token = self.journal.position, HERE.token
        HERE.token = None  # whatever the store waits for is no rest of the agent
        try:
            appended = self.journal.append(batch, sync=sync)
        except OutcomeUnknown:
            # Looked up, never blindly repeated: nobody else can have appended under our epoch.
            self.journal.reopen()
            if self.journal.position == before:
                self.journal.append(batch, sync=sync)
            elif sync:
                self.journal.store.sync()
            return
        finally:
            HERE.token = token
        self.now_us = appended[-1].time

    def note(self, event: Event, lane: Lane) -> None:
        """An event that is written with the next commit."""
        with self.lock:
            if self.journal is not None and self.is_live:
                self._outbox.append(Draft(event, lane=self.book.number(lane)))

    def note_now(self, event: Event, lane: Lane) -> None:
        """An event that has to outlive this process, from within an effect."""
        with self.lock:
            if not self.is_stopped and self.journal is not None:
                self._write([Draft(event, lane=lane.path or "0")], sync=False)

    # Answers

    def answered(self, ticket: Ticket, answer: Event, error: BaseException | None = None) -> None:
        """The effect has been carried out. The answer is committed and handed over when its turn comes."""
        with self.lock:
            if self.is_stopped or ticket not in self._waiting:
                return
            ticket.answer, ticket.error = answer, error
            self.turns.arrive(ticket.item)

    # Being told to end

    def cancel_asked(self) -> None:
        """Somebody wants the run to end: that is handed to the agent in its turn, like an answer."""
        with self.lock:
            if self.is_stopped or self._cancel is None or self._cancel.ticket is not None:
                return
            spec = EffectSpec("cancel", "await_event", once=False)
            ticket = Ticket(self.root, spec, "", SignalReceived("cancel", None), _Nobody())
            ticket.answer, ticket.item = ticket.event, self._cancel
            self._cancel.ticket = ticket
            if self.is_live:
                self.turns.arrive(self._cancel)

    def on_cancel(self, cancel: Callable[[], None]) -> None:
        """What is to be done when the run is told to end."""
        self._cancel = Item(SIGNAL, self.root, 0, cancel, looped=True)
        if not self.is_live:
            self.turns.expect(self._cancel)

    # Secrets: wait keys may be in anything that the agent sends, and must not be in the record

    def desk(self) -> WaitDesk:
        with self.lock:
            if self._desk is None:
                self._desk = WaitDesk(self.reader.store, self.reader.namespace)
            return self._desk

    def keep_secret(self, secret: str, stand_in: str) -> None:
        with self.lock:
            self._secrets[secret] = stand_in

    def name_of_waits(self, name: str) -> str:
        return f"{self.name}/{name}"

    def _without_secrets(self, event: Event) -> Event:
        if not self._secrets:
            return event
        members = {name: getattr(event, name) for name in event.__struct_fields__}
        return type(event)(**{name: replaced(value, self._secrets) for name, value in members.items()})

    def commit_answers(self, items: list[Item]) -> bool:
        drafts: list[Draft] = []
        for item in items:
            assert item.ticket is not None
            assert item.ticket.answer is not None
            drafts.append(Draft(self._without_secrets(item.ticket.answer), lane=item.ticket.lane.path or "0"))
        if not self._write(drafts, sync=True):
            return False
        assert self.journal is not None
        first = self.journal.position - len(items) + 1
        for offset, item in enumerate(items):
            assert item.ticket is not None
            item.committed, item.ticket.answer_seq = True, first + offset
        return True

    def answer_at_once(self, ticket: Ticket, answer: Event, error: BaseException | None = None) -> None:
        """A blocking call inside the loop, or the only thread there is: nobody else's turn can come before."""
        with self.lock:
            self.check_going_on()
            ticket.answer, ticket.error = answer, error
            if not self._write([Draft(self._without_secrets(answer), lane=ticket.lane.path or "0")], sync=True):
                self.check_going_on()
            assert self.journal is not None
            ticket.answer_seq = self.journal.position
            self._waiting.discard(ticket)

    def abandoned(self, ticket: Ticket, reason: BaseException) -> None:
        """The agent itself has cancelled the request."""
        with self.lock:
            self._waiting.discard(ticket)
            self.turns.forget(ticket.item)
            if ticket.recorded is not None and ticket.recorded.answer is not None:
                ticket.recorded.answer.handed = True
            elif ticket in self._held:
                self._held.remove(ticket)
            elif not ticket.answer_seq and not self.is_stopped and self.journal is not None and self.is_live:
                cancelled = ticket.spec.answers.cancelled(ticket.key, reason)
                self._outbox.append(Draft(cancelled, lane=ticket.lane.path or "0", key=CANCELLED))
            elif ticket in self.in_doubt:
                self.in_doubt.remove(ticket)

    def taken(self, ticket: Ticket) -> None:
        """The agent has its answer."""
        with self.lock:
            self._waiting.discard(ticket)
            if self.past is not None and not self.is_live:
                self._go_live_if_over()

    # Values that are drawn and need no commit of their own

    def draw(self, lane: Lane, kind: str, make: Callable[[], Any]) -> Any:
        with self.lock:
            self.check_going_on()
            ordinal = lane.next_ordinal(f"draw:{kind}")
            if self.past is not None:
                drawn = self.past.draws.get((lane.identity, kind), ())
                if ordinal < len(drawn):
                    return drawn[ordinal]
            if self.journal is None:
                self.stop(Divergence(f"the record has no further {kind} for lane {lane.identity}", lane=lane.identity))
                self.check_going_on()
            value = make()
            self._draws.append([lane.identity, kind, value])
            return value

    # State

    def update_state(self, lane: Lane, event: StateUpdated) -> None:
        """The agent sets its state; when the run comes back it must set what it set before."""
        with self.lock:
            self.check_going_on()
            ordinal, match = lane.next_ordinal("state"), None
            if not self.is_live:
                match = self._rules.match("StateUpdated", encode(event.content()).tree)
                if lane.recorded is None:
                    self.book.bind(lane, match, None)
            marks = lane.recorded.marks if lane.recorded is not None else []
            if ordinal < len(marks):
                recorded = marks[ordinal]
                if match is not None and recorded.match not in (None, match):
                    self.stop(conflicting_state(self, recorded, event))
                    self.check_going_on()
            elif self.journal is None:
                self.stop(unrecorded_state(self, lane, event))
                self.check_going_on()
            else:
                self._outbox.append(Draft(event, lane=self.book.number(lane)))
            self.state = event.payload

    # Coming back

    def first_unmade(self) -> int:
        requests = self._requests_by_seq
        while self._unmade_at < len(requests) and requests[self._unmade_at].made:
            self._unmade_at += 1
        return requests[self._unmade_at].seq if self._unmade_at < len(requests) else _BEYOND

    def reached(self, time_us: int) -> None:
        self.now_us = max(self.now_us, time_us)

    def at_rest(self) -> None:
        if self._go_live_if_over() or self.came_to_rest is None:
            return
        self.came_to_rest()

    def stands_still(self) -> None:
        """The watchdog's word: the run has been resting for a while and the record cannot go on."""
        with self.lock:
            if not self.is_stopped and not self.is_live and not self.turns.is_busy():
                self.stop(self._rest_of_the_record())

    def stands_still_at(self, ticket: Ticket) -> None:
        """A blocking call that the record cannot answer, while nothing else of the run can go on."""
        self.stop(self._rest_of_the_record())

    def _rest_of_the_record(self) -> ReenactError:
        assert self.past is not None
        if self.past.unmade == 0 and self.turns.next_recorded() is None:
            return RecordEnded(f"the record of run {self.name} ends at seq {self.past.last_seq}, before its end")
        return resting_too_early(self)

    def _go_live_if_over(self) -> bool:
        """Once nothing of the record is left, everything goes its ordinary way."""
        if self.is_live or self.past is None or self.past.unmade or self.turns.next_recorded() is not None:
            return self.is_live
        if self.journal is None:
            return False
        waiting = self.turns.go_live()
        for item in waiting:
            if item.ticket is None and item.kind != TIMER:
                self.turns.pending.append(item)
        held, self._held = self._held, []
        for ticket in held:
            self._release(ticket)
        for call in self.on_live:
            call()
        self._decide_doubts()
        self.flush()
        return True

    def _decide_doubts(self) -> None:
        """Requests that were made and never answered, as far as the record knows."""
        doubts, self.in_doubt = self.in_doubt, []
        for ticket in doubts:
            assert ticket.recorded is not None
            if may_be_done_again(ticket.spec, ticket.recorded):
                ticket.waiter.begin(ticket)
            else:
                self.stop(effect_in_doubt(self.name, ticket.spec, ticket.recorded))
                return

    def held_name(self) -> str:
        """What the program asked for while the record lasted, and the record does not have."""
        return self._held[0].spec.name if self._held else ""

    def _release(self, ticket: Ticket) -> None:
        """A request that was held back while the record lasted."""
        path = self.book.number(ticket.lane)
        ordinal = ticket.lane.next_ordinal(ticket.spec.name)
        ticket.key = ticket.key or f"{path}/{ticket.spec.name}/{ordinal}"
        self._outbox.append(Draft(_with_key(ticket.event, ticket.key), lane=path, key=ticket.key))
        self._outbox_tickets.append(ticket)

    # The end

    def stop(self, reason: ReenactError) -> None:
        """Nothing goes on from here; everyone who waits is told why."""
        with self.lock:
            if self.is_stopped:
                return
            self.stopped = reason
            waiting, self._waiting = self._waiting, set()
            for ticket in waiting:
                ticket.waiter.wake()
            for call in self.on_stop:
                call()

    def end(self, event: Event) -> None:
        """The terminal event; afterwards nothing is accepted."""
        with self.lock:
            self.check_going_on()
            if not self._write([Draft(event)], sync=True):
                self.check_going_on()
            self.ended = True


class _Nobody:
    """Waits for nothing: what is handed over is not an answer."""

    looped = True

    def begin(self, ticket: Ticket) -> None: ...

    def wake(self) -> None: ...


def _with_key(event: Event, key: str) -> Event:
    members = {name: getattr(event, name) for name in event.__struct_fields__}
    if event.pair_id is not None:
        members[event.pair_id] = key
    return type(event)(**members)
