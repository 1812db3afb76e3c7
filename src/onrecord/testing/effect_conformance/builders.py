"""What the cases are made of: envelopes, executors that count, a process that dies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from reenact.core.effect_outcomes import RuntimeEffectControllerError, RuntimeEffectOutcome
from reenact.core.envelopes import (
    DurableStep,
    ExecCode,
    RuntimeEffectCommand,
    RuntimeEffectEnvelope,
    RuntimeInvocation,
    ToolCall,
)
from reenact.core.scopes import ExecutionScope, RuntimeScope
from reenact.effect.hosts.contract import LocalExecutor

SCOPE = ExecutionScope.turn("conformance-session", "conformance-turn")


class Died(BaseException):
    """Stands for the end of the process in the middle of an effect: no host may take it for an outcome."""


class Calls:
    """Which effects were really carried out, by effect id: what an outside ledger would show."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def executor(self, answer: Callable[[RuntimeEffectEnvelope], Any]) -> LocalExecutor:
        """Counts, then gives the answer as an outcome of the envelope's kind; what `answer` raises is raised."""

        async def carry_out(envelope: RuntimeEffectEnvelope) -> RuntimeEffectOutcome:
            self.made.append(envelope.invocation.effect_id)
            value = answer(envelope)
            if isinstance(value, Awaitable):
                value = await value
            return RuntimeEffectOutcome(envelope.kind, value)

        return LocalExecutor.testing(carry_out)

    def returning(self, value: Any) -> LocalExecutor:
        return self.executor(lambda _: value)

    def dying(self) -> LocalExecutor:
        def die(_: RuntimeEffectEnvelope) -> Any:
            raise Died

        return self.executor(die)

    def forbidden(self) -> LocalExecutor:
        """For a replay: whoever calls it is caught by the count, and by the code of the error."""

        def refuse(_: RuntimeEffectEnvelope) -> Any:
            raise RuntimeEffectControllerError(
                "conformance_replay_local_executor_called", "recorded replay must not invoke local effect execution"
            )

        return self.executor(refuse)


def envelope_of(command: RuntimeEffectCommand, key: str, effect_id: str | None = None) -> RuntimeEffectEnvelope:
    scope = RuntimeScope.for_turn("conformance-session", "conformance-turn", 7, 0)
    return RuntimeEffectEnvelope(RuntimeInvocation.effect(scope, effect_id or key, command.kind, key), command)


def step(key: str, value: Any = None) -> RuntimeEffectEnvelope:
    """An effect that may be done again."""
    return envelope_of(DurableStep(step_id=key, input=value), key)


def tool(key: str, arguments: Any = None) -> RuntimeEffectEnvelope:
    """An effect that may run at most once."""
    return envelope_of(ToolCall(tool="send_mail", arguments=arguments), key)


def durable_step_conformance_envelope(step_id: str, value: Any) -> RuntimeEffectEnvelope:
    scope = RuntimeScope.for_turn("durable-step-session", "durable-step-turn", 7, 0)
    command = DurableStep(step_id=step_id, input=value)
    invocation = RuntimeInvocation.effect(
        scope, f"durable-step:{step_id}", command.kind, f"durable-step-replay:{step_id}"
    )
    return RuntimeEffectEnvelope(invocation, command)


def replay_conformance_exec_envelope(effect_id: str) -> RuntimeEffectEnvelope:
    scope = RuntimeScope.for_turn("effect-conformance-session", "effect-conformance-turn", 7, 0)
    command = ExecCode(code=f"emit {effect_id}")
    key = f"effect-conformance:effect-conformance-turn:{effect_id}"
    return RuntimeEffectEnvelope(RuntimeInvocation.effect(scope, effect_id, command.kind, key), command)


async def error_of(work: Awaitable[Any]) -> Exception:
    """The error that the work has to end with."""
    try:
        await work
    except Exception as error:
        return error
    raise AssertionError("expected an error, and there was none")


async def code_of(work: Awaitable[Any]) -> str:
    error = await error_of(work)
    return str(getattr(error, "code", type(error).__name__))
