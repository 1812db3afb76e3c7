"""Building blocks of the cases: envelopes, executors that count, a process that dies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from onrecord.hosts.contract import LocalExecutor
from onrecord.hosts.envelopes import (
    DurableStep,
    ExecCode,
    RuntimeEffectCommand,
    RuntimeEffectEnvelope,
    RuntimeInvocation,
    ToolCall,
)
from onrecord.hosts.outcomes import RuntimeEffectControllerError, RuntimeEffectOutcome
from onrecord.hosts.scopes import ExecutionScope, RuntimeScope

SCOPE = ExecutionScope.turn("conformance-session", "conformance-turn")


class Died(BaseException):
    """The end of the process in the middle of an effect. No host may record it as an outcome."""


class Calls:
    """The effects that were really executed, by effect id, as an outside ledger would show."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def executor(self, answer: Callable[[RuntimeEffectEnvelope], Any]) -> LocalExecutor:
        """Return an executor that counts, then returns or raises what `answer` does, as the envelope's outcome."""

        async def execute(envelope: RuntimeEffectEnvelope) -> RuntimeEffectOutcome:
            self.made.append(envelope.invocation.effect_id)
            value = answer(envelope)
            if isinstance(value, Awaitable):
                value = await value
            return RuntimeEffectOutcome(envelope.kind, value)

        return LocalExecutor.testing(execute)

    def returning(self, value: Any) -> LocalExecutor:
        return self.executor(lambda _: value)

    def dying(self) -> LocalExecutor:
        def die(_: RuntimeEffectEnvelope) -> Any:
            raise Died

        return self.executor(die)

    def forbidden(self) -> LocalExecutor:
        """Return an executor for a replay. A call shows in the count and in the code of the error."""

        def refuse(_: RuntimeEffectEnvelope) -> Any:
            raise RuntimeEffectControllerError(
                "conformance_replay_local_executor_called", "recorded replay must not invoke local effect execution"
            )

        return self.executor(refuse)


def envelope_of(command: RuntimeEffectCommand, key: str, effect_id: str | None = None) -> RuntimeEffectEnvelope:
    scope = RuntimeScope.for_turn("conformance-session", "conformance-turn", 7, 0)
    return RuntimeEffectEnvelope(RuntimeInvocation.effect(scope, effect_id or key, command.kind, key), command)


def step(key: str, value: Any = None) -> RuntimeEffectEnvelope:
    """Return an effect that may be repeated."""
    return envelope_of(DurableStep(step_id=key, input=value), key)


def tool(key: str, arguments: Any = None) -> RuntimeEffectEnvelope:
    """Return an effect that may run at most once."""
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
    """Return the error that the work must raise."""
    try:
        await work
    except Exception as error:
        return error
    raise AssertionError("expected an error, but none was raised")


async def code_of(work: Awaitable[Any]) -> str:
    error = await error_of(work)
    return str(getattr(error, "code", type(error).__name__))
