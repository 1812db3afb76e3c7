"""Commands: one type for each kind of effect.

A command says whether it may be executed again when its result is unknown. Model calls, pure steps, reads and commands
with a stable identity may; an unknown tool may not.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any, ClassVar

import msgspec

from onrecord.core.canonical import path_step
from onrecord.core.codec import decode
from onrecord.errors import InvalidValue

_READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class RuntimeEffectKind(StrEnum):
    MODEL_CALL = "model_call"
    TOOL_CALL = "tool_call"
    HTTP = "http"
    EXEC_CODE = "exec_code"
    SLEEP = "sleep"
    DURABLE_STEP = "durable_step"
    AWAIT_EVENT = "await_event"
    PROCESS = "process"
    CLOCK = "clock"
    RANDOM = "random"


EffectKind = RuntimeEffectKind


class RuntimeEffectCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all commands."""

    kind: ClassVar[RuntimeEffectKind]

    @property
    def may_repeat(self) -> bool:
        """Return True if the command is executed again when its result is unknown."""
        return True

    def problem(self) -> str | None:
        """Return why no host can execute this command, or None."""
        return None

    def to_data(self) -> dict[str, Any]:
        """Return the kind and every member that does not have its default, values as they are."""
        members = {
            field.name: value
            for field in msgspec.structs.fields(self)
            if not _is_default(value := getattr(self, field.name), field.default)
        }
        return {"kind": self.kind.value, **members}


def _is_default(value: Any, default: Any) -> bool:
    # Members of any type have None as default, so no `__eq__` of a user is called.
    return value is default or (default is not None and type(value) is type(default) and bool(value == default))


class ModelCall(RuntimeEffectCommand, frozen=True, kw_only=True):
    kind = RuntimeEffectKind.MODEL_CALL
    provider: str
    model: str
    request: Any
    at_most_once: bool = False

    @property
    def may_repeat(self) -> bool:
        return not self.at_most_once


class ToolCall(RuntimeEffectCommand, frozen=True, kw_only=True):
    kind = RuntimeEffectKind.TOOL_CALL
    tool: str
    arguments: Any
    idempotent: bool = False
    """True: executing it again with the same replay key does no harm."""

    @property
    def may_repeat(self) -> bool:
        return self.idempotent


class HttpRequest(RuntimeEffectCommand, frozen=True, kw_only=True):
    kind = RuntimeEffectKind.HTTP
    method: str
    url: str
    headers: Any = None
    body: Any = None
    idempotent: bool = False

    @property
    def may_repeat(self) -> bool:
        return self.idempotent or self.method.upper() in _READING_METHODS


class ExecCode(RuntimeEffectCommand, frozen=True, kw_only=True):
    kind = RuntimeEffectKind.EXEC_CODE
    code: str
    language: str = "python"
    disposable: bool = False
    """True: the sandbox is deleted afterwards, with the traces of code that was cut off."""

    @property
    def may_repeat(self) -> bool:
        return self.disposable


class Sleep(RuntimeEffectCommand, frozen=True, kw_only=True):
    """Sleep until the due time, which is set when the sleep is first requested."""

    kind = RuntimeEffectKind.SLEEP
    seconds: float

    def problem(self) -> str | None:
        return None if math.isfinite(self.seconds) and self.seconds >= 0 else "a sleep lasts a finite, positive time"


class DurableStep(RuntimeEffectCommand, frozen=True, kw_only=True):
    kind = RuntimeEffectKind.DURABLE_STEP
    step_id: str
    input: Any = None


class AwaitEvent(RuntimeEffectCommand, frozen=True, kw_only=True):
    """Wait for an event from outside. A repeated wait waits for the same event."""

    kind = RuntimeEffectKind.AWAIT_EVENT
    wait: str
    """The kind of the wait, such as `tool_completion`."""
    name: str
    ordinal: int = 1
    timeout_seconds: float | None = None

    def problem(self) -> str | None:
        timeout = self.timeout_seconds
        if timeout is None or (math.isfinite(timeout) and timeout >= 0):
            return None
        return "a time-out is a finite, positive time"


class Process(RuntimeEffectCommand, frozen=True, kw_only=True):
    """Start or address a process under its own id. Requested twice, it is still one process."""

    kind = RuntimeEffectKind.PROCESS
    process_id: str
    operation: str
    input: Any = None


class Clock(RuntimeEffectCommand, frozen=True, kw_only=True):
    kind = RuntimeEffectKind.CLOCK
    source: str = "now"


class Random(RuntimeEffectCommand, frozen=True, kw_only=True):
    kind = RuntimeEffectKind.RANDOM
    source: str = "bytes"
    size: int = 16


COMMANDS: dict[str, type[RuntimeEffectCommand]] = {cls.kind.value: cls for cls in RuntimeEffectCommand.__subclasses__()}


def command_from_tree(tree: Any, path: str) -> RuntimeEffectCommand:
    """Return the command of an untrusted encoded tree. `InvalidValue` names the path of a wrong member."""
    members = checked_object(tree, path)
    kind = members.pop("kind", None)
    cls = COMMANDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise InvalidValue(f"{path}.kind: not a kind of effect", code="bad_envelope")
    command: RuntimeEffectCommand = struct_from_tree(cls, members, path)
    return command


def checked_object(tree: Any, path: str) -> dict[str, Any]:
    if type(tree) is not dict:
        raise InvalidValue(f"{path}: not an object", code="bad_envelope")
    return dict(tree)


def struct_from_tree(cls: Any, members: dict[str, Any], path: str) -> Any:
    """Return a struct of the members: typed ones are checked, the others decoded. An unknown one is an error."""
    made = {}
    fields = {field.name: field for field in msgspec.structs.fields(cls)}
    for name, value in members.items():
        if name not in fields:
            raise InvalidValue(f"{path}{path_step(name)}: no such member", code="bad_envelope")
        made[name] = _member(fields[name].type, value, f"{path}.{name}")
    missing = [name for name, field in fields.items() if field.required and name not in made]
    if missing:
        raise InvalidValue(f"{path}.{missing[0]}: missing", code="bad_envelope")
    return cls(**made)


def _member(wanted: Any, value: Any, path: str) -> Any:
    if wanted is Any:
        return decode(value)
    try:
        return msgspec.convert(value, wanted, strict=True)
    except msgspec.ValidationError:
        raise InvalidValue(f"{path}: a value of another type than this member has", code="bad_envelope") from None
