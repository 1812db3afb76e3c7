"""A run in this process: what the agent asks for is looked up in its past, or written down and carried out.

Rules:

1. A request is committed before its effect starts: without waiting for the disk, but with it for effects that may
   happen at most once. Its answer is on the disk before the agent sees it.
2. A run that comes back is answered from its record (`replay.replayer`) as long as there is one.
3. A replay has no live path at all: what the record does not have is a divergence.
4. One lock for the run. Whatever is decided here is decided with it held; effects run without it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol
from weakref import WeakSet

from onrecord.core.canonical import parse_stored, stored_bytes
from onrecord.core.codec import decode, encode
from onrecord.core.events import ActionDenied, ActionRequested, AttemptRecorded, Event, StateUpdated
from onrecord.core.matching import MatchRules
from onrecord.core.wait_keys import WaitIdentity
from onrecord.errors import InvalidInput, OnrecordError, StaleEpoch
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.runtime.api.policy import PolicyGuard
from onrecord.runtime.engine.answers import Answering
from onrecord.runtime.engine.caller_keys import CallerKeys
from onrecord.runtime.engine.cancellation import Cancelling
from onrecord.runtime.engine.client_retries import ClientRetries
from onrecord.runtime.engine.context import nowhere
from onrecord.runtime.engine.open_effect import EffectSpec, EffectWaiter, MakeEvent, OpenEffect
from onrecord.runtime.engine.stops import Denied, Divergence, RunStopped, Superseded, Suspended
from onrecord.runtime.engine.writer import RunWriter
from onrecord.runtime.forks.substitutes import Substitutes
from onrecord.runtime.replay.checkpoint_entry import Carrier, come_in_behind, left_behind
from onrecord.runtime.replay.divergence import advise, beyond_the_record
from onrecord.runtime.replay.history import History
from onrecord.runtime.replay.loose_match import LooseMatch
from onrecord.runtime.replay.records import RecordedRequest
from onrecord.runtime.replay.replayer import MadeRequest, Replayer
from onrecord.runtime.scheduler.lanes import Lane, LaneBook
from onrecord.runtime.scheduler.scheduler import Scheduler
from onrecord.runtime.secrets.run_secrets import load_secrets

if TYPE_CHECKING:  # loaded with the first wait
    from onrecord.runtime.waits import WaitRegistry


class LiveRun(Answering):
    def __init__(
        self,
        reader: JournalReader,
        *,
        past: History | None = None,
        accepts_code: bool = False,
        guard: PolicyGuard | None = None,
    ) -> None:
        self.reader = reader
        self.journal = reader if isinstance(reader, Journal) else None
        """None in a replay: there is nothing to write to, and so nothing can be done live."""
        self.past = past
        self.lock = threading.RLock()
        self.book = LaneBook(past)
        self.turns = Scheduler(self.lock, past, self.book, self)
        self.root = Lane(self, None)
        self.book.tie_root(self.root)
        self.main = self.root
        """The lane that the agent's own code is in: another one behind each checkpoint."""
        self.carrier: Carrier | None = None
        """The thread, and the task, that the agent's own code runs in."""
        self.rules: MatchRules = reader.rules()
        self.substitutes: Substitutes | None = None
        """Whose record answers instead of the world, in the tail of a fork and in a live replay."""
        self.guard = guard
        if guard is not None and past is not None:
            guard.adopt_history(past)
        self._pen = RunWriter(self.journal) if self.journal is not None else None
        if self.journal is not None and past is not None:
            self.journal.adopt_history(past.last_seq, past.unfinished())
            if past.beginning is not None:
                self.journal.adopt_lanes(past.last_seq, [row for row in past.lane_ends.values() if row.seq > 0])
        self._tries = ClientRetries(self)
        self.loose = LooseMatch(self)
        """What a replay may tolerate: nothing, unless it is told."""
        self._requested: list[OpenEffect] = []
        """Asked for, and not yet on record."""
        self._requests_sync = False
        """One of them may not begin before it is on the disk."""
        self._own_keys = CallerKeys(self)
        self.waiting: set[OpenEffect] = set()
        self.streams: WeakSet[LeftAtTheEnd] = WeakSet()
        """Those that were begun; the agent may let go of them unread."""
        self.is_stopped = False
        """For whatever reason, its end included."""
        self.stopped: OnrecordError | None = None
        self.interrupted_by: BaseException | None = None
        self.ended = False
        self.was_let_go = False
        self.state: Any = None
        self.restored: Any = None
        """The state of the last checkpoint that was passed."""
        self.snapshots_kept: list[int] | None = None
        """Where there are snapshots of checkpoints, once somebody has looked."""
        self.cancelling = Cancelling(self)
        self._desk: WaitRegistry | None = None
        self.secrets = load_secrets(reader)
        """Wait keys may be in anything that the agent sends, and must not be in the record."""
        if self.secrets.redacts and past is not None:
            past.opens_parts = functools.partial(self.secrets.unseal_chunk, past, needed=self.journal is not None)
        self.calls_agents_inline = False
        """An agent that is called here is no run of its own: what it does is done in the lane that calls it."""
        self.has_threads = False
        self.begins_with_threads = False
        """It had some before the checkpoint that it begins with."""
        self.main_token = object()
        """What turns know the agent's first thread by, once there are others."""
        self.now_us = reader.header_row.created
        """Where the run's clock stands while it comes back."""
        self.on_stop: list[Callable[[], None]] = []
        self.on_live: list[Callable[[], None]] = []
        self.came_to_rest: Callable[[], None] | None = None
        """Called when the run rests and the record cannot go on: the watchdog."""
        if past is not None and past.beginning is not None:
            come_in_behind(self, past, past.beginning)
        if past is not None:
            past.on_damage = self.stop_here
        self.coming_back = Replayer(self, past, accepts=accepts_code) if past is not None else None
        self.accepts_code = accepts_code
        """Also for the runs that it has called, and goes on with."""
        if self.coming_back is not None:
            self.coming_back.go_live_if_over()

    # Being asked

    @property
    def touches_nothing(self) -> bool:
        """It has only records to go by: a replay, and a fork whose tail is not carried out."""
        return self.journal is None or (self.substitutes is not None and self.substitutes.executes_nothing)

    @property
    def is_being_changed(self) -> bool:
        """By the calling thread, which holds the lock."""
        return bool(self.lock._is_owned())  # type: ignore[attr-defined]

    @property
    def is_live(self) -> bool:
        """Nothing of the record is left to come back to."""
        return not self.turns.replaying

    @property
    def is_alone(self) -> bool:
        """Nothing is under way but the step that is being taken, and nothing of the run has still to come."""
        turns, loop = self.turns, self.turns.loop
        expected = turns.order.expected.values() if turns.order is not None else ()
        return not (
            self._requested
            or self.waiting
            or turns.pending
            or any(item.ticket is None and item is not self.cancelling.item for item in expected)
            or (loop is not None and (loop.ready or loop.timers))
            or self.book.has_branches()
        )

    @property
    def is_waiting(self) -> bool:
        """Nothing goes on but waiting for a word from outside."""
        with self.lock:
            waits = self.is_live and not self.turns.is_busy() and bool(self.waiting) and not self.turns.pending
            return waits and all(ticket.spec.kind == "await_event" for ticket in self.waiting)

    @property
    def name(self) -> str:
        return self.reader.run

    def check_going_on(self) -> None:
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        if self.ended:
            raise OnrecordError(
                f"run {self.name} has ended; nothing can be done in its name any more",
                hint="Wait for what the agent started before it returns.",
                code="run_ended",
            )

    def stop_here(self, reason: OnrecordError) -> NoReturn:
        """Stops the run and says so to whoever has just asked."""
        self.stop(reason)
        raise RunStopped(reason)

    def serve_at_once(
        self, lane: Lane, spec: EffectSpec, make: MakeEvent, key: str | None
    ) -> MadeRequest | RecordedRequest:
        """While the run comes back: the recorded request, if nothing can happen before its answer is handed over;
        otherwise what was asked, for `request`."""
        with self.lock:
            if self.is_stopped:
                self.check_going_on()
            if self.secrets.active:
                spec = self.secrets.redact_spec(spec)
            assert self.coming_back is not None
            event = make("")
            asked = self.coming_back.asked(self.secrets.redact_event(event) if self.secrets.active else event)
            if not self.turns.replaying or key is not None or not self.turns.is_quiet():
                return asked
            recorded = self.coming_back.at_once(lane, spec, asked)
            if recorded is None:
                return asked
            self.turns.requests_made += 1
            return recorded

    def request(
        self,
        lane: Lane,
        spec: EffectSpec,
        make: MakeEvent,
        *,
        key: str | None,
        waiter: EffectWaiter,
        asked: MadeRequest | None = None,
    ) -> OpenEffect:
        """The agent asks for an effect. The ticket's waiter is woken when the answer is to be handed over."""
        with self.lock:
            if self.is_stopped:
                self.check_going_on()
            if lane.left:
                raise left_behind()
            if self.secrets.active:
                spec, key = self.secrets.redact_spec(spec), self.secrets.redact_value(key)
            if key is not None:
                used = self._own_keys.used_before(lane, spec, key, make)
                if used is not None:
                    return used
            self.turns.requests_made += 1
            if key is None:
                return self._looked_up_or_new(lane, spec, make, None, waiter, asked)
            try:
                ticket = self._looked_up_or_new(lane, spec, make, key, waiter, asked)
            except Denied as denial:
                self._own_keys.remember_denied(lane, spec, key, make, denial)
                raise
            self._own_keys.remember(key, make, ticket)
            return ticket

    def _looked_up_or_new(
        self,
        lane: Lane,
        spec: EffectSpec,
        make: MakeEvent,
        key: str | None,
        waiter: EffectWaiter,
        asked: MadeRequest | None,
    ) -> OpenEffect:
        ticket = None
        if self.turns.replaying and self.coming_back is not None:
            asked = asked or self.coming_back.asked(self.secrets.redact_event(make("")))
            ticket = self.coming_back.find(lane, spec, asked, key, waiter)
        return ticket if ticket is not None else self._new_request(lane, spec, make, key, waiter)

    def _new_request(
        self, lane: Lane, spec: EffectSpec, make: MakeEvent, key: str | None, waiter: EffectWaiter
    ) -> OpenEffect:
        path, loop = lane.path or self.book.number(lane), self.turns.loop
        first = not lane.ordinals and lane.name is not None
        ordinal = lane.next_ordinal(spec.name)
        key = key or f"{path}/{spec.name}/{ordinal}"
        event = make(key)
        if self.secrets.active:
            event = self.secrets.redact_event(event)
        if loop is not None and loop.ready and isinstance(event, ActionRequested):
            event = self._kept(event)
        if first and isinstance(event, ActionRequested):
            event = ActionRequested(
                event.action_id, event.payload, event.name, event.effect, meta={**(event.meta or {}), "lane": lane.name}
            )
        if self.guard is not None:
            self._ask_guard(path, spec, event, key)
        ticket = OpenEffect(lane, spec, key, event, waiter)
        self.waiting.add(ticket)
        self._add_request(ticket, event, path, key)
        return ticket

    def _add_request(self, ticket: OpenEffect, event: Event, path: str, key: str) -> None:
        assert self._pen is not None
        self._pen.waiting.append(Draft(event, path, key, parent=self._tries.first_of(ticket)))
        self._requested.append(ticket)
        if ticket.spec.once or ticket.spec.durable:
            self._requests_sync = True

    def _kept(self, event: ActionRequested) -> ActionRequested:
        """The event as it is now, where other code of the agent may run, and change it, before it is written."""
        encoded = encode(event.payload)
        if not encoded.replayable:
            return event
        payload = decode(
            parse_stored(stored_bytes(encoded.tree)), loaded_classes=True, artifact=encoded.artifacts.__getitem__
        )
        return ActionRequested(event.action_id, payload, event.name, event.effect, meta=event.meta)

    def release(self, ticket: OpenEffect) -> None:
        """A request that was held back while the record lasted is made now."""
        path = self.book.number(ticket.lane)
        ticket.key = ticket.key or f"{path}/{ticket.spec.name}/{ticket.lane.next_ordinal(ticket.spec.name)}"
        event = _with_key(ticket.event, ticket.key)
        try:
            self._ask_guard(path, ticket.spec, event, ticket.key)
        except OnrecordError as refusal:
            ticket.error = refusal
            ticket.waiter.wake()
            return
        self._add_request(ticket, event, path, ticket.key)

    def _ask_guard(self, path: str, spec: EffectSpec, event: Event, key: str) -> None:
        """Policy is asked before anything is recorded as an effect; a denial is an event of its own."""
        refusal = self.guard(spec, event) if self.guard is not None else None
        if refusal is None:
            return
        members = event.content()
        asked = {"name": members.get("name"), "effect": members.get("effect")}
        said = {"code": refusal.code, "message": refusal.message, "hint": refusal.hint}
        denial = ActionDenied(key, {**said, **asked}, members.get("payload"))
        self.write([Draft(denial, lane=path, key=key)], sync=True)
        raise refusal

    # Writing

    def add(self, event: Event, lane: str, key: str | None = None) -> None:
        assert self._pen is not None
        self._pen.waiting.append(Draft(event, lane, key))

    def flush(self) -> None:
        """Commits what was asked for since the last time, then begins to carry it out."""
        with self.lock:
            if not self._requested or self.is_stopped:
                return
            tickets, sync = self._requested, self._requests_sync
            self._requested, self._requests_sync = [], False
            if self.write((), sync=sync):
                for ticket in tickets:
                    ticket.waiter.begin(ticket)

    def write(self, drafts: Sequence[Draft], *, sync: bool) -> bool:
        """Everything that waits to be written, then the drafts, in one batch. False: the run has stopped over it."""
        assert self._pen is not None
        sync = sync or self._requests_sync
        turns = self.turns.log
        if turns:
            self.turns.log = []
        try:
            self._pen.write(turns, drafts, self.secrets, sync=sync)
        except StaleEpoch:
            self.stop(Superseded(f"run {self.name} was taken over by another process"))
            return False
        except OnrecordError as error:
            self.stop(error)
            return False
        self.now_us = self._pen.last_time
        return True

    @property
    def next_seq(self) -> int:
        """That of what is written next, behind everything that waits to be written."""
        assert self._pen is not None
        return self._pen.next_seq(self.turns.log)

    def note(self, event: Event, lane: str = "0", key: str | None = None) -> None:
        """An event that is written with the next commit, before whatever is asked for."""
        self.add(event, lane, key)

    def spend_settlement(self, ticket: OpenEffect) -> bool:
        """An operator's word is for one attempt: that it begins is on the disk before it does."""
        assert ticket.recorded is not None
        ticket.recorded.attempts += 1
        begun = AttemptRecorded(ticket.key, ticket.recorded.attempts, "begun")
        return self.write([Draft(begun, lane=ticket.lane.path or "0")], sync=True)

    def note_now(self, event: Event, lane: Lane) -> None:
        """An event that has to outlive this process, from within an effect."""
        with self.lock:
            if not self.is_stopped and self.journal is not None:
                self.write([Draft(event, lane=lane.path or "0")], sync=False)

    # Waits

    def desk(self) -> WaitRegistry:
        with self.lock:
            if self._desk is None:
                with nowhere():  # its locks are not the agent's
                    from onrecord.runtime.waits import WaitRegistry
                self._desk = WaitRegistry(self.reader.store, self.reader.namespace)
            return self._desk

    def stand_in(self, identity: WaitIdentity) -> str:
        """What stands in the record for the key of a wait."""
        name = self.substitutes.origin if self.substitutes is not None else self.name
        return f"<wait key {name}/{identity.name}>"

    def counts(self, spec: EffectSpec, seq: int, result: Any) -> None:
        """The agent is handed a result: what it cost counts against the budget."""
        if self.guard is not None:
            with self.lock:
                try:
                    self.guard.count_usage(spec, seq, result)
                except InvalidInput as unreadable:
                    self.stop_here(unreadable)

    def taken(self, ticket: OpenEffect) -> None:
        """The agent has its answer."""
        with self.lock:
            self.waiting.discard(ticket)
            if self.coming_back is not None and not self.is_live:
                self.coming_back.go_live_if_over()

    # Values that are drawn and need no commit of their own

    def draw(self, lane: Lane, kind: str, make: Callable[[], Any]) -> Any:
        with self.lock:
            self.check_going_on()
            if lane.left:
                raise left_behind()
            identity = lane.identity  # it changes with the lane's first request, and so does where values are kept
            ordinal, known = lane.next_ordinal(f"draw:{kind}:{identity}"), 0
            if self.past is not None:
                drawn = self.past.drawn(identity, kind)
                if ordinal < len(drawn):
                    return drawn[ordinal]
                known = len(drawn)
            if self.journal is None:
                no_more = f"the record has no further {kind} for lane {lane.identity}"
                self.stop_here(beyond_the_record(self) or Divergence(no_more, lane=lane.identity))
            found = (
                self.substitutes.find_draw(identity, kind, ordinal - known) if self.substitutes is not None else None
            )
            value = make() if found is None else found[0]
            assert self._pen is not None
            self._pen.draws.append([lane.identity, kind, value])
            return value

    # State

    def update_state(self, lane: Lane, event: StateUpdated) -> None:
        """The agent sets its state; when the run comes back it must set what it set before."""
        with self.lock:
            self.check_going_on()
            if lane.left:
                raise left_behind()
            ordinal, back = lane.next_ordinal("state"), self.coming_back
            if back is None or self.is_live or not back.check_state(lane, ordinal, self.secrets.redact_event(event)):
                self.add(event, self.book.number(lane))
            self.state = event.payload

    # Coming back

    def first_unmade(self) -> int:
        assert self.coming_back is not None
        return self.coming_back.first_unmade()

    def reached(self, time_us: int) -> None:
        if time_us > self.now_us:
            self.now_us = time_us

    def at_rest(self) -> bool:
        assert self.coming_back is not None
        if self.coming_back.go_live_if_over():
            return bool(self.turns.pending)  # the record has just ended, and things have arrived meanwhile
        if self.coming_back.found_another_way() or (not self.turns.may_go_on() and self.loose.relaxed()):
            return True
        if self.came_to_rest is not None:
            self.came_to_rest()
        return False

    def stands_still(self) -> None:
        """The watchdog's word: the run has been resting for a while and the record cannot go on."""
        with self.lock:
            if not self.is_stopped and not self.is_live and not self.turns.is_busy() and not self.turns.may_go_on():
                if self.coming_back is not None and self.coming_back.found_another_way(sure=False):
                    self.turns.advance()
                else:
                    self.stop_for_good()

    def stop_for_good(self) -> None:
        """The record cannot answer, and nothing else of the run can go on."""
        if self.coming_back is not None and not self.loose.relaxed() and not self.coming_back.accept():
            self.stop(self.coming_back.why_it_rests())

    def accept_changes(self) -> bool:
        """Changed code has ended before its record has; True if that is accepted."""
        with self.lock:
            return self.coming_back is not None and self.coming_back.accept()

    def held_name(self) -> str:
        """What the program asked for while the record lasted, and the record does not have."""
        held = self.coming_back.held if self.coming_back is not None else []
        return held[0].spec.name if held else ""

    # The end

    def stop(self, reason: OnrecordError) -> None:
        """Nothing goes on from here; everyone who waits is told why."""
        with self.lock:
            if self.is_stopped:
                return
            if isinstance(reason, Divergence) and reason.hint == Divergence.default_hint:
                with nowhere():
                    reason.replace_hint(advise(self, reason))
            self.stopped, self.is_stopped = reason, True
            waiting, self.waiting = self.waiting, set()
            for ticket in waiting:
                ticket.waiter.wake()
            for call in self.on_stop:
                call()

    def interrupt(self, by: BaseException) -> None:
        """The process is told to end: the run is suspended, and goes on when it is resumed."""
        with self.lock:
            if not self.is_stopped:
                self.interrupted_by = by
                self.stop(Suspended(f"run {self.name} was interrupted ({type(by).__name__})"))

    def end(self, event: Event) -> None:
        """The terminal event; afterwards nothing is accepted."""
        with self.lock:
            self.check_going_on()
            for stream in list(self.streams):
                stream.left()
            if not self.write([Draft(event)], sync=True):
                self.check_going_on()
            self.over()

    def over(self) -> None:
        """Its end is on record."""
        self.ended = self.is_stopped = True


class LeftAtTheEnd(Protocol):
    """A stream, as its run sees it."""

    def left(self) -> None:
        """Nobody reads on."""
        ...


def _with_key(event: Event, key: str) -> Event:
    members = {name: getattr(event, name) for name in event.__struct_fields__}
    if event.pair_id is not None:
        members[event.pair_id] = key
    return type(event)(**members)
