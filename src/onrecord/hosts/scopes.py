"""Scopes: the units of work that effects belong to. Each has its own run.

Rules:

1. There are five kinds: a turn and a queue drain of a session, the deletion of a session, a process, an operation of
   the runtime itself. A scope is a value; a host checks it, its constructor does not.
2. A blank id (empty or only white space) is refused with `missing_execution_scope_id`.
3. The run of a scope derives from namespace, kind and every id: `onrecord.scope/1 || 0x00`, then each part preceded by
   its length (docs/format.md, 2.1). Equal turn ids of two sessions have two runs; ("a", "bc") and ("ab", "c") do too.
4. The run id begins with a digest of the scope's owner, so that the runs of a session or a process are found by
   prefix: `session:<owner>:<scope>`, `process:<owner>:<scope>`, `operation:<owner>:<scope>`.
"""

from __future__ import annotations

import struct
from enum import StrEnum
from hashlib import sha256
from typing import Any

import msgspec

from onrecord.core.links import check_namespace
from onrecord.errors import InvalidInput

MISSING_SCOPE_ID = "missing_execution_scope_id"
MAX_ID_CHARACTERS = 1024
OWNER_DIGITS = 32

_SCOPE = b"onrecord.scope/1\0"
_OWNER = b"onrecord.scopeowner/1\0"


class ScopeKind(StrEnum):
    TURN = "turn"
    PROCESS = "process"
    QUEUE_DRAIN = "queue_drain"
    SESSION_DELETE = "session_delete"
    RUNTIME_OPERATION = "runtime_operation"


_ID_NAMES: dict[ScopeKind, tuple[str, ...]] = {
    ScopeKind.TURN: ("session", "turn"),
    ScopeKind.PROCESS: ("process",),
    ScopeKind.QUEUE_DRAIN: ("session", "drain"),
    ScopeKind.SESSION_DELETE: ("session",),
    ScopeKind.RUNTIME_OPERATION: ("operation",),
}


class ExecutionScope(msgspec.Struct, frozen=True):
    """The scope of a controller. Use one of the five constructors."""

    kind: ScopeKind
    ids: tuple[str, ...]

    @classmethod
    def turn(cls, session: str, turn: str) -> ExecutionScope:
        return cls(ScopeKind.TURN, (session, turn))

    @classmethod
    def process(cls, process: str) -> ExecutionScope:
        return cls(ScopeKind.PROCESS, (process,))

    @classmethod
    def queue_drain(cls, session: str, drain: str) -> ExecutionScope:
        return cls(ScopeKind.QUEUE_DRAIN, (session, drain))

    @classmethod
    def session_delete(cls, session: str) -> ExecutionScope:
        return cls(ScopeKind.SESSION_DELETE, (session,))

    @classmethod
    def runtime_operation(cls, operation: str) -> ExecutionScope:
        return cls(ScopeKind.RUNTIME_OPERATION, (operation,))

    @property
    def scope_id(self) -> str:
        """The last id, which is unique within its session or kind only."""
        return self.ids[-1]

    @property
    def turn_id(self) -> str | None:
        return self.ids[1] if self.kind is ScopeKind.TURN else None

    @property
    def session_id(self) -> str | None:
        return self.ids[0] if _ID_NAMES[self.kind][0] == "session" else None

    @property
    def process_id(self) -> str | None:
        return self.ids[0] if self.kind is ScopeKind.PROCESS else None

    def validate(self) -> ExecutionScope:
        for name, value in zip(_ID_NAMES[self.kind], self.ids, strict=True):
            _check_id(self.kind.value, name, value)
        return self

    def to_data(self) -> dict[str, str]:
        """Return plain data for a run's facts: the kind, and each id under its name."""
        return {"kind": self.kind.value, **dict(zip(_ID_NAMES[self.kind], self.ids, strict=True))}

    @classmethod
    def from_data(cls, data: Any) -> ExecutionScope:
        try:
            kind = ScopeKind(data["kind"])
            names = _ID_NAMES[kind]
            if set(data) != {"kind", *names}:
                raise KeyError
            return cls(kind, tuple(data[name] for name in names)).validate()
        except (KeyError, TypeError, ValueError):
            raise InvalidInput("not the data of an execution scope", code="bad_execution_scope") from None


def run_id(namespace: str, scope: ExecutionScope) -> str:
    """Return the run that records the effects of this scope."""
    check_namespace(namespace)
    scope.validate()
    digest = _framed(_SCOPE, namespace, scope.kind.value, *scope.ids)
    return f"{owner_prefix(namespace, scope)}{digest.hex()}"


def owner_prefix(namespace: str, scope: ExecutionScope) -> str:
    """Return the common prefix of the run ids of one session, process or operation."""
    owner = _ID_NAMES[scope.kind][0]
    digest = _framed(_OWNER, namespace, owner, scope.ids[0])
    return f"{owner}:{digest.hex()[:OWNER_DIGITS]}:"


def _framed(tag: bytes, *parts: str) -> bytes:
    encoded = [part.encode() for part in parts]
    return sha256(tag + b"".join(struct.pack(">Q", len(part)) + part for part in encoded)).digest()


def _check_id(kind: str, name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(
            f"the {name} id of a {kind} scope is missing",
            hint="Give every id of an execution scope; white space is not one.",
            code=MISSING_SCOPE_ID,
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"the {name} id of a {kind} scope holds a lone surrogate", code="bad_scope_id") from None
    if len(value) > MAX_ID_CHARACTERS:
        raise InvalidInput(
            f"the {name} id of a {kind} scope is longer than {MAX_ID_CHARACTERS} characters", code="bad_scope_id"
        )


class RuntimeScope(msgspec.Struct, frozen=True):
    """The position of a request in the work of the runtime. It is part of the envelope and of its hash."""

    session_id: str | None = None
    turn_id: str | None = None
    turn_index: int | None = None
    iteration: int | None = None
    process_id: str | None = None

    @classmethod
    def for_turn(cls, session: str, turn: str, turn_index: int, iteration: int) -> RuntimeScope:
        return cls(session, turn, turn_index, iteration)

    @classmethod
    def for_process(cls, process: str) -> RuntimeScope:
        return cls(process_id=process)

    def to_data(self) -> dict[str, Any]:
        """Return the members that are not None, so that one scope has one form."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
