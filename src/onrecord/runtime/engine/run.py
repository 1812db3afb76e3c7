"""A run in this process: it answers requests from its history, or records and executes them.

The parts: the scheduler's kernel decides (`scheduler.kernel`), the coordinator holds the run's lock and the baton
(`scheduler.drivers.coordinator`), `commits` writes, `boundary` waits. This object holds what belongs to the run as a
whole: its record, secrets, policy and state.

A replay has no journal: it writes nothing and executes nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol
from weakref import WeakSet

from onrecord.core.canonical import parse_stored, stored_bytes
from onrecord.core.codec import decode, encode
from onrecord.core.events import ActionDenied, ActionRequested, Event, StateUpdated
from onrecord.core.lane_names import ROOT_LANE
from onrecord.core.wait_keys import WaitIdentity
from onrecord.errors import InvalidInput, OnrecordError
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader
from onrecord.runtime.api.policy import PolicyGuard
from onrecord.runtime.engine.caller_keys import CallerKeys
from onrecord.runtime.engine.cancellation import Cancellation
from onrecord.runtime.engine.client_retries import ClientRetries
from onrecord.runtime.engine.commits import Commits, with_key
from onrecord.runtime.engine.context import Lane, inside
from onrecord.runtime.engine.open_effect import MakeEvent, OpenEffect
from onrecord.runtime.engine.outcomes import open_denial
from onrecord.runtime.engine.stops import Denied, Divergence, RunStopped, Suspended
from onrecord.runtime.forks.substitutes import Substitutes
from onrecord.runtime.replay.checkpoint_entry import enter_after_checkpoint, knows_no_lanes
from onrecord.runtime.replay.divergence import advise, explain_stop
from onrecord.runtime.replay.history import History
from onrecord.runtime.replay.loose_match import LooseMatch
from onrecord.runtime.replay.records import Asked, RecordedDenial
from onrecord.runtime.replay.silence import report_silence
from onrecord.runtime.scheduler.drivers.coordinator import Coordinator
from onrecord.runtime.scheduler.items import Call, Noted, Token
from onrecord.runtime.scheduler.kernel import Kernel
from onrecord.runtime.secrets.run_secrets import load_secrets

if TYPE_CHECKING:  # loaded with the first wait
    from onrecord.runtime.waits import WaitRegistry


class WaitCounts:
    """The waits of one lane, by name."""

    def __init__(self) -> None:
        self.waited: dict[str, int] = {}
        self.issued: dict[str, tuple[int, WaitIdentity]] = {}
        """Keys that were given out for waits that may not have begun: how many waits came before, and the identity."""


class DrawFailed(BaseException):
    """A draw raised an error, as for a bad argument. It is the program's, not one of the scheduler."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class LiveRun:
    def __init__(
        self,
        reader: JournalReader,
        *,
        history: History | None = None,
        accepts_code: bool = False,
        guard: PolicyGuard | None = None,
    ) -> None:
        self.reader = reader
        self.journal = reader if isinstance(reader, Journal) else None
        """None in a replay."""
        self.history = history
        self.rules = reader.rules()
        self.guard = guard
        self.secrets = load_secrets(reader)
        self.accepts_code = accepts_code
        """Also for the runs that it calls."""
        self.substitutes: Substitutes | None = None
        """Serves effects from another run's record, in the tail of a fork and in a live replay."""
        self.effects: dict[str, OpenEffect] = {}
        """Requests without a delivered outcome, by key."""
        self.waits: dict[str, WaitCounts] = {}
        """By lane."""
        self.streams: WeakSet[OpenStream] = WeakSet()
        self.last_commit_us = reader.header_row.created
        self.state: Any = None
        self.restored: Any = None
        """The state of the last checkpoint."""
        self.snapshots_kept: list[int] | None = None
        """Positions of the snapshots of checkpoints, once they were looked up."""
        self.calls_agents_inline = False
        """True: an agent that is called here is no run of its own; its effects belong to the calling lane."""
        self.is_strict = False
        """True: refuse what is not recorded. In a replay, that is a draw that is not on record."""
        self.is_released = False
        """True once the lease was given back."""
        self.interrupted_by: BaseException | None = None
        self.failure: BaseException | None = None
        """The error with which the agent has ended."""
        self.own_keys = CallerKeys(self)
        self.client_retries = ClientRetries(self)
        self.cancellation = Cancellation(self)
        self._registry: WaitRegistry | None = None
        self.commits = Commits(self, self.journal) if self.journal is not None else None
        self.kernel = self._make_kernel()
        self.coordinator = Coordinator(
            self.kernel, self.commits or _NoCommits(), owner=self, explain=functools.partial(explain_stop, self)
        )
        self.lock = self.coordinator.lock
        self.on_stop = self.coordinator.on_stop
        self.coordinator.on_interrupt = self.interrupt
        self.coordinator.redact_label = self._redact_label
        self.coordinator.on_silence = functools.partial(report_silence, self)
        self.loose = LooseMatch(self)
        self._adopt_history()

    def _make_kernel(self) -> Kernel:
        history, writable = self.history, self.journal is not None
        if history is None:
            return Kernel()
        beginning = history.beginning
        return Kernel(
            history.window(),
            writable=writable,
            root=ROOT_LANE if beginning is None else beginning.lane,
            time=0 if beginning is None else beginning.time - self.created,
            accepts=self.accepts_code and writable,
            may_repeat=self._may_repeat,
        )

    def _adopt_history(self) -> None:
        history, journal = self.history, self.journal
        if history is None:
            return
        if self.guard is not None:
            self.guard.adopt_history(history)
        if self.secrets.redacts:
            history.open_chunk = functools.partial(self.secrets.unseal_chunk, history, needed=journal is not None)
        history.on_damage = self.stop_here
        if journal is not None:
            journal.adopt_history(history.last_seq, history.open_rows())
            if history.beginning is not None and not knows_no_lanes(history):
                journal.adopt_lanes(history.last_seq, [row for row in history.lane_ends.values() if row.seq > 0])
        if history.beginning is not None:
            enter_after_checkpoint(self, history, history.beginning)

    def _may_repeat(self, token: Token) -> bool:
        """Return True for an effect without an outcome that was certainly not begun in the name of this run."""
        effect: OpenEffect = token.detail
        if effect.recorded is not None and effect.recorded.is_shared:
            return True
        return self.substitutes is not None and not self.substitutes.may_have_begun(effect)

    # Properties

    @property
    def name(self) -> str:
        return self.reader.run

    @property
    def created(self) -> int:
        """When the run's clock began, as a time of day."""
        return self.reader.header_row.created if self.history is None else self.history.created

    @property
    def touches_nothing(self) -> bool:
        """True in a replay, and in a fork whose tail executes nothing."""
        return self.journal is None or (self.substitutes is not None and self.substitutes.executes_nothing)

    @property
    def is_live(self) -> bool:
        """True once the history is over, and in a run without one."""
        return self.history is None or self.kernel.live

    @property
    def stopped(self) -> OnrecordError | None:
        reason: OnrecordError | None = self.coordinator.stopped
        return reason

    @property
    def ended(self) -> bool:
        return self.coordinator.has_ended

    @property
    def is_stopped(self) -> bool:
        """True if the run has ended or was stopped."""
        return self.coordinator.is_over

    @property
    def is_being_changed(self) -> bool:
        """True if the calling thread holds the lock."""
        return bool(self.lock._is_owned())  # type: ignore[attr-defined]

    @property
    def is_waiting(self) -> bool:
        """True if the run rests and everything that it waits for is a resolution from outside."""
        with self.lock:
            kernel = self.kernel
            if self.is_stopped or not kernel.live or self.coordinator.running is not None or not kernel.is_idle:
                return False
            effects = [token.detail for token in kernel.open if token.call is not None]
            waits = [one for one in effects if isinstance(one, OpenEffect) and one.spec.kind == "await_event"]
            return bool(waits) and len(waits) == len(kernel.open)

    @property
    def now_us(self) -> int:
        """The run's clock, as a time of day."""
        return self.created + self.kernel.time

    def compared(self, event: Event) -> Asked:
        """Return an event of the program as it is compared with the record and written."""
        return Asked(self.secrets.redact_event(event) if self.secrets.active else event, self.rules, event)

    def _redact_label(self, label: str) -> str:
        return str(self.secrets.redact_value(label)) if self.secrets.active else label

    def waits_of(self, lane: str) -> WaitCounts:
        return self.waits.setdefault(lane, WaitCounts())

    # Requests. Each of these is called with the lock held.

    def ask(self, lane: Lane, effect: OpenEffect, make: MakeEvent, key: str | None) -> OpenEffect:
        """Request an effect. Return it, or the one that had the same key before."""
        coordinator, kernel = self.coordinator, self.kernel
        if coordinator.stopped is not None or coordinator.has_ended:
            coordinator.check()
        if self.secrets.active:
            effect.spec, key = self.secrets.redact_spec(effect.spec), self.secrets.redact_value(key)
        spec = effect.spec
        if key is None:
            effect.lane, effect.key = kernel.name_request(lane.name, spec.name)
        else:
            effect.lane, effect.key = kernel.living_lane(lane.name), key
        event = make(effect.key)
        if self.secrets.active:
            event = with_key(self.secrets.redact_event(event), effect.key)
        asked = Asked(event, self.rules)
        if key is not None:
            used = self.own_keys.find(lane, spec, key, asked)
            if used is not None:
                return used
        if self.guard is not None or (self.history is not None and self.history.denied):
            self._check_denied(effect, asked, key)
        if (lane.strand.callbacks or kernel.ready) and isinstance(event, ActionRequested):
            event = _copy_payload(event)  # other code of the agent may change it before it is written
        effect.event = event
        self.effects[effect.key] = effect
        try:
            effect.token = coordinator.ask(effect.lane, Call(spec.name, asked, spec.once, effect.key), effect)
        except BaseException:
            del self.effects[effect.key]
            raise
        request = effect.token.recorded
        if request is not None:
            effect.request_seq = max(0, request.digest.row.seq)
            if request.key != effect.key:  # a tolerant replay: another request answers
                del self.effects[effect.key]
                effect.key = request.key
                self.effects[effect.key] = effect
        if key is not None:
            self.own_keys.remember(key, asked, effect)
        return effect

    def _check_denied(self, effect: OpenEffect, asked: Asked, key: str | None) -> None:
        """Raise the recorded denial of the request, or ask the policy about a new one. A denial is an event."""
        denial = self._find_denial(effect, asked)
        if denial is not None:
            if key is not None and isinstance(denial, Denied):
                self.own_keys.remember_denied(key, asked, denial)
            raise denial

    def _find_denial(self, effect: OpenEffect, asked: Asked) -> OnrecordError | None:
        expected = self.coordinator.peek(effect.lane)
        if isinstance(expected, Noted) and isinstance(expected.digest, RecordedDenial):
            denial = expected.digest
            if denial.is_of(asked):
                self.coordinator.note(effect.lane, denial)
                return open_denial(self, denial)
        if self.guard is None or expected is not None:
            return None
        refusal = self.guard(effect.spec, asked.event)
        if refusal is not None:
            members = asked.event.content()
            asked_for = {"name": members.get("name"), "effect": members.get("effect")}
            reason = {"code": refusal.code, "message": refusal.message, "hint": refusal.hint, **asked_for}
            denied = ActionDenied(effect.key, reason, members.get("payload"))
            self.coordinator.note(effect.lane, Asked(denied, self.rules))
        return refusal

    def delivered(self, effect: OpenEffect) -> None:
        """Forget an effect whose outcome was delivered."""
        if self.effects.get(effect.key) is effect:
            del self.effects[effect.key]

    def draw(self, lane: Lane, site: str, make: Callable[[], Any]) -> Any:
        """Return a recorded value, or make one and record it with the next commit."""
        try:
            with self.lock:
                self.coordinator.act(lane.strand, draws=True)
                return self.coordinator.draw(lane.name, site, functools.partial(self._make_draw, lane.name, site, make))
        except DrawFailed as failed:
            raise failed.error from None

    def _make_draw(self, lane: str, site: str, make: Callable[[], Any]) -> Any:
        found = self.substitutes.find_draw(lane, site) if self.substitutes is not None else None
        if found is not None:
            return found[0]
        with inside():
            try:
                return make()
            except Exception as error:
                raise DrawFailed(error) from None

    def update_state(self, lane: Lane, event: StateUpdated) -> None:
        with self.lock:
            self.coordinator.act(lane.strand)
            self.coordinator.note(lane.name, self.compared(event))
            self.state = event.payload

    # Writing

    def note(self, event: Event) -> None:
        """Write an event about the run with the next commit."""
        assert self.commits is not None
        self.commits.notes.append(Draft(event, lane=self.kernel.root))

    def note_now(self, event: Event, lane: str) -> None:
        """Write an event from within an effect: it must outlive this process."""
        with self.lock:
            if not self.is_stopped and self.commits is not None:
                self.commits.append([Draft(event, lane=lane)], sync=False)

    @property
    def next_seq(self) -> int:
        """The seq of the next event, if nothing else is written before."""
        assert self.journal is not None
        return self.journal.position + 1

    # Waits

    def desk(self) -> WaitRegistry:
        with self.lock:
            if self._registry is None:
                with inside():  # its locks are not the agent's
                    from onrecord.runtime.waits import WaitRegistry

                    self._registry = WaitRegistry(self.reader.store, self.reader.namespace)
            return self._registry

    def stand_in(self, identity: WaitIdentity) -> str:
        """Return the placeholder of a wait key in the record."""
        name = self.substitutes.origin if self.substitutes is not None else self.name
        return f"<wait key {name}/{identity.name}>"

    def count_usage(self, effect: OpenEffect, seq: int, result: Any) -> None:
        """Count the cost of a delivered result against the budget."""
        if self.guard is not None:
            with self.lock:
                try:
                    self.guard.count_usage(effect.spec, seq, result)
                except InvalidInput as unreadable:
                    self.stop_here(unreadable)

    # The end

    def check_going_on(self) -> None:
        """Raise if the run was stopped or has ended."""
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        if self.ended:
            raise OnrecordError(
                f"run {self.name} has ended; nothing can be done in its name any more",
                hint="Wait for what the agent started before it returns.",
                code="run_ended",
            )

    def stop(self, reason: OnrecordError) -> None:
        """Stop the run in this process. Nothing is written: it can be resumed."""
        with self.lock:
            if self.is_stopped:
                return
            if isinstance(reason, Divergence) and reason.hint == Divergence.default_hint:
                with inside():
                    reason.replace_hint(advise(self, reason))
            self.coordinator.stop(reason)

    def stop_here(self, reason: OnrecordError) -> NoReturn:
        """Stop the run, and raise that into the caller."""
        self.stop(reason)
        raise RunStopped(self.stopped or reason)

    def interrupt(self, by: BaseException) -> None:
        """Suspend the run: the process is told to end."""
        with self.lock:
            if not self.is_stopped:
                self.interrupted_by = by
                self.stop(Suspended(f"run {self.name} was interrupted ({type(by).__name__})"))

    def end(self, event: Event) -> None:
        """Write the terminal event, or compare it with the recorded one. Raise the reason if the run was stopped."""
        with self.lock:
            self.check_going_on()
            for stream in list(self.streams):
                stream.give_up()
            error = getattr(event, "error", None)
            self.failure = error if isinstance(error, BaseException) else None
            self.coordinator.finish(self.compared(event))
            if self.stopped is not None:
                raise RunStopped(self.stopped)


class OpenStream(Protocol):
    """A stream, as its run sees it."""

    def give_up(self) -> None:
        """End the stream: it is not read any more."""
        ...


class _NoCommits:
    """The journal of a replay."""

    def commit(self, items: list[Any], sync: bool) -> int:
        raise AssertionError("a replay writes nothing")


def _copy_payload(event: ActionRequested) -> ActionRequested:
    """Return the event with a payload of its own."""
    encoded = encode(event.payload)
    if not encoded.replayable:
        return event
    payload = decode(
        parse_stored(stored_bytes(encoded.tree)), loaded_classes=True, artifact=encoded.artifacts.__getitem__
    )
    return ActionRequested(event.action_id, payload, event.name, event.effect, meta=event.meta)
