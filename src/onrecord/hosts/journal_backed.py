"""The durable host: each scope is a run of its own, in any store.

    host = JournalEffectHost(open_store("agent.db"))
    scoped = host.scoped(ExecutionScope.turn("session-1", "turn-1"))
    outcome = await scoped.execute_effect(envelope, LocalExecutor.durable_step(step))

One instance may serve many scopes and many tasks of one loop. Instances are rivals, wherever they run: the lease of a
scope's run decides who works on it, and what is recorded is served to everybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from onrecord.core.events import ActionRequested, Completed
from onrecord.core.links import check_namespace
from onrecord.core.matching import VolatilePath
from onrecord.core.wait_keys import Resolution, ResolveOutcome, WaitIdentity, WaitKey
from onrecord.errors import InvalidInput, Refused
from onrecord.hosts.contract import Durability, ScopedEffectController, Settlement
from onrecord.hosts.decision import Busy, DecisionPolicy, Record
from onrecord.hosts.envelopes import AwaitEvent, RuntimeEffectEnvelope
from onrecord.hosts.journal_controller import ControllerSettings, JournalController, settlement_key, settlement_to_data
from onrecord.hosts.outcomes import IN_DOUBT, RuntimeEffectControllerError
from onrecord.hosts.retirement import RetirementCounts, retire_process, retire_session
from onrecord.hosts.scope_journal import HostSettings, HostSources, ScopeJournal
from onrecord.hosts.scopes import ExecutionScope
from onrecord.journal.create import LEASE_SECONDS
from onrecord.journal.inbox import Posted, post
from onrecord.journal.sources import Sources
from onrecord.runtime.secrets.keys import KeyRing
from onrecord.runtime.waits.registry import WaitRegistry
from onrecord.store.contract import Store


class UnansweredEffect(NamedTuple):
    """A request without an outcome: being carried out by somebody, or in doubt."""

    replay_key: str
    seq: int
    effect_id: str
    kind: str
    once: bool
    """Not repeated unless somebody settles it."""


class JournalEffectHost:
    supports_durable_effects = True

    def __init__(
        self,
        store: Store,
        namespace: str = "default",
        *,
        keyring: KeyRing | None = None,
        busy: Busy = Busy.WAIT,
        strict: bool = False,
        lease_seconds: float = LEASE_SECONDS,
        volatile: Sequence[VolatilePath] = (),
        may_repeat: Callable[[RuntimeEffectEnvelope], bool] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        sources: Sources | None = None,
    ) -> None:
        """`strict` serves what is recorded and carries out nothing. `may_repeat` says of an effect whether it is done
        again when its result is unknown; by default its command does."""
        if lease_seconds <= 0:
            raise InvalidInput("a lease lasts some time", code="bad_lease")
        self.store = store
        self.namespace = check_namespace(namespace)
        self._settings = HostSettings(store, namespace, HostSources(sources), lease_seconds, volatile)
        self._policy = DecisionPolicy(strict, busy)
        self._may_repeat = may_repeat or _as_the_command_says
        self._sleep = sleep
        self._keyring = keyring
        self._desk: WaitRegistry | None = None
        self._controllers: dict[ExecutionScope, JournalController] = {}

    @property
    def durability(self) -> Durability:
        if self.store.url.startswith("memory:"):
            return Durability.PROCESS
        return Durability(self.store.durability)

    # Scopes

    def scoped(self, scope: ExecutionScope) -> ScopedEffectController:
        return ScopedEffectController(self._controller(scope.validate()), scope)

    def scoped_static(self, scope: ExecutionScope) -> ScopedEffectController | None:
        return self.scoped(scope)

    def _controller(self, scope: ExecutionScope) -> JournalController:
        """All controllers of one scope are one: what it carries out is joined, not done twice. Kept until `release`."""
        controller = self._controllers.get(scope)
        if controller is None:
            settings = ControllerSettings(self._policy, self._sleep, self._may_repeat, self._waiting_in(scope))
            controller = JournalController(ScopeJournal(self._settings, scope), settings)
            self._controllers[scope] = controller
        return controller

    def run_of(self, scope: ExecutionScope) -> str:
        return self._controller(scope.validate()).scope_journal.run

    def release(self, scope: ExecutionScope) -> None:
        """Lets go of a scope that has nothing under way, so that a rival need not wait for the lease to end."""
        if scope in self._controllers:
            journal = self._at_rest(scope)
            del self._controllers[scope]
            journal.release()

    def _at_rest(self, scope: ExecutionScope) -> ScopeJournal:
        controller = self._controller(scope.validate())
        if controller.busy:
            raise Refused(
                f"effects of run {controller.scope_journal.run} are under way",
                hint="Wait for them: their outcomes could not be recorded any more.",
                code="scope_at_work",
            )
        return controller.scope_journal

    async def end_scope(self, scope: ExecutionScope, output: Any = None) -> None:
        """The scope's work is done: its run is closed, and may be retired. Recorded outcomes are served still."""
        journal = self._at_rest(scope)
        journal.take_over()
        if journal.journal is None:
            raise Refused(f"run {journal.run} is being written by another worker", code="run_busy")
        await journal.journal.append_async(Completed(output))
        self.release(scope)

    # Effects in doubt

    def open_effects(self, scope: ExecutionScope) -> list[UnansweredEffect]:
        """Requests without an outcome. Whether one is in doubt or being carried out, only the lease can tell."""
        journal = ScopeJournal(self._settings, scope.validate())
        journal.entry("")
        found = []
        for entry in journal.index.unanswered():
            event = journal.recorded(entry.request_seq).event
            if isinstance(event, ActionRequested):
                once = isinstance(event.meta, dict) and event.meta.get("once") is True
                effect_id, kind = event.name or "", event.effect or ""
                found.append(UnansweredEffect(entry.key, entry.request_seq, effect_id, kind, once))
        return found

    def settle(self, scope: ExecutionScope, replay_key: str, settlement: Settlement) -> Posted:
        """An operator's word on an effect in doubt. Durable when it returns; whoever holds the scope folds it in, and
        the first word counts."""
        journal = ScopeJournal(self._settings, scope.validate())
        entry = journal.entry(replay_key)
        if entry is None or entry.record is not Record.REQUESTED:
            raise InvalidInput(
                f"run {journal.run} has no effect without an outcome under that key",
                hint="`open_effects` lists them.",
                code="nothing_to_settle",
            )
        data = settlement_to_data(settlement)
        return post(self.store, journal.run, settlement_key(entry), data, self.namespace)

    # Waits

    @property
    def desk(self) -> WaitRegistry:
        """Made when first used: a host that never waits needs no secrets."""
        if self._desk is None:
            self._desk = WaitRegistry(self.store, self.namespace, keyring=self._keyring)
        return self._desk

    def _key(self, scope: ExecutionScope, wait: WaitIdentity) -> WaitKey:
        journal = self._controller(scope.validate()).scope_journal
        journal.begin()
        return self.desk.key(journal.run, wait, session=scope.session_id)

    def _waiting_in(self, scope: ExecutionScope) -> Callable[[AwaitEvent, int | None], Awaitable[Any]]:
        async def wait(command: AwaitEvent, due_us: int | None) -> Resolution:
            identity = WaitIdentity(command.wait, command.name, command.ordinal).checked()  # type: ignore[arg-type]
            deadline = None if due_us is None else due_us / 1_000_000
            return await self.desk.wait(self._key(scope, identity), cancel=None, deadline=deadline)

        return wait

    async def await_event_key(self, scope: ExecutionScope, wait: WaitIdentity) -> WaitKey:
        return self._key(scope, wait)

    async def resolve_await_event(self, key: WaitKey | str, resolution: Resolution) -> ResolveOutcome:
        return self.desk.resolve(key, resolution)

    async def await_await_event(
        self, key: WaitKey | str, cancel: asyncio.Event | None = None, deadline: float | None = None
    ) -> Resolution:
        return await self.desk.wait(key, cancel=cancel, deadline=deadline)

    async def revoke_await_events_for_session(self, session: str) -> None:
        self.desk.revoke_session(session)

    async def cancel_await_events_for_session(self, session: str) -> None:
        self.desk.cancel_session(session)

    # Retirement

    def retire_session(self, session: str, *, reason: str = "session retired") -> RetirementCounts:
        return retire_session(self.store, session, self.namespace, reason=reason)

    def retire_process(self, process: str, *, reason: str = "process retired") -> RetirementCounts:
        return retire_process(self.store, process, self.namespace, reason=reason)


def _as_the_command_says(envelope: RuntimeEffectEnvelope) -> bool:
    return envelope.command.may_repeat


def is_in_doubt(error: BaseException) -> bool:
    return isinstance(error, RuntimeEffectControllerError) and error.code == IN_DOUBT
