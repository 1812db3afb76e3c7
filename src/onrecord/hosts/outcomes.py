"""Outcomes of effects: a value of the effect's kind, or an error with a code and a message."""

from __future__ import annotations

from typing import Any

import msgspec

from onrecord.errors import OnrecordError
from onrecord.hosts.commands import RuntimeEffectKind

# Stable codes of what a controller refuses or reports.
KIND_MISMATCH = "effect_kind_mismatch"
MISSING_EFFECT_ID = "missing_effect_id"
MISSING_REPLAY_KEY = "missing_replay_key"
BAD_COMMAND = "bad_effect_command"
CONFLICT = "effect_envelope_conflict"
MISSING_RECORD = "missing_record"
IN_DOUBT = "effect_in_doubt"
BUSY = "scope_busy"
CORRUPT = "corrupt_record"
CANCELLED = "effect_cancelled"
WRONG_OUTCOME = "unexpected_effect_outcome"
UNRECORDABLE = "unrecordable_outcome"

_EXIT_STATUS = {CONFLICT: 1, IN_DOUBT: 6, BUSY: 6, CORRUPT: 4, MISSING_RECORD: 7}


class RuntimeEffectControllerError(OnrecordError):
    """A refusal of a controller, or the recorded failure of an effect. `code` is stable."""

    code = "runtime_effect_error"

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, code=code)
        self.exit_status = _EXIT_STATUS.get(code, self.exit_status)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.code, self.message, self.hint))


def _rebuild(code: str, message: str, hint: str) -> RuntimeEffectControllerError:
    return RuntimeEffectControllerError(code, message, hint=hint)


class RuntimeEffectOutcome(msgspec.Struct, frozen=True):
    """The result of an effect. That of a sleep is None."""

    kind: RuntimeEffectKind
    value: Any = None

    @classmethod
    def model_call(cls, response: Any) -> RuntimeEffectOutcome:
        return cls(RuntimeEffectKind.MODEL_CALL, response)

    @classmethod
    def tool_call(cls, output: Any) -> RuntimeEffectOutcome:
        return cls(RuntimeEffectKind.TOOL_CALL, output)

    @classmethod
    def http(cls, response: Any) -> RuntimeEffectOutcome:
        return cls(RuntimeEffectKind.HTTP, response)

    @classmethod
    def exec_code(cls, result: Any) -> RuntimeEffectOutcome:
        return cls(RuntimeEffectKind.EXEC_CODE, result)

    @classmethod
    def sleep(cls) -> RuntimeEffectOutcome:
        return cls(RuntimeEffectKind.SLEEP)

    @classmethod
    def durable_step(cls, value: Any) -> RuntimeEffectOutcome:
        return cls(RuntimeEffectKind.DURABLE_STEP, value)

    @classmethod
    def await_event(cls, resolution: Any) -> RuntimeEffectOutcome:
        return cls(RuntimeEffectKind.AWAIT_EVENT, resolution)

    @classmethod
    def process(cls, result: Any) -> RuntimeEffectOutcome:
        return cls(RuntimeEffectKind.PROCESS, result)

    @classmethod
    def clock(cls, value: Any) -> RuntimeEffectOutcome:
        return cls(RuntimeEffectKind.CLOCK, value)

    @classmethod
    def random(cls, value: Any) -> RuntimeEffectOutcome:
        return cls(RuntimeEffectKind.RANDOM, value)

    def into(self, kind: RuntimeEffectKind) -> Any:
        """Return the value if this is an outcome of that kind."""
        if self.kind is not kind:
            raise RuntimeEffectControllerError(
                WRONG_OUTCOME, f"expected the outcome of a {kind.value} effect, this is of a {self.kind.value} effect"
            )
        return self.value

    def into_model_call(self) -> Any:
        return self.into(RuntimeEffectKind.MODEL_CALL)

    def into_tool_call(self) -> Any:
        return self.into(RuntimeEffectKind.TOOL_CALL)

    def into_http(self) -> Any:
        return self.into(RuntimeEffectKind.HTTP)

    def into_exec_code(self) -> Any:
        return self.into(RuntimeEffectKind.EXEC_CODE)

    def into_sleep(self) -> None:
        self.into(RuntimeEffectKind.SLEEP)

    def into_durable_step(self) -> Any:
        return self.into(RuntimeEffectKind.DURABLE_STEP)

    def into_await_event(self) -> Any:
        return self.into(RuntimeEffectKind.AWAIT_EVENT)

    def into_process(self) -> Any:
        return self.into(RuntimeEffectKind.PROCESS)

    def into_clock(self) -> Any:
        return self.into(RuntimeEffectKind.CLOCK)

    def into_random(self) -> Any:
        return self.into(RuntimeEffectKind.RANDOM)
