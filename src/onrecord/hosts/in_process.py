"""The host that records nothing: effects are executed here and forgotten with the process.

Scopes, envelopes and waits follow the same rules as with a durable host, so that a program can use either.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import cached_property

from onrecord.core.wait_keys import SECRET_BYTES, Resolution, ResolveOutcome, WaitIdentity, WaitKey
from onrecord.errors import KeysUnavailable
from onrecord.hosts.contract import Durability, LocalExecutor, ScopedEffectController
from onrecord.hosts.envelopes import AwaitEvent, RuntimeEffectEnvelope, RuntimeEffectOutcome, Sleep
from onrecord.hosts.scopes import ExecutionScope, run_id
from onrecord.journal.sources import Sources, SystemSources
from onrecord.runtime.secrets.keys import KeyRing
from onrecord.runtime.waits.registry import WaitRegistry
from onrecord.store.memory import MemoryStore

NAMESPACE = "default"


class ProcessKeyRing(KeyRing):
    """A key ring with one secret that never leaves this process: no file is read or written."""

    def __init__(self, sources: Sources | None = None) -> None:
        super().__init__("/nonexistent", sources=sources)
        self._secret = (sources or SystemSources()).entropy(SECRET_BYTES)

    def __repr__(self) -> str:
        return "<ProcessKeyRing>"

    def current_id(self) -> str:
        return "process"

    def has(self, key_id: str) -> bool:
        return key_id == self.current_id()

    def ids(self) -> list[str]:
        return [self.current_id()]

    def sign(self, key: WaitKey) -> WaitKey:
        if not self.has(key.key_id):
            raise KeysUnavailable("the secret that signs this wait is not of this process", code="wait_secret_missing")
        return key.signed(self._secret)

    def verifies(self, key: WaitKey) -> bool:
        return key.is_signed_by(self._secret) and self.has(key.key_id)


class WaitingHost(ABC):
    """The part of a host that waits for events."""

    @property
    @abstractmethod
    def desk(self) -> WaitRegistry: ...

    @abstractmethod
    def _key(self, scope: ExecutionScope, wait: WaitIdentity) -> WaitKey: ...

    async def _wait_for(self, scope: ExecutionScope, command: AwaitEvent, due_us: int | None) -> Resolution:
        identity = WaitIdentity(command.wait, command.name, command.ordinal).checked()  # type: ignore[arg-type]
        deadline = None if due_us is None else due_us / 1_000_000
        return await self.desk.wait(self._key(scope, identity), cancel=None, deadline=deadline)

    async def await_event_key(self, scope: ExecutionScope, wait: WaitIdentity) -> WaitKey:
        return self._key(scope.validate(), wait)

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


class InProcessController:
    supports_durable_effects = False

    def __init__(
        self, sleep: Callable[[float], Awaitable[None]], waiting: Callable[[AwaitEvent], Awaitable[Resolution]]
    ) -> None:
        self._sleep = sleep
        self._waiting = waiting

    async def execute_effect(
        self, envelope: RuntimeEffectEnvelope, local_executor: LocalExecutor
    ) -> RuntimeEffectOutcome:
        command = envelope.validate().command
        if isinstance(command, Sleep):
            await self._sleep(command.seconds)
            return RuntimeEffectOutcome.sleep()
        if isinstance(command, AwaitEvent):
            return RuntimeEffectOutcome.await_event(await self._waiting(command))
        return await local_executor(envelope)


class InProcessEffectHost(WaitingHost):
    supports_durable_effects = False
    durability = Durability.NONE

    def __init__(
        self, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, sources: Sources | None = None
    ) -> None:
        self._sources = sources or SystemSources()
        self._sleep = sleep

    @cached_property
    def desk(self) -> WaitRegistry:
        keyring = ProcessKeyRing(self._sources)
        return WaitRegistry(MemoryStore(), NAMESPACE, keyring=keyring, sources=self._sources)

    def scoped(self, scope: ExecutionScope) -> ScopedEffectController:
        async def wait(command: AwaitEvent) -> Resolution:
            timeout = command.timeout_seconds
            due_us = None if timeout is None else self._sources.now_us() + int(timeout * 1_000_000)
            return await self._wait_for(scope, command, due_us)

        return ScopedEffectController(InProcessController(self._sleep, wait), scope)

    def scoped_static(self, scope: ExecutionScope) -> ScopedEffectController | None:
        return self.scoped(scope)

    def _key(self, scope: ExecutionScope, wait: WaitIdentity) -> WaitKey:
        return self.desk.key(run_id(NAMESPACE, scope), wait, session=scope.session_id)
