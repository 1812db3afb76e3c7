"""Concurrent effects: found by key, delivered one at a time, losers recorded."""

from __future__ import annotations

import asyncio
from typing import Any

from onrecord.hosts.contract import EffectHost, LocalExecutor
from onrecord.hosts.envelopes import RuntimeEffectEnvelope, RuntimeEffectOutcome
from onrecord.hosts.groups import GroupMember, Losers, Wake, group_invocation, run_group
from onrecord.hosts.scopes import ExecutionScope
from onrecord.testing.effect_conformance.builders import SCOPE, Calls, replay_conformance_exec_envelope, step
from onrecord.testing.effect_conformance.durable_steps import Controller, StartReplay
from onrecord.testing.effect_conformance.subject import EffectHostSubject, HostClaim, add_case, case

EXEC_SCOPE = ExecutionScope.turn("effect-conformance-session", "effect-conformance-turn")


class _Meeting:
    """A pair of effects that both begin before either ends; the fast one ends first."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self._arrived = 0
        self._both = asyncio.Event()
        self._release_slow = asyncio.Event()

    def executor(self, effect_id: str) -> LocalExecutor:
        async def execute(envelope: RuntimeEffectEnvelope) -> RuntimeEffectOutcome:
            assert envelope.invocation.effect_id == effect_id
            self._arrived += 1
            if self._arrived == 2:
                self._both.set()
            await self._both.wait()
            if effect_id == "effect-slow":
                await self._release_slow.wait()
            self.order.append(effect_id)
            self._release_slow.set()
            return RuntimeEffectOutcome.exec_code({"terminal_finish": effect_id})

        return LocalExecutor.testing(execute)


async def effect_controller_concurrent_replay_deterministic(
    controller: Controller, start_replay: StartReplay = lambda: None
) -> None:
    slow, fast = (replay_conformance_exec_envelope(name) for name in ("effect-slow", "effect-fast"))
    meeting = _Meeting()
    async with asyncio.timeout(2):  # both must enter their local executors
        slow_first, fast_first = await asyncio.gather(
            controller.execute_effect(slow, meeting.executor("effect-slow")),
            controller.execute_effect(fast, meeting.executor("effect-fast")),
        )
    _assert_marker(slow_first, "effect-slow")
    _assert_marker(fast_first, "effect-fast")
    assert meeting.order == ["effect-fast", "effect-slow"], (
        "first pass must prove local completion order can differ from effect request order"
    )
    controller = start_replay() or controller
    calls = Calls()
    async with asyncio.timeout(2):  # must resolve from host history
        fast_replay, slow_replay = await asyncio.gather(
            controller.execute_effect(fast, calls.forbidden()), controller.execute_effect(slow, calls.forbidden())
        )
    _assert_marker(fast_replay, "effect-fast")
    _assert_marker(slow_replay, "effect-slow")
    assert calls.made == [], "replay must return recorded outcomes without invoking local executors"


def _assert_marker(outcome: RuntimeEffectOutcome, expected: str) -> None:
    assert outcome.into_exec_code()["terminal_finish"] == expected, (
        "replayed outcome must come from the matching replay key"
    )


add_case(
    "effect_controller_concurrent_replay_deterministic",
    (HostClaim.DURABLE,),
    lambda subject: effect_controller_concurrent_replay_deterministic(subject.make_host().scoped(EXEC_SCOPE)),
)


@case(HostClaim.DURABLE, HostClaim.SECOND_INSTANCE)
async def effect_controller_concurrent_replay_deterministic_cold(subject: EffectHostSubject) -> None:
    host = subject.make_host()
    await effect_controller_concurrent_replay_deterministic(
        host.scoped(EXEC_SCOPE).controller, lambda: subject.reopen(host).scoped(EXEC_SCOPE)
    )


@case(HostClaim.DURABLE)
async def effect_controller_same_key_at_once_runs_once(subject: EffectHostSubject) -> None:
    scoped, calls = subject.make_host().scoped(SCOPE), Calls()

    async def slowly() -> str:
        await asyncio.sleep(0.02)
        return "once"

    executor = calls.executor(lambda _: slowly())
    outcomes = await asyncio.gather(*(scoped.execute_effect(step("same"), executor) for _ in range(5)))
    assert [outcome.into_durable_step() for outcome in outcomes] == ["once"] * 5
    assert calls.made == ["same"]


# One delivery at a time


async def _observe(host: EffectHost, executor: LocalExecutor, keys: list[str]) -> list[str]:
    """Return what an agent sees of concurrent outcomes: two steps after each, with loop turns in between."""
    scoped, seen = host.scoped(SCOPE), list[str]()

    async def branch(key: str) -> None:
        await scoped.execute_effect(step(key), executor)
        seen.append(f"{key} came")
        for _ in range(3):
            await asyncio.sleep(0)
        seen.append(f"{key} used")

    async with asyncio.timeout(5):
        await asyncio.gather(*(branch(key) for key in keys))
    return seen


@case(HostClaim.DURABLE, HostClaim.ORDERED)
async def effect_controller_delivers_one_outcome_at_a_time(subject: EffectHostSubject) -> None:
    host, calls = subject.make_host(), Calls()
    keys = ["one", "two", "three"]
    for attempt in range(2):  # first executed, then served
        seen = await _observe(host, calls.returning("value"), keys)
        pairs = [(seen[at], seen[at + 1]) for at in range(0, len(seen), 2)]
        assert sorted(pairs) == sorted((f"{key} came", f"{key} used") for key in keys), (
            f"two outcomes were delivered in one turn ({'served' if attempt else 'recorded'}): {seen}"
        )
    assert sorted(calls.made) == sorted(keys)


@case(HostClaim.DURABLE, HostClaim.ORDERED, HostClaim.SECOND_INSTANCE)
async def effect_controller_serves_in_the_recorded_order(subject: EffectHostSubject) -> None:
    host, calls = subject.make_host(), Calls()
    follows = {"slow": "middle", "middle": "fast"}
    ended = {key: asyncio.Event() for key in ("slow", "middle", "fast")}

    async def after(envelope: RuntimeEffectEnvelope) -> str:
        if envelope.replay_key in follows:
            await ended[follows[envelope.replay_key]].wait()
        ended[envelope.replay_key].set()
        return envelope.replay_key

    first = await _observe(host, calls.executor(after), ["slow", "fast", "middle"])
    assert first[0] == "fast came"
    cold = subject.reopen(host)
    assert await _observe(cold, calls.forbidden(), ["middle", "slow", "fast"]) == first
    assert sorted(calls.made) == ["fast", "middle", "slow"]


# Groups


async def _race(host: EffectHost, calls: Calls, wake: Wake, losers: Losers, cancelled: list[str]) -> Any:
    fast_ended, forever = asyncio.Event(), asyncio.Event()

    async def after(envelope: RuntimeEffectEnvelope) -> str:
        try:
            if envelope.replay_key == "slow":
                await fast_ended.wait()
                if wake is Wake.FIRST and losers is Losers.CANCEL:
                    await forever.wait()
        except asyncio.CancelledError:
            cancelled.append(envelope.replay_key)
            raise
        fast_ended.set()
        return envelope.replay_key

    members = [GroupMember(step(key), calls.executor(after)) for key in ("slow", "fast")]
    invocation = group_invocation(members[0].envelope, "race", "race")
    async with asyncio.timeout(5):
        return await run_group(host.scoped(SCOPE), invocation, members, wake=wake, losers=losers)


@case(HostClaim.DURABLE, HostClaim.SECOND_INSTANCE)
async def effect_group_first_cancels_and_records_the_losers(subject: EffectHostSubject) -> None:
    host, calls, cancelled = subject.make_host(), Calls(), list[str]()
    first = await _race(host, calls, Wake.FIRST, Losers.CANCEL, cancelled)
    assert first.winner == 1
    assert first.ended[1].result().into_durable_step() == "fast"
    assert first.ended[0].cancelled
    assert cancelled == ["slow"], "the loser's own code is cancelled"
    again = await _race(subject.reopen(host), calls, Wake.FIRST, Losers.CANCEL, cancelled)
    assert (again.winner, again.order) == (first.winner, first.order), "the recorded winner wins"
    assert again.ended[0].cancelled, "a loser's cancellation is its outcome"
    assert sorted(calls.made) == ["fast", "slow"], "no effect runs again"


@case(HostClaim.DURABLE, HostClaim.SECOND_INSTANCE)
async def effect_group_first_lets_the_losers_finish(subject: EffectHostSubject) -> None:
    host, calls, cancelled = subject.make_host(), Calls(), list[str]()
    first = await _race(host, calls, Wake.FIRST, Losers.FINISH, cancelled)
    assert (first.winner, first.order) == (1, [1, 0])
    assert [ended.result().into_durable_step() for ended in first.ended] == ["slow", "fast"]
    assert cancelled == []
    again = await _race(subject.reopen(host), calls, Wake.FIRST, Losers.FINISH, cancelled)
    assert (again.winner, again.order) == (1, [1, 0]), "the recorded winner wins, though both outcomes are there now"
    assert sorted(calls.made) == ["fast", "slow"]


@case(HostClaim.DURABLE)
async def effect_group_all_waits_for_all(subject: EffectHostSubject) -> None:
    calls = Calls()
    result = await _race(subject.make_host(), calls, Wake.ALL, Losers.CANCEL, [])
    assert (result.winner, result.order) == (None, [1, 0])
    assert [ended.result().into_durable_step() for ended in result.ended] == ["slow", "fast"]
