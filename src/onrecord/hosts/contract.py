"""What a host and a controller promise; read this before writing one.

A *host* gives a controller for each scope. A *controller* carries out envelopes: it runs the local executor, or answers
from what was recorded before. What a controller that advertises durable effects promises:

1. The request is recorded before the effect starts.
2. The outcome, value or error, is recorded before anybody sees it; from then on the effect never runs again.
3. The same key with another envelope is refused before anything runs.
4. Records are found by key. Effects of one scope run concurrently; the order of asking and of completing may differ.
5. Outcomes are handed over one at a time, in the order in which they were recorded, each when nothing else is ready.
6. Whoever lost the lease on a scope can no longer record anything in it.
7. An effect that was requested by somebody who is gone is in doubt: it is done again only if it may be.

`onrecord.testing.effect_conformance` tries to break each of these sentences.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from onrecord.hosts.decision import Settled
from onrecord.hosts.envelopes import DurableStep, RuntimeEffectEnvelope, RuntimeEffectKind
from onrecord.hosts.outcomes import WRONG_OUTCOME, RuntimeEffectControllerError, RuntimeEffectOutcome
from onrecord.hosts.scopes import ExecutionScope

T = TypeVar("T")


class Durability(StrEnum):
    """What outcomes survive, as a host advertises it."""

    NONE = "none"
    PROCESS = "process"
    """The host, not the process."""
    RELAXED = "relaxed"
    """The process, not the machine."""
    FULL = "full"


class Settlement:
    """A word on an effect in doubt, of an operator or of a probe."""

    __slots__ = ("by", "decision", "error", "value")

    def __init__(
        self, decision: Settled, value: Any = None, error: tuple[str, str] | None = None, by: str | None = None
    ) -> None:
        self.decision = decision
        self.value = value
        self.error = error
        self.by = by

    @classmethod
    def done(cls, value: Any = None, *, by: str | None = None) -> Settlement:
        """It was done, and this came of it."""
        return cls(Settled.DONE, value, by=by)

    @classmethod
    def fail(cls, code: str, message: str, *, by: str | None = None) -> Settlement:
        """It was not done and is not to be: the agent sees this error."""
        return cls(Settled.FAIL, error=(code, message), by=by)

    @classmethod
    def retry(cls, *, by: str | None = None) -> Settlement:
        """It was not done: do it."""
        return cls(Settled.RETRY, by=by)


Probe = Callable[[RuntimeEffectEnvelope], "Settlement | Awaitable[Settlement | None] | None"]


class LocalExecutor:
    """How an effect is carried out here: an async callable of the envelope that returns an outcome.

    `probe` is asked about an effect in doubt before it is given up.
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
        """From a function of the step's input; what it returns or raises is recorded."""

        async def carry_out(envelope: RuntimeEffectEnvelope) -> RuntimeEffectOutcome:
            if not isinstance(envelope.command, DurableStep):
                raise RuntimeEffectControllerError(
                    WRONG_OUTCOME, f"an executor of durable steps was given a {envelope.kind.value} effect"
                )
            return RuntimeEffectOutcome.durable_step(await _awaited(function(envelope.command.input)))

        return cls(carry_out, probe=probe)

    @classmethod
    def of(
        cls, kind: RuntimeEffectKind, function: Callable[[Any], Any], *, probe: Probe | None = None
    ) -> LocalExecutor:
        """From a function of the command; what it returns is the value of an outcome of that kind."""

        async def carry_out(envelope: RuntimeEffectEnvelope) -> RuntimeEffectOutcome:
            return RuntimeEffectOutcome(kind, await _awaited(function(envelope.command)))

        return cls(carry_out, probe=probe)

    @classmethod
    def testing(
        cls, function: Callable[[RuntimeEffectEnvelope], RuntimeEffectOutcome | Awaitable[RuntimeEffectOutcome]]
    ) -> LocalExecutor:
        """From a function of the envelope that makes the outcome itself."""
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
        """The outcome, recorded or fresh. Raises what the effect raised, the first time and every time after; or a
        `RuntimeEffectControllerError` whose code tells why it was not carried out.
        """
        ...


class ScopedEffectController:
    """A controller together with the scope it was asked for."""

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
        """The controller of a scope. `missing_execution_scope_id` when one of its ids is blank."""
        ...

    def scoped_static(self, scope: ExecutionScope) -> ScopedEffectController | None:
        """One that may be kept when the host is gone; None from a host that cannot give such."""
        ...

    # Waiting for what comes from outside

    async def await_event_key(self, scope: ExecutionScope, wait: Any) -> Any:
        """The key that resolves this wait. The same scope and wait have the same key, always."""
        ...

    async def resolve_await_event(self, key: Any, resolution: Any) -> Any:
        """First resolution wins, also before anybody waits; a later one learns it."""
        ...

    async def await_await_event(
        self, key: Any, cancel: asyncio.Event | None = None, deadline: float | None = None
    ) -> Any:
        """The resolution. Being cancelled by `cancel` and running into `deadline` are resolutions themselves."""
        ...

    async def revoke_await_events_for_session(self, session: str) -> Any:
        """For ever: no key of the session resolves or waits again, nor does one that is made later."""
        ...

    async def cancel_await_events_for_session(self, session: str) -> Any:
        """Resolves what is open as cancelled; the session goes on."""
        ...
