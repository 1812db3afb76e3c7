"""Leases of workers: one holder at a time in a scope, and a worker that lost its lease cannot write."""

from __future__ import annotations

import asyncio
from typing import Any

from onrecord.hosts.outcomes import BUSY
from onrecord.testing.effect_conformance.builders import SCOPE, Calls, code_of, step, tool
from onrecord.testing.effect_conformance.subject import EffectHostSubject, HostClaim, case


class _Slow:
    """An effect that blocks until `go_on` is set."""

    def __init__(self, value: Any) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self._value = value

    async def __call__(self) -> Any:
        self.begun.set()
        await self.go_on.wait()
        return self._value


@case(HostClaim.DURABLE, HostClaim.LEASES)
async def effect_host_zombie_cannot_finalize(subject: EffectHostSubject) -> None:
    """Stop a worker for longer than its lease: it must not record its result."""
    host, calls, slow = subject.make_host(), Calls(), _Slow("zombie")
    scoped = host.scoped(SCOPE)
    zombie = asyncio.ensure_future(scoped.execute_effect(step("work"), calls.executor(lambda _: slow())))
    await slow.begun.wait()
    subject.expire_lease(host, SCOPE)
    heir = subject.rival(host, waits=True)
    async with asyncio.timeout(10):
        taken_over = await heir.scoped(SCOPE).execute_effect(step("work"), calls.returning("heir"))
    assert taken_over.into_durable_step() == "heir"
    slow.go_on.set()
    await asyncio.gather(zombie, return_exceptions=True)
    assert await code_of(zombie) == "stale_epoch", "a worker that lost the scope gets this error, not its own result"
    served = await heir.scoped(SCOPE).execute_effect(step("work"), calls.forbidden())
    assert served.into_durable_step() == "heir", "the outcome of the lease holder is served"
    async with asyncio.timeout(10):
        again = await host.scoped(SCOPE).execute_effect(step("work"), calls.forbidden())
    assert again.into_durable_step() == "heir", "the zombie is served the same outcome"
    assert calls.made == ["work", "work"]


@case(HostClaim.DURABLE, HostClaim.LEASES)
async def effect_host_zombie_cannot_begin(subject: EffectHostSubject) -> None:
    """Fence a worker before an effect starts: it reads again and finds the outcome of its heir."""
    host, calls = subject.make_host(), Calls()
    scoped = host.scoped(SCOPE)
    await scoped.execute_effect(step("first"), calls.returning(1))
    subject.expire_lease(host, SCOPE)
    heir = subject.rival(host, waits=True)
    await heir.scoped(SCOPE).execute_effect(tool("mail"), calls.returning("heir"))
    subject.expire_lease(heir, SCOPE)
    async with asyncio.timeout(10):
        served = await scoped.execute_effect(tool("mail"), calls.forbidden())
    assert served.into_tool_call() == "heir"
    assert calls.made == ["first", "mail"]


@case(HostClaim.DURABLE, HostClaim.LEASES)
async def effect_host_busy_rival_waits(subject: EffectHostSubject) -> None:
    host, calls, slow = subject.make_host(), Calls(), _Slow("first")
    scoped = host.scoped(SCOPE)
    first = asyncio.ensure_future(scoped.execute_effect(step("work"), calls.executor(lambda _: slow())))
    await slow.begun.wait()
    rival = subject.rival(host, waits=True).scoped(SCOPE)
    waiting = asyncio.ensure_future(rival.execute_effect(step("work"), calls.forbidden()))
    await asyncio.sleep(0.1)
    assert not waiting.done(), "another worker holds the scope"
    slow.go_on.set()
    assert (await first).into_durable_step() == "first"
    async with asyncio.timeout(10):
        assert (await waiting).into_durable_step() == "first", "the recorded outcome of the other worker is served"
    assert calls.made == ["work"]


@case(HostClaim.DURABLE, HostClaim.LEASES)
async def effect_host_busy_rival_yields(subject: EffectHostSubject) -> None:
    host, calls, slow = subject.make_host(), Calls(), _Slow("first")
    scoped = host.scoped(SCOPE)
    first = asyncio.ensure_future(scoped.execute_effect(step("work"), calls.executor(lambda _: slow())))
    await slow.begun.wait()
    rival = subject.rival(host, waits=False).scoped(SCOPE)
    for key in ("work", "other"):
        assert await code_of(rival.execute_effect(step(key), calls.forbidden())) == BUSY
    slow.go_on.set()
    assert (await first).into_durable_step() == "first"
    served = await rival.execute_effect(step("work"), calls.forbidden())
    assert served.into_durable_step() == "first", "a recorded outcome is served without a lease"
    assert calls.made == ["work"]


@case(HostClaim.DURABLE, HostClaim.LEASES)
async def effect_host_many_rivals_run_an_effect_once(subject: EffectHostSubject) -> None:
    host, calls = subject.make_host(), Calls()
    hosts = [host, *(subject.rival(host, waits=True) for _ in range(3))]

    async def slowly() -> str:
        await asyncio.sleep(0.02)
        return "value"

    executor = calls.executor(lambda _: slowly())
    async with asyncio.timeout(20):
        outcomes = await asyncio.gather(*(each.scoped(SCOPE).execute_effect(tool("mail"), executor) for each in hosts))
    assert [outcome.into_tool_call() for outcome in outcomes] == ["value"] * 4
    assert calls.made == ["mail"]
