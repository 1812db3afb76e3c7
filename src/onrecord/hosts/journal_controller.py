"""The controller of one scope over its journal: observe, ask `decision.decide`, act, observe again.

Life of an effect: nothing is recorded under its key · the request is appended, and synced if the effect may run at
most once · the effect is executed · its outcome is appended and synced · it waits for its turn · the caller receives it
as decoded from the record, as a replay would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, NoReturn

from onrecord.core.codec import decode, encode
from onrecord.core.events import ActionDenied, ActionFailed, ActionRequested, ActionSucceeded, AttemptRecorded, Event
from onrecord.errors import InvalidValue, MovedHead
from onrecord.hosts.contract import LocalExecutor, Settlement, ask_probe
from onrecord.hosts.decision import Decision, DecisionPolicy, Lease, Observed, Record, Settled, decide
from onrecord.hosts.delivery import Handover
from onrecord.hosts.envelopes import AwaitEvent, RuntimeEffectEnvelope, Sleep
from onrecord.hosts.outcomes import (
    BUSY,
    CONFLICT,
    CORRUPT,
    IN_DOUBT,
    MISSING_RECORD,
    UNRECORDABLE,
    RuntimeEffectControllerError,
    RuntimeEffectOutcome,
)
from onrecord.hosts.record_index import Entry
from onrecord.hosts.scope_journal import ScopeJournal
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.runtime.replay.in_doubt import settling_events

FIRST_PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 0.5

Waiting = Callable[[AwaitEvent, "int | None"], Awaitable[Any]]
"""Waits for an event of this scope until a time in microseconds, and returns its resolution."""


class ControllerSettings(NamedTuple):
    policy: DecisionPolicy
    sleep: Callable[[float], Awaitable[None]]
    may_repeat: Callable[[RuntimeEffectEnvelope], bool]
    waiting: Waiting


class _Flight:
    """An effect that this controller executes."""

    __slots__ = ("landed", "match")

    def __init__(self, match: bytes) -> None:
        self.match = match
        self.landed = asyncio.Event()


class JournalController:
    supports_durable_effects = True

    def __init__(self, scope_journal: ScopeJournal, settings: ControllerSettings) -> None:
        self.scope_journal = scope_journal
        self._settings = settings
        self._flights: dict[str, _Flight] = {}
        self._handover = Handover()

    async def execute_effect(
        self, envelope: RuntimeEffectEnvelope, local_executor: LocalExecutor
    ) -> RuntimeEffectOutcome:
        envelope.validate()
        match = self.scope_journal.match_of(envelope)
        pause_seconds = FIRST_PAUSE_SECONDS
        while True:
            # Between observing and acting nothing is awaited, so the observation still holds.
            observed, entry = self._observe(envelope, match)
            decision = decide(observed, self._settings.policy)
            if decision is Decision.SERVE:
                assert entry is not None
                return await self._serve(envelope, entry)
            if decision is Decision.TAKE_OVER:
                self.scope_journal.take_over()
            elif decision is Decision.JOIN:
                await self._flights[envelope.replay_key].landed.wait()
            elif decision is Decision.WAIT:
                self.scope_journal.ask_again()
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(pause_seconds * 2, LONGEST_PAUSE_SECONDS)
            elif decision in (Decision.RUN, Decision.REPEAT, Decision.SETTLE, Decision.IN_DOUBT):
                await self._fly(envelope, local_executor, match, entry)
            else:
                self._refuse(decision, envelope)

    @property
    def busy(self) -> bool:
        return bool(self._flights)

    def _observe(self, envelope: RuntimeEffectEnvelope, match: bytes) -> tuple[Observed, Entry | None]:
        flight = self._flights.get(envelope.replay_key)
        entry = self.scope_journal.entry(envelope.replay_key)
        recorded = entry.match if entry is not None else flight.match if flight is not None else None
        record = entry.record if entry is not None else Record.REQUESTED if flight is not None else Record.ABSENT
        # An erased request cannot be compared: that is damage, not a conflict.
        same = recorded == match or (entry is not None and entry.match is None)
        may_repeat = self._settings.may_repeat(envelope)
        return Observed(record, same, self.scope_journal.lease(), flight is not None, may_repeat), entry

    # Acting

    def _refuse(self, decision: Decision, envelope: RuntimeEffectEnvelope) -> NoReturn:
        self.scope_journal.ask_again()
        code, said, hint = _REFUSALS[decision]
        run = self.scope_journal.run
        raise RuntimeEffectControllerError(code, f"{envelope.kind.value} effect in run {run}: {said}", hint=hint)

    async def _fly(
        self, envelope: RuntimeEffectEnvelope, executor: LocalExecutor, match: bytes, entry: Entry | None
    ) -> None:
        """Bring the effect to a recorded outcome, or raise. Callers that ask for it meanwhile join."""
        journal, key = self.scope_journal.journal, envelope.replay_key
        assert journal is not None
        flight = self._flights[key] = _Flight(match)
        self.scope_journal.begin_work()
        try:
            if entry is None:
                entry = await self._request(journal, envelope, match)
            elif await self._settle(journal, envelope, executor, entry):
                return
            await self._execute(journal, envelope, executor, entry)
        except MovedHead:
            # Nothing was executed yet: afterwards the error is StaleEpoch. Observe again.
            self.scope_journal.lose()
        finally:
            self.scope_journal.end_work()
            del self._flights[key]
            flight.landed.set()

    async def _request(self, journal: Journal, envelope: RuntimeEffectEnvelope, match: bytes) -> Entry:
        once = not self._settings.may_repeat(envelope)
        meta: dict[str, Any] = {"once": True} if once else {}
        due_us = self._due_us(envelope)
        if due_us is not None:
            meta["due_us"] = due_us
        draft = Draft(envelope.to_request(meta), key=envelope.replay_key)
        await self.scope_journal.append(journal, [draft], sync=once, match=match)
        entry = self.scope_journal.index.get(envelope.replay_key)
        assert entry is not None
        return entry

    def _due_us(self, envelope: RuntimeEffectEnvelope) -> int | None:
        command = envelope.command
        seconds = command.seconds if isinstance(command, Sleep) else None
        if isinstance(command, AwaitEvent):
            seconds = command.timeout_seconds
        return None if seconds is None else self.scope_journal.settings.sources.now_us() + int(seconds * 1_000_000)

    async def _settle(
        self, journal: Journal, envelope: RuntimeEffectEnvelope, executor: LocalExecutor, entry: Entry
    ) -> bool:
        """Settle an effect in doubt. Return True if that gave it an outcome, False if it is to be executed again."""
        may_repeat = self._settings.may_repeat(envelope)
        settlement = settlement_from_data(self.scope_journal.message(settlement_key(entry)))
        if settlement is None and not may_repeat:
            settlement = await ask_probe(executor.probe, envelope)
        settled = Settled.NO if settlement is None else settlement.decision
        observed = Observed(Record.REQUESTED, True, Lease.OURS, may_repeat=may_repeat, settled=settled)
        decision = decide(observed, self._settings.policy)
        if decision is Decision.IN_DOUBT:
            self._refuse(decision, envelope)
        action, parent = envelope.replay_key, entry.request_seq
        events: list[Event] = []
        if settlement is not None:
            said = settlement.value if settlement.error is None else list(settlement.error)
            error = RuntimeEffectControllerError(*settlement.error) if settlement.error is not None else None
            events = settling_events(action, settled.value, said, error, settlement.by)
        if decision is Decision.SETTLE:
            await self.scope_journal.append_outcome(journal, entry, [Draft(one, parent=parent) for one in events])
            return True
        events.append(AttemptRecorded(action_id=action, attempt=entry.abandoned + 1, status="abandoned"))
        drafts = [Draft(one, parent=parent) for one in events]
        await self.scope_journal.append(journal, drafts, sync=not may_repeat)
        return False

    async def _execute(
        self, journal: Journal, envelope: RuntimeEffectEnvelope, executor: LocalExecutor, entry: Entry
    ) -> None:
        event: Event
        action, parent = envelope.replay_key, entry.request_seq
        try:
            outcome = await self._perform(envelope, executor, entry)
        except Exception as error:
            event = ActionFailed(action_id=action, error=error)
        else:
            event = ActionSucceeded(action_id=action, output=outcome.value)
        try:
            await self.scope_journal.append_outcome(journal, entry, [Draft(event, parent=parent)])
        except InvalidValue as refused:
            # It was executed, so it needs an outcome: in doubt, it might be executed again.
            said = f"the effect ran, and its outcome cannot be recorded: {refused.message}"
            event = ActionFailed(action_id=action, error=RuntimeEffectControllerError(UNRECORDABLE, said))
            await self.scope_journal.append_outcome(journal, entry, [Draft(event, parent=parent)])

    async def _perform(
        self, envelope: RuntimeEffectEnvelope, executor: LocalExecutor, entry: Entry
    ) -> RuntimeEffectOutcome:
        """Execute the effect. The host itself sleeps and waits, and continues both until their due time."""
        command = envelope.command
        if isinstance(command, Sleep):
            due_us = self._recorded_due_us(entry)
            left = (due_us - self.scope_journal.settings.sources.now_us()) / 1_000_000 if due_us is not None else 0.0
            # A clock that was set back does not prolong a sleep beyond its own length.
            await self._settings.sleep(min(max(left, 0.0), command.seconds))
            return RuntimeEffectOutcome.sleep()
        if isinstance(command, AwaitEvent):
            return RuntimeEffectOutcome.await_event(await self._settings.waiting(command, self._recorded_due_us(entry)))
        return await executor(envelope)

    def _recorded_due_us(self, entry: Entry) -> int | None:
        event = self.scope_journal.recorded(entry.request_seq).event
        meta = event.meta if isinstance(event, ActionRequested) else None
        due_us = meta.get("due_us") if isinstance(meta, dict) else None
        return due_us if type(due_us) is int else None

    async def _serve(self, envelope: RuntimeEffectEnvelope, entry: Entry) -> RuntimeEffectOutcome:
        assert entry.outcome_seq is not None
        recorded = self.scope_journal.recorded(entry.outcome_seq)
        await self._handover.turn_of(recorded.seq)
        event = recorded.event
        if isinstance(event, ActionSucceeded):
            return RuntimeEffectOutcome(envelope.kind, event.output)
        if isinstance(event, ActionFailed):
            raise _as_exception(event.error)
        if isinstance(event, ActionDenied):
            raise RuntimeEffectControllerError("effect_denied", "policy denied this effect")
        self._refuse(Decision.CORRUPT, envelope)


def _as_exception(error: Any) -> BaseException:
    if isinstance(error, Exception):
        return error
    return RuntimeEffectControllerError("recorded_failure", "the recorded failure is not an exception of this program")


# Settlements in the run's inbox


def settlement_key(entry: Entry) -> str:
    """Return the key of the next settlement: a retry that was cut off needs another one."""
    return f"settle/{entry.request_seq}/{entry.settlements + 1}"


def settlement_to_data(settlement: Settlement) -> dict[str, Any]:
    error = list(settlement.error) if settlement.error is not None else None
    value = encode(settlement.value).tree
    return {"decision": settlement.decision.value, "value": value, "error": error, "by": settlement.by}


def settlement_from_data(data: Any) -> Settlement | None:
    if data is None:
        return None
    value = decode(data["value"], loaded_classes=True)
    error = (str(data["error"][0]), str(data["error"][1])) if data["error"] is not None else None
    return Settlement(Settled(data["decision"]), value, error, data["by"])


_REFUSALS: dict[Decision, tuple[str, str, str]] = {
    Decision.CONFLICT: (
        CONFLICT,
        "its replay key was used with another input",
        "Nothing ran. Give another key to another effect, or put the old input back.",
    ),
    Decision.MISSING: (
        MISSING_RECORD,
        "nothing is recorded under its replay key",
        "Nothing ran: this host only serves what was recorded.",
    ),
    Decision.IN_DOUBT: (
        IN_DOUBT,
        "it was begun, its result is unknown, and it may not be repeated",
        "Settle it: decide that it was done, that it failed, or that it is to be tried again.",
    ),
    Decision.YIELD: (BUSY, "another worker holds the scope", "Try again later, or use a host that waits."),
    Decision.CORRUPT: (
        CORRUPT,
        "the record under its replay key cannot be read, or was erased",
        "`onrecord verify` locates the damage.",
    ),
}
