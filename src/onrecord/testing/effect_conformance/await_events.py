"""Waits for events: a stable signed key, the first resolution, and terminal states."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from onrecord.core.wait_keys import Resolution, ResolveOutcome, WaitIdentity
from onrecord.hosts.contract import EffectHost
from onrecord.hosts.scopes import ExecutionScope
from onrecord.testing.effect_conformance.builders import code_of
from onrecord.testing.effect_conformance.subject import EffectHostSubject, HostClaim, case, host_case

UNKNOWN_OR_REVOKED = "await_event_unknown_or_revoked"


async def _make_key(host: EffectHost, name: str) -> Any:
    scope = ExecutionScope.turn(f"await-event-session-{name}", f"turn-{name}")
    return await host.await_event_key(scope, WaitIdentity.tool_completion(f"call-{name}"))


async def _assert_opens_nothing(host: EffectHost, key: Any, why: str) -> None:
    resolved = await host.resolve_await_event(key, Resolution.ok("bad"))
    assert resolved == ResolveOutcome.unknown_or_revoked(), f"{why}: must not resolve"
    code = await code_of(host.await_await_event(key, asyncio.Event(), None))
    assert code == UNKNOWN_OR_REVOKED, f"{why}: must not await"


@host_case(HostClaim.AWAIT_EVENTS)
async def effect_host_await_event_key_is_stable(host: EffectHost) -> None:
    assert await _make_key(host, "stable") == await _make_key(host, "stable")


@host_case(HostClaim.AWAIT_EVENTS)
async def effect_host_await_event_accepts_early_resolution(host: EffectHost) -> None:
    key = await _make_key(host, "early")
    resolution = Resolution.ok({"ready": True})
    assert await host.resolve_await_event(key, resolution) == ResolveOutcome.accepted()
    async with asyncio.timeout(5):
        awaited = await host.await_await_event(key, asyncio.Event(), None)
    assert awaited == resolution


@host_case(HostClaim.AWAIT_EVENTS)
async def effect_host_await_event_duplicate_resolution_is_terminal(host: EffectHost) -> None:
    key = await _make_key(host, "dupe")
    resolution = Resolution.ok("first")
    first = await host.resolve_await_event(key, resolution)
    second = await host.resolve_await_event(key, Resolution.ok("second"))
    assert first == ResolveOutcome.accepted()
    assert second == ResolveOutcome.already_resolved(resolution)


@host_case(HostClaim.AWAIT_EVENTS)
async def effect_host_await_event_cancel_and_timeout_are_terminal(host: EffectHost) -> None:
    cancel_key = await _make_key(host, "cancel")
    cancel = asyncio.Event()
    cancel.set()
    cancelled = await host.await_await_event(cancel_key, cancel, None)
    assert cancelled == Resolution.cancelled()
    late = await host.resolve_await_event(cancel_key, Resolution.ok("late"))
    assert late == ResolveOutcome.already_resolved(Resolution.cancelled())
    timeout_key = await _make_key(host, "timeout")
    timed_out = await host.await_await_event(timeout_key, asyncio.Event(), time.time())
    assert timed_out == Resolution.timeout()


@host_case(HostClaim.AWAIT_EVENTS)
async def effect_host_await_event_revokes_session_scope(host: EffectHost) -> None:
    key = await _make_key(host, "revoke")
    await host.revoke_await_events_for_session("await-event-session-revoke")
    await _assert_opens_nothing(host, key, "revoked key")


@host_case(HostClaim.AWAIT_EVENTS)
async def effect_host_await_event_rejects_tampered_keys(host: EffectHost) -> None:
    key = await _make_key(host, "tamper")
    await _assert_opens_nothing(
        host, msgspec.structs.replace(key, signature=key.signature + "-tampered"), "tampered key"
    )


async def effect_host_await_events(host: EffectHost) -> None:
    """Run the six cases of the source specification."""
    await effect_host_await_event_key_is_stable(host)
    await effect_host_await_event_accepts_early_resolution(host)
    await effect_host_await_event_duplicate_resolution_is_terminal(host)
    await effect_host_await_event_cancel_and_timeout_are_terminal(host)
    await effect_host_await_event_revokes_session_scope(host)
    await effect_host_await_event_rejects_tampered_keys(host)


# Cases beyond the source specification


@host_case(HostClaim.AWAIT_EVENTS)
async def effect_host_await_event_timeout_cannot_be_resolved_later(host: EffectHost) -> None:
    key = await _make_key(host, "timeout-terminal")
    assert await host.await_await_event(key, asyncio.Event(), time.time() - 1) == Resolution.timeout()
    late = await host.resolve_await_event(key, Resolution.ok("late"))
    assert late == ResolveOutcome.already_resolved(Resolution.timeout())
    assert await host.await_await_event(key, asyncio.Event(), None) == Resolution.timeout()


@host_case(HostClaim.AWAIT_EVENTS)
async def effect_host_await_event_key_minted_after_revoke_opens_nothing(host: EffectHost) -> None:
    session = "await-event-session-mint"
    await host.revoke_await_events_for_session(session)
    making = host.await_event_key(ExecutionScope.turn(session, "t"), WaitIdentity.tool_completion("later"))
    key = (await asyncio.gather(making, return_exceptions=True))[0]
    if isinstance(key, BaseException):
        assert getattr(key, "code", None) == UNKNOWN_OR_REVOKED  # refusing to make the key is allowed too
        return
    await _assert_opens_nothing(host, key, "a key of a revoked session")


@host_case(HostClaim.AWAIT_EVENTS)
async def effect_host_await_event_rejects_tampering_of_each_field(host: EffectHost) -> None:
    key = await _make_key(host, "fields")
    other = await _make_key(host, "fields-other")
    for field in key.__struct_fields__:
        value = getattr(key, field)
        for wrong in _list_wrong_values(value, getattr(other, field)):
            tampered = msgspec.structs.replace(key, **{field: wrong})
            await _assert_opens_nothing(host, tampered, f"a key with another {field}")
    assert await host.resolve_await_event(key, Resolution.ok(1)) == ResolveOutcome.accepted(), "the key itself works"


def _list_wrong_values(value: Any, others: Any) -> list[Any]:
    if isinstance(value, int):
        return [value + 1]
    if value is None:
        return ["x"]
    wrong = [value + "x", value[:-1], "", "ü" * len(value)]
    return [*wrong, others] if others != value else wrong


@host_case(HostClaim.AWAIT_EVENTS)
async def effect_host_await_event_resolution_reaches_its_own_waiter_alone(host: EffectHost) -> None:
    mine, other = await _make_key(host, "mine"), await _make_key(host, "other")
    waiting = [asyncio.ensure_future(host.await_await_event(key, None, None)) for key in (mine, other)]
    await asyncio.sleep(0.05)
    await host.resolve_await_event(mine, Resolution.ok("mine"))
    async with asyncio.timeout(5):
        assert await waiting[0] == Resolution.ok("mine")
    assert not waiting[1].done()
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    # A cancelled waiter is like a process that ends: the wait itself continues.
    assert await host.resolve_await_event(other, Resolution.ok("other")) == ResolveOutcome.accepted()


@host_case(HostClaim.AWAIT_EVENTS)
async def effect_host_await_event_cancelled_session_goes_on(host: EffectHost) -> None:
    session, identity = "await-event-session-cancel-all", WaitIdentity.tool_completion
    before = await host.await_event_key(ExecutionScope.turn(session, "t"), identity("before"))
    await host.cancel_await_events_for_session(session)
    ended = await host.await_await_event(before, None, None)
    assert ended.status == "cancelled"
    after = await host.await_event_key(ExecutionScope.turn(session, "t"), identity("after"))
    assert await host.resolve_await_event(after, Resolution.ok(1)) == ResolveOutcome.accepted()


@case(HostClaim.AWAIT_EVENTS, HostClaim.SECOND_INSTANCE)
async def effect_host_await_events_survive_a_second_instance(subject: EffectHostSubject) -> None:
    host = subject.make_host()
    key, revoked = await _make_key(host, "cold"), await _make_key(host, "cold-revoked")
    await host.resolve_await_event(key, Resolution.ok({"kept": True}))
    await host.revoke_await_events_for_session("await-event-session-cold-revoked")
    cold = subject.reopen(host)
    assert await _make_key(cold, "cold") == key, "the key is the same after a restart"
    assert await cold.await_await_event(key, None, None) == Resolution.ok({"kept": True})
    await _assert_opens_nothing(cold, revoked, "a session that was revoked before the restart")
