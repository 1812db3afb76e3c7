"""A host for tests: notes its scopes and envelopes, and executes nothing.

A sleep ends at once, and a durable step returns its input. Other commands have no outcome here.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, NoReturn

import msgspec

from onrecord.hosts.contract import Durability, LocalExecutor, ScopedEffectController
from onrecord.hosts.envelopes import DurableStep, RuntimeEffectEnvelope, RuntimeEffectKind, RuntimeEffectOutcome, Sleep
from onrecord.hosts.outcomes import RuntimeEffectControllerError
from onrecord.hosts.scopes import ExecutionScope, RuntimeScope

UNSUPPORTED_COMMAND = "recording_effect_host_unsupported_command"
NO_AWAIT_EVENTS = "await_events_unsupported"


class RecordingEffectHostRecord(msgspec.Struct, frozen=True):
    runtime_scope: RuntimeScope
    execution_scope: ExecutionScope
    effect_id: str
    effect_kind: RuntimeEffectKind
    replay_key: str | None
    envelope_hash: str


class _Notes:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.scopes: list[ExecutionScope] = []
        self.records: list[RecordingEffectHostRecord] = []


class RecordingEffectHostController:
    supports_durable_effects = False

    def __init__(self, scope: ExecutionScope, notes: _Notes) -> None:
        self._scope = scope
        self._notes = notes

    async def execute_effect(
        self, envelope: RuntimeEffectEnvelope, local_executor: LocalExecutor
    ) -> RuntimeEffectOutcome:
        command, invocation = envelope.command, envelope.invocation
        record = RecordingEffectHostRecord(
            runtime_scope=invocation.scope,
            execution_scope=self._scope,
            effect_id=invocation.effect_id,
            effect_kind=command.kind,
            replay_key=invocation.replay_key,
            envelope_hash=envelope.stable_hash(),
        )
        with self._notes.lock:
            self._notes.records.append(record)
        if isinstance(command, Sleep):
            return RuntimeEffectOutcome.sleep()
        if isinstance(command, DurableStep):
            return RuntimeEffectOutcome.durable_step(command.input)
        raise RuntimeEffectControllerError(
            UNSUPPORTED_COMMAND, f"recording effect host cannot synthesize {command.kind.value} outcomes"
        )


class RecordingEffectHost:
    supports_durable_effects = False
    durability = Durability.NONE

    def __init__(self) -> None:
        self._notes = _Notes()

    def selected_scopes(self) -> list[ExecutionScope]:
        with self._notes.lock:
            return list(self._notes.scopes)

    def records(self) -> list[RecordingEffectHostRecord]:
        with self._notes.lock:
            return list(self._notes.records)

    def scoped(self, scope: ExecutionScope) -> ScopedEffectController:
        scope.validate()
        with self._notes.lock:
            self._notes.scopes.append(scope)
        return ScopedEffectController(RecordingEffectHostController(scope, self._notes), scope)

    def scoped_static(self, scope: ExecutionScope) -> ScopedEffectController | None:
        return self.scoped(scope)

    async def await_event_key(self, scope: ExecutionScope, wait: Any) -> NoReturn:
        self._refuse()

    async def resolve_await_event(self, key: Any, resolution: Any) -> NoReturn:
        self._refuse()

    async def await_await_event(
        self, key: Any, cancel: asyncio.Event | None = None, deadline: float | None = None
    ) -> NoReturn:
        self._refuse()

    async def revoke_await_events_for_session(self, session: str) -> NoReturn:
        self._refuse()

    async def cancel_await_events_for_session(self, session: str) -> NoReturn:
        self._refuse()

    @staticmethod
    def _refuse() -> NoReturn:
        raise RuntimeEffectControllerError(NO_AWAIT_EVENTS, "recording effect host cannot wait for events")
