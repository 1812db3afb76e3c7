"""The contract of hosts and controllers. Read this before you write one.

A *host* returns a controller for each scope. A *controller* executes envelopes: it calls the local executor, or serves
the record. Rules for a controller that advertises durable effects:

1. The request is recorded before the effect starts.
2. The outcome, value or error, is recorded before the caller receives it. Then the effect never runs again.
3. The same key with another envelope is refused before anything runs.
4. Records are found by key. Effects of one scope run concurrently, and may be requested and end in any order.
5. Outcomes are delivered one at a time, in the order of the record, each when nothing else is ready.
6. A holder that lost the lease on a scope cannot record anything in it.
7. An effect whose requester died is in doubt: it is executed again only if it may be repeated.

`onrecord.testing.effect_conformance` tries to break each of these rules.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeVar

from onrecord.hosts.decision import Settled
from onrecord.hosts.envelopes import DurableStep, RuntimeEffectEnvelope, RuntimeEffectKind
from onrecord.hosts.outcomes import WRONG_OUTCOME, RuntimeEffectControllerError, RuntimeEffectOutcome
from onrecord.hosts.scopes import ExecutionScope

T = TypeVar("T")


class Durability(StrEnum):
    """The lifetime of outcomes, as a host advertises it."""

    NONE = "none"
    PROCESS = "process"
    """They survive the host, not the process."""
    RELAXED = "relaxed"
    """They survive the process, not the machine."""
    FULL = "full"


class Settlement(NamedTuple):
    """The decision of an operator or a probe on an effect in doubt."""

    decision: Settled
    value: Any = None
    error: tuple[str, str] | None = None
    by: str | None = None

    @classmethod
    def done(cls, value: Any = None, *, by: str | None = None) -> Settlement:
        """Decide that the effect was done, with this value."""
        return cls(Settled.DONE, value, by=by)

    @classmethod
    def fail(cls, code: str, message: str, *, by: str | None = None) -> Settlement:
        """Decide that the effect failed: the agent receives this error."""
        return cls(Settled.FAIL, error=(code, message), by=by)

    @classmethod
    def retry(cls, *, by: str | None = None) -> Settlement:
        """Decide that the effect was not done: execute it."""
        return cls(Settled.RETRY, by=by)


Probe = Callable[[RuntimeEffectEnvelope], "Settlement | Awaitable[Settlement | None] | None"]


class LocalExecutor:
    """An async callable that executes an envelope and returns its outcome.

    `probe` is called for an effect in doubt that may not be repeated and that no operator has settled.
    """

    __slots__ = ("_function", "probe")

    def __init__(
        self,
        function: Callable[[RuntimeEffectEnvelope], RuntimeEffectOutcome | Awaitable[RuntimeEffectOutcome]],
        *,
        probe: Probe | None = None,
    ) -> None:
        self._function = function
        self.probe = probe

    @classmethod
    def durable_step(cls, function: Callable[[Any], Any], *, probe: Probe | None = None) -> LocalExecutor:
        """Make an executor of a function of the step's input. Its result or error is recorded."""

        async def execute(envelope: RuntimeEffectEnvelope) -> RuntimeEffectOutcome:
            if not isinstance(envelope.command, DurableStep):
                raise RuntimeEffectControllerError(
                    WRONG_OUTCOME, f"an executor of durable steps was given a {envelope.kind.value} effect"
                )
            return RuntimeEffectOutcome.durable_step(await _awaited(function(envelope.command.input)))

        return cls(execute, probe=probe)

    @classmethod
    def of(
        cls, kind: RuntimeEffectKind, function: Callable[[Any], Any], *, probe: Probe | None = None
    ) -> LocalExecutor:
        """Make an executor of a function of the command. Its result is the value of an outcome of that kind."""

        async def execute(envelope: RuntimeEffectEnvelope) -> RuntimeEffectOutcome:
            return RuntimeEffectOutcome(kind, await _awaited(function(envelope.command)))

        return cls(execute, probe=probe)

    @classmethod
    def testing(
        cls, function: Callable[[RuntimeEffectEnvelope], RuntimeEffectOutcome | Awaitable[RuntimeEffectOutcome]]
    ) -> LocalExecutor:
        """Make an executor of a function from the envelope to the outcome."""
        return cls(function)

    async def __call__(self, envelope: RuntimeEffectEnvelope) -> RuntimeEffectOutcome:
        outcome = await _awaited(self._function(envelope))
        if not isinstance(outcome, RuntimeEffectOutcome):
            raise RuntimeEffectControllerError(WRONG_OUTCOME, "the local executor did not return an outcome")
        outcome.into(envelope.kind)
        return outcome


async def _awaited(value: T | Awaitable[T]) -> T:
    if inspect.isawaitable(value):
        awaited: T = await value
        return awaited
    return value


async def ask_probe(probe: Probe | None, envelope: RuntimeEffectEnvelope) -> Settlement | None:
    return None if probe is None else await _awaited(probe(envelope))


class EffectController(Protocol):
    @property
    def supports_durable_effects(self) -> bool: ...

    async def execute_effect(
        self, envelope: RuntimeEffectEnvelope, local_executor: LocalExecutor
    ) -> RuntimeEffectOutcome:
        """Return the outcome, recorded or new, or raise the error of the effect, now and every time after.

        Raise a `RuntimeEffectControllerError` if the effect was not executed: its code has the reason.
        """
        ...


class ScopedEffectController:
    """A controller with its scope."""

    __slots__ = ("__weakref__", "controller", "execution_scope")

    def __init__(self, controller: EffectController, scope: ExecutionScope) -> None:
        self.controller = controller
        self.execution_scope = scope.validate()

    @property
    def scope_id(self) -> str:
        return self.execution_scope.scope_id

    @property
    def turn_id(self) -> str | None:
        return self.execution_scope.turn_id

    @property
    def session_id(self) -> str | None:
        return self.execution_scope.session_id

    @property
    def supports_durable_effects(self) -> bool:
        return self.controller.supports_durable_effects

    async def execute_effect(
        self, envelope: RuntimeEffectEnvelope, local_executor: LocalExecutor
    ) -> RuntimeEffectOutcome:
        return await self.controller.execute_effect(envelope, local_executor)


class EffectHost(Protocol):
    @property
    def supports_durable_effects(self) -> bool: ...

    @property
    def durability(self) -> Durability: ...

    def scoped(self, scope: ExecutionScope) -> ScopedEffectController:
        """Return the controller of a scope. A blank id is refused with `missing_execution_scope_id`."""
        ...

    def scoped_static(self, scope: ExecutionScope) -> ScopedEffectController | None:
        """Return a controller that may outlive the host, or None if the host has none."""
        ...

    # Waits

    async def await_event_key(self, scope: ExecutionScope, wait: Any) -> Any:
        """Return the key that resolves this wait. The same scope and wait always have the same key."""
        ...

    async def resolve_await_event(self, key: Any, resolution: Any) -> Any:
        """Resolve a wait, also before it begins. The first resolution wins; later callers receive it."""
        ...

    async def await_await_event(
        self, key: Any, cancel: asyncio.Event | None = None, deadline: float | None = None
    ) -> Any:
        """Wait for the resolution and return it. `cancel` and `deadline` resolve the wait too."""
        ...

    async def revoke_await_events_for_session(self, session: str) -> Any:
        """Refuse every key of the session from now on, also of waits that are created later."""
        ...

    async def cancel_await_events_for_session(self, session: str) -> Any:
        """Resolve the open waits of the session as cancelled. The session continues."""
        ...
