"""Envelopes: effect requests as data. The invocation says for which scope and key, the command what to execute.

Rules:

1. An envelope is valid when the invocation and the command name the same kind (`effect_kind_mismatch`), the effect has
   an id (`missing_effect_id`) and a replay key (`missing_replay_key`). It is checked where it is executed.
2. The replay key finds the record, verbatim. The input is not in the key but in the hash: the same key with another
   hash is a conflict.
3. The stable hash is `onrecord.envelope/1 || 0x00 ||` the canonical bytes of the encoded envelope. Equal values have
   equal hashes in any order of their keys. The command's input and the runtime scope are part of it.
4. As JSON an envelope is one object with the members `invocation` and `command`, written by the codec. The reader
   trusts no byte of it: nothing is imported, and an error names a path, never a value.

In a journal an envelope is an `ActionRequested`: the link's key is the replay key, `name` the effect id, `effect` the
kind, `payload` the command and the runtime scope. `meta` is not matched and holds what a resuming process needs: `once`
for an effect that may not be repeated, `due_us` for a sleep.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from onrecord.core.canonical import canonical_bytes, stored_bytes
from onrecord.core.codec import encode
from onrecord.core.events import ActionRequested
from onrecord.core.hashing import render
from onrecord.core.links import MAX_KEY_CHARACTERS
from onrecord.core.strict_json import read_strict
from onrecord.errors import InvalidValue
from onrecord.hosts.commands import (
    COMMANDS,
    AwaitEvent,
    Clock,
    DurableStep,
    EffectKind,
    ExecCode,
    HttpRequest,
    ModelCall,
    Process,
    Random,
    RuntimeEffectCommand,
    RuntimeEffectKind,
    Sleep,
    ToolCall,
    checked_object,
    command_from_tree,
    struct_from_tree,
)
from onrecord.hosts.outcomes import (
    BAD_COMMAND,
    KIND_MISMATCH,
    MISSING_EFFECT_ID,
    MISSING_REPLAY_KEY,
    RuntimeEffectControllerError,
    RuntimeEffectOutcome,
)
from onrecord.hosts.scopes import RuntimeScope

_ENVELOPE = b"onrecord.envelope/1\0"


class RuntimeInvocation(msgspec.Struct, frozen=True, kw_only=True):
    """The runtime scope of a request, and the key of its record."""

    scope: RuntimeScope
    effect_id: str
    effect_kind: RuntimeEffectKind
    replay_key: str | None

    @classmethod
    def effect(
        cls, scope: RuntimeScope, effect_id: str, kind: RuntimeEffectKind, replay_key: str | None
    ) -> RuntimeInvocation:
        return cls(scope=scope, effect_id=effect_id, effect_kind=kind, replay_key=replay_key)

    def to_data(self) -> dict[str, Any]:
        return {
            "scope": self.scope.to_data(),
            "effect_id": self.effect_id,
            "effect_kind": self.effect_kind.value,
            "replay_key": self.replay_key,
        }


class RuntimeEffectEnvelope(msgspec.Struct, frozen=True):
    invocation: RuntimeInvocation
    command: RuntimeEffectCommand

    @property
    def kind(self) -> RuntimeEffectKind:
        return self.command.kind

    def validate(self) -> RuntimeEffectEnvelope:
        invocation, command = self.invocation, self.command
        if invocation.effect_kind is not command.kind:
            raise RuntimeEffectControllerError(
                KIND_MISMATCH,
                f"the invocation names a {invocation.effect_kind.value} effect, its command a {command.kind.value}",
            )
        if not _is_given(invocation.effect_id):
            raise RuntimeEffectControllerError(MISSING_EFFECT_ID, "the effect has no id")
        if not _is_given(invocation.replay_key):
            raise RuntimeEffectControllerError(
                MISSING_REPLAY_KEY, "the effect has no replay key", hint="Its outcome is found by it."
            )
        if len(invocation.replay_key or "") > MAX_KEY_CHARACTERS:
            raise RuntimeEffectControllerError(
                BAD_COMMAND, f"the replay key is longer than {MAX_KEY_CHARACTERS} characters"
            )
        problem = command.problem()
        if problem is not None:
            raise RuntimeEffectControllerError(BAD_COMMAND, problem)
        return self

    @property
    def replay_key(self) -> str:
        """The replay key of a valid envelope."""
        return self.invocation.replay_key or ""

    def to_data(self) -> dict[str, Any]:
        return {"invocation": self.invocation.to_data(), "command": self.command.to_data()}

    def stable_hash(self) -> str:
        encoded = encode(self.to_data())
        return render(sha256(_ENVELOPE + canonical_bytes(encoded.tree, odd=encoded.odd)).digest())

    def to_json(self) -> str:
        encoded = encode(self.to_data())
        if encoded.artifacts or not encoded.replayable:
            raise InvalidValue(
                "$.command: holds a value that has no form in JSON",
                hint="Large bytes, clients and files cannot leave their process.",
                code="envelope_not_portable",
            )
        return stored_bytes(encoded.tree).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> RuntimeEffectEnvelope:
        """Read an envelope without validating it. Raise `InvalidValue` or `Damaged` for anything else."""
        try:
            data = text.encode() if isinstance(text, str) else bytes(text)
        except UnicodeEncodeError:
            raise InvalidValue("$: text with a lone surrogate", code="lone_surrogate") from None
        members = checked_object(read_strict(data), "$")
        if set(members) != {"invocation", "command"}:
            raise InvalidValue("$: an envelope has an invocation and a command", code="bad_envelope")
        invocation = checked_object(members["invocation"], "$.invocation")
        if "scope" in invocation:
            scope = checked_object(invocation["scope"], "$.invocation.scope")
            struct_from_tree(RuntimeScope, scope, "$.invocation.scope")
        return cls(
            struct_from_tree(RuntimeInvocation, invocation, "$.invocation"),
            command_from_tree(members["command"], "$.command"),
        )

    def to_request(self, meta: dict[str, Any] | None = None) -> ActionRequested:
        """Return the request of this effect. Its link must have the replay key."""
        invocation = self.invocation
        return ActionRequested(
            action_id=self.replay_key,
            payload={"command": self.command.to_data(), "scope": invocation.scope.to_data()},
            name=invocation.effect_id,
            effect=self.kind.value,
            meta=meta or None,
        )


def _is_given(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip())


__all__ = [
    "COMMANDS",
    "AwaitEvent",
    "Clock",
    "DurableStep",
    "EffectKind",
    "ExecCode",
    "HttpRequest",
    "ModelCall",
    "Process",
    "Random",
    "RuntimeEffectCommand",
    "RuntimeEffectControllerError",
    "RuntimeEffectEnvelope",
    "RuntimeEffectKind",
    "RuntimeEffectOutcome",
    "RuntimeInvocation",
    "Sleep",
    "ToolCall",
]
