"""Scopes: what a host keeps of the requested scope, and which scopes it refuses."""

from __future__ import annotations

from onrecord.errors import OnrecordError
from onrecord.hosts.contract import EffectHost
from onrecord.hosts.scopes import ExecutionScope
from onrecord.testing.effect_conformance.subject import HostClaim, host_case


@host_case(HostClaim.SCOPES)
async def effect_host_preserves_scope_metadata(host: EffectHost) -> None:
    scope = ExecutionScope.queue_drain("session-1", "drain-1")
    scoped = host.scoped(scope)
    assert scoped.execution_scope == scope, "scoped controller must retain the selected semantic scope"
    assert scoped.scope_id == "drain-1"
    assert scoped.turn_id is None
    turn_scope = ExecutionScope.turn("session-1", "turn-1")
    scoped_turn = host.scoped(turn_scope)
    assert scoped_turn.execution_scope == turn_scope
    assert scoped_turn.scope_id == "turn-1"
    assert scoped_turn.turn_id == "turn-1"


@host_case(HostClaim.SCOPES)
async def effect_host_rejects_missing_scope_ids(host: EffectHost) -> None:
    invalid_scopes = [
        ExecutionScope.turn("", "turn"),
        ExecutionScope.turn("session", ""),
        ExecutionScope.process(""),
        ExecutionScope.queue_drain("session", ""),
        ExecutionScope.session_delete(""),
        ExecutionScope.runtime_operation(""),
        ExecutionScope.turn("session", " \t"),
    ]
    for scope in invalid_scopes:
        for select in (host.scoped, host.scoped_static):
            try:
                select(scope)
            except OnrecordError as error:
                code = error.code
            else:
                raise AssertionError("invalid execution scope must be rejected")
            assert code == "missing_execution_scope_id", (
                "invalid scope ids must fail with the stable missing-scope code"
            )


@host_case(HostClaim.SCOPES)
async def effect_host_static_scope_preserves_metadata_when_available(host: EffectHost) -> None:
    scope = ExecutionScope.runtime_operation("static-runtime-op")
    scoped = host.scoped_static(scope)
    if scoped is None:
        return
    assert scoped.execution_scope == scope
    assert scoped.scope_id == "static-runtime-op"


async def effect_host(host: EffectHost) -> None:
    """Run the three cases of the source specification."""
    await effect_host_preserves_scope_metadata(host)
    await effect_host_rejects_missing_scope_ids(host)
    await effect_host_static_scope_preserves_metadata_when_available(host)
