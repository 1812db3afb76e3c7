"""The durable host: each scope is a separate run, in any store.

    host = JournalEffectHost(open_store("agent.db"))
    scoped = host.scoped(ExecutionScope.turn("session-1", "turn-1"))
    outcome = await scoped.execute_effect(envelope, LocalExecutor.durable_step(step))

One instance may serve many scopes and many tasks of one loop. Instances are rivals, in one process or in several: the
holder of the lease of a scope's run works on it, and every instance serves the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from onrecord.core.events import ActionRequested, Completed
from onrecord.core.links import check_namespace
from onrecord.core.matching import VolatilePath
from onrecord.core.wait_keys import WaitIdentity, WaitKey
from onrecord.errors import InvalidInput, Refused
from onrecord.hosts.contract import Durability, ScopedEffectController, Settlement
from onrecord.hosts.decision import Busy, DecisionPolicy, Record
from onrecord.hosts.envelopes import RuntimeEffectEnvelope
from onrecord.hosts.in_process import WaitingHost
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
    """A request without an outcome: its effect is being executed, or is in doubt."""

    replay_key: str
    seq: int
    effect_id: str
    kind: str
    once: bool
    """True: it is not repeated unless it is settled."""


class JournalEffectHost(WaitingHost):
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
        """Open a host. A `strict` one serves the record and executes nothing.

        `may_repeat` decides whether an effect of unknown result is executed again. By default the command decides.
        """
        if lease_seconds <= 0:
            raise InvalidInput("a lease has a positive length", code="bad_lease")
        self.store = store
        self.namespace = check_namespace(namespace)
        self._settings = HostSettings(store, namespace, HostSources(sources), lease_seconds, volatile)
        self._policy = DecisionPolicy(strict, busy)
        self._may_repeat = may_repeat or (lambda envelope: envelope.command.may_repeat)
        self._sleep = sleep
        self._keyring = keyring
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
        """Return the one controller of the scope, which is kept until `release`: callers join its effects."""
        controller = self._controllers.get(scope)
        if controller is None:
            settings = ControllerSettings(self._policy, self._sleep, self._may_repeat, partial(self._wait_for, scope))
            controller = JournalController(ScopeJournal(self._settings, scope), settings)
            self._controllers[scope] = controller
        return controller

    def run_of(self, scope: ExecutionScope) -> str:
        return self._controller(scope.validate()).scope_journal.run

    def release(self, scope: ExecutionScope) -> None:
        """Release the lease of a scope that executes nothing, so that a rival need not wait for its end."""
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
        """End the scope's run. It may be retired then; until then recorded outcomes are served."""
        journal = self._at_rest(scope)
        journal.take_over()
        if journal.journal is None:
            raise Refused(f"run {journal.run} is being written by another worker", code="run_busy")
        await journal.journal.append_async(Completed(output))
        self.release(scope)

    # Effects in doubt

    def open_effects(self, scope: ExecutionScope) -> list[UnansweredEffect]:
        """Return the requests without an outcome. While the lease is held, such an effect may be under way."""
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
        """Settle an effect in doubt. The settlement is durable on return, and the holder of the scope applies it.

        The first settlement counts.
        """
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

    @cached_property
    def desk(self) -> WaitRegistry:
        """The waits of this host. A host that never waits needs no secrets."""
        return WaitRegistry(self.store, self.namespace, keyring=self._keyring)

    def _key(self, scope: ExecutionScope, wait: WaitIdentity) -> WaitKey:
        journal = self._controller(scope.validate()).scope_journal
        journal.begin()
        return self.desk.key(journal.run, wait, session=scope.session_id)

    # Retirement

    def retire_session(self, session: str, *, reason: str = "session retired") -> RetirementCounts:
        return retire_session(self.store, session, self.namespace, reason=reason)

    def retire_process(self, process: str, *, reason: str = "process retired") -> RetirementCounts:
        return retire_process(self.store, process, self.namespace, reason=reason)


def is_in_doubt(error: BaseException) -> bool:
    return isinstance(error, RuntimeEffectControllerError) and error.code == IN_DOUBT
