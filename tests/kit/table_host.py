"""A durable host without a journal: a table in memory. It passes the conformance suite.

It records, leases and serves by itself, but takes `claims.decide`, the hand-over and the wait desk from the project:
what is wrong in those is wrong here too, and has tests of its own. It can be broken on purpose to see that the suite
notices; serving by position implies not comparing hashes.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import time
from typing import Any

from onrecord.core.wait_keys import Resolution, ResolveOutcome
from onrecord.errors import StaleEpoch
from onrecord.hosts.contract import Durability, EffectHost, LocalExecutor, ScopedEffectController, Settlement
from onrecord.hosts.decision import Busy, Decision, DecisionPolicy, Lease, Observed, Record, Settled, decide
from onrecord.hosts.delivery import Handover
from onrecord.hosts.envelopes import RuntimeEffectControllerError, RuntimeEffectEnvelope, RuntimeEffectOutcome, Sleep
from onrecord.hosts.in_process import ProcessKeyRing
from onrecord.hosts.outcomes import BUSY, CONFLICT, IN_DOUBT, MISSING_RECORD
from onrecord.hosts.scopes import ExecutionScope, run_id
from onrecord.runtime.waits.registry import WaitRegistry
from onrecord.store.memory import MemoryStore
from onrecord.testing.effect_conformance import Died, EffectHostSubject

FAULTS = {
    "executes_before_recording",
    "ignores_envelope_hash",
    "does_not_fence",
    "loses_early_resolutions",
    "serves_by_position",
    "two_outcomes_in_one_turn",
    "repeats_unknown_tools",
    "forgets_messages",
    "sleeps_anew",
    "takes_death_for_an_outcome",
    "serves_in_asking_order",
    "blank_scopes",
    "forgets_revocations",
    "retries_errors",
    "forgets_at_restart",
    "rivals_do_not_wait",
}
REFUSALS = {
    Decision.CONFLICT: CONFLICT,
    Decision.MISSING: MISSING_RECORD,
    Decision.YIELD: BUSY,
    Decision.IN_DOUBT: IN_DOUBT,
}


class Row:
    def __init__(self, envelope_hash: str, due: float) -> None:
        self.hash, self.due = envelope_hash, due
        self.record = Record.REQUESTED
        self.value: Any = None
        self.seq = 0


class Table:
    """The data: what survives an instance."""

    def __init__(self) -> None:
        self.rows: dict[tuple[ExecutionScope, str], Row] = {}
        self.holders: dict[ExecutionScope, tuple[object, int]] = {}
        self.settlements: dict[tuple[ExecutionScope, str], Settlement] = {}
        self.numbers = itertools.count(1)
        self.desk = WaitRegistry(MemoryStore(), keyring=ProcessKeyRing())
        self.waited_for: set[str] = set()

    def lease(self, scope: ExecutionScope, host: object) -> Lease:
        holder = self.holders.get(scope, (None, 0))[0]
        return Lease.OPEN if holder is None else Lease.OURS if holder is host else Lease.LIVE

    def claim(self, scope: ExecutionScope, host: object) -> None:
        self.holders[scope] = (host, self.holders.get(scope, (None, 0))[1] + 1)

    def release(self, scope: ExecutionScope) -> None:
        self.holders[scope] = (None, self.holders.get(scope, (None, 0))[1])


class TableController:
    supports_durable_effects = True

    def __init__(self, host: TableHost, scope: ExecutionScope) -> None:
        self.host, self.scope, self.table = host, scope, host.table
        self.flights: dict[str, tuple[str, asyncio.Event]] = {}
        self.handover = Handover()
        self.asked = itertools.count()

    async def execute_effect(
        self, envelope: RuntimeEffectEnvelope, local_executor: LocalExecutor
    ) -> RuntimeEffectOutcome:
        envelope.validate()
        position, key = next(self.asked), envelope.replay_key
        known = self.table.rows.get((self.scope, key))
        if known is not None and known.record is Record.FAILED and "retries_errors" in self.host.faults:
            del self.table.rows[self.scope, key]
        while True:
            row = self.find(key, position)
            observed = self.observe(envelope, row)
            decision = decide(observed, self.host.policy)
            if decision is Decision.SERVE:
                assert row is not None
                return await self.serve(envelope, row, position)
            if decision is Decision.TAKE_OVER:
                self.table.claim(self.scope, self.host)
            elif decision is Decision.WAIT:
                await asyncio.sleep(0.01)
            elif decision is Decision.JOIN:
                await self.flights[key][1].wait()
            elif decision in REFUSALS:
                if decision is Decision.IN_DOUBT and await self.probed(envelope, local_executor):
                    continue
                raise RuntimeEffectControllerError(REFUSALS[decision], decision.value)
            elif decision is Decision.SETTLE:
                assert row is not None
                self.settle(row, self.table.settlements[self.scope, key])
            else:
                await self.fly(envelope, local_executor, row)

    def find(self, key: str, position: int) -> Row | None:
        if "serves_by_position" in self.host.faults and position < len(self.host.positions):
            return self.host.positions[position]
        return self.table.rows.get((self.scope, key))

    def observe(self, envelope: RuntimeEffectEnvelope, row: Row | None) -> Observed:
        key, envelope_hash = envelope.replay_key, envelope.stable_hash()
        flight = self.flights.get(key)
        known = row.hash if row is not None else flight[0] if flight is not None else envelope_hash
        same = known == envelope_hash or bool(self.host.faults & {"ignores_envelope_hash", "serves_by_position"})
        record = row.record if row is not None else Record.REQUESTED if flight is not None else Record.ABSENT
        word = self.table.settlements.get((self.scope, key))
        lease = self.table.lease(self.scope, self.host)
        if lease is Lease.LIVE and "rivals_do_not_wait" in self.host.faults:
            lease = Lease.OURS
        may_repeat = envelope.command.may_repeat or "repeats_unknown_tools" in self.host.faults
        settled = Settled.NO if word is None else word.decision
        return Observed(record, same, lease, flight is not None, may_repeat, settled)

    async def probed(self, envelope: RuntimeEffectEnvelope, executor: LocalExecutor) -> bool:
        word: Any = executor.probe(envelope) if executor.probe is not None else None
        if word is not None:
            self.table.settlements[self.scope, envelope.replay_key] = word
        return word is not None

    def settle(self, row: Row, word: Settlement) -> None:
        if word.error is not None:
            self.finish(row, Record.FAILED, RuntimeEffectControllerError(*word.error))
        else:
            self.finish(row, Record.COMPLETED, word.value)

    def finish(self, row: Row, record: Record, value: Any) -> None:
        row.record, row.value, row.seq = record, value, next(self.table.numbers)

    async def fly(self, envelope: RuntimeEffectEnvelope, executor: LocalExecutor, row: Row | None) -> None:
        key, epoch = envelope.replay_key, self.table.holders.get(self.scope, (None, 0))[1]
        done = asyncio.Event()
        self.flights[key] = (envelope.stable_hash(), done)
        seconds = envelope.command.seconds if isinstance(envelope.command, Sleep) else 0.0
        if row is None or "sleeps_anew" in self.host.faults:
            row = Row(envelope.stable_hash(), time.monotonic() + seconds)
        if "executes_before_recording" not in self.host.faults:
            self.table.rows[self.scope, key] = row
        failures: Any = (Exception, Died) if "takes_death_for_an_outcome" in self.host.faults else Exception
        try:
            try:
                if isinstance(envelope.command, Sleep):
                    await asyncio.sleep(max(0.0, row.due - time.monotonic()))
                    record, value = Record.COMPLETED, None
                else:
                    outcome = await executor(envelope)
                    record, value = Record.COMPLETED, copy.deepcopy(outcome.value)
            except failures as error:
                record, value = Record.FAILED, error
            if "does_not_fence" not in self.host.faults and self.table.holders[self.scope] != (self.host, epoch):
                raise StaleEpoch("taken over")
            self.table.rows[self.scope, key] = row
            self.finish(row, record, value)
        finally:
            del self.flights[key]
            done.set()

    async def serve(self, envelope: RuntimeEffectEnvelope, row: Row, position: int) -> RuntimeEffectOutcome:
        if "two_outcomes_in_one_turn" not in self.host.faults:
            await self.handover.turn_of(position if "serves_in_asking_order" in self.host.faults else row.seq)
        else:
            await asyncio.sleep(0.02)
        if row.record is Record.FAILED:
            error = row.value
            if "forgets_messages" in self.host.faults and isinstance(error, RuntimeEffectControllerError):
                error = RuntimeEffectControllerError(error.code, "")
            raise error
        return RuntimeEffectOutcome(envelope.kind, copy.deepcopy(row.value))


class TableHost:
    supports_durable_effects = True
    durability = Durability.PROCESS

    def __init__(self, table: Table, faults: set[str], *, policy: DecisionPolicy | None = None) -> None:
        self.table, self.faults = table, faults
        self.policy = policy or DecisionPolicy()
        self.controllers: dict[ExecutionScope, TableController] = {}
        self.positions = [row for row in table.rows.values() if row.seq]
        """What was recorded when this instance began, in the order of asking."""

    def scoped(self, scope: ExecutionScope) -> ScopedEffectController:
        if "blank_scopes" in self.faults and not scope.scope_id:
            scope = ExecutionScope.process("unnamed")
        scope.validate()
        controller = self.controllers.setdefault(scope, TableController(self, scope))
        return ScopedEffectController(controller, scope)

    def scoped_static(self, scope: ExecutionScope) -> ScopedEffectController | None:
        return self.scoped(scope)

    async def await_event_key(self, scope: ExecutionScope, wait: Any) -> Any:
        return self.table.desk.key(run_id("default", scope.validate()), wait, session=scope.session_id)

    async def resolve_await_event(self, key: Any, resolution: Any) -> Any:
        if "loses_early_resolutions" in self.faults and key.wait_id not in self.table.waited_for:
            return ResolveOutcome.accepted()
        return self.table.desk.resolve(key, resolution)

    async def await_await_event(
        self, key: Any, cancel: asyncio.Event | None = None, deadline: float | None = None
    ) -> Resolution:
        self.table.waited_for.add(key.wait_id)
        return await self.table.desk.wait(key, cancel=cancel, deadline=deadline)

    async def revoke_await_events_for_session(self, session: str) -> None:
        if "forgets_revocations" not in self.faults:
            self.table.desk.revoke_session(session)

    async def cancel_await_events_for_session(self, session: str) -> None:
        self.table.desk.cancel_session(session)


class TableHostSubject(EffectHostSubject):
    def __init__(self, *faults: str) -> None:
        assert set(faults) <= FAULTS
        self.faults = set(faults)

    def make_host(self) -> EffectHost:
        return TableHost(Table(), self.faults)

    def _table(self, host: EffectHost) -> Table:
        assert isinstance(host, TableHost)
        return host.table

    def reopen(self, host: EffectHost) -> EffectHost:
        table = self._table(host)
        for scope in list(table.holders):
            table.release(scope)
        if "forgets_at_restart" in self.faults:
            table.rows.clear()
        return TableHost(table, self.faults)

    def rival(self, host: EffectHost, *, waits: bool) -> EffectHost:
        policy = DecisionPolicy(busy=Busy.WAIT if waits else Busy.YIELD)
        return TableHost(self._table(host), self.faults, policy=policy)

    def expire_lease(self, host: EffectHost, scope: ExecutionScope) -> None:
        self._table(host).release(scope)

    def strict(self, host: EffectHost) -> EffectHost:
        return TableHost(self._table(host), self.faults, policy=DecisionPolicy(strict=True))

    def settle(self, host: EffectHost, scope: ExecutionScope, replay_key: str, settlement: Settlement) -> None:
        self._table(host).settlements[scope, replay_key] = settlement
