"""Groups: what wakes the caller, what becomes of the losers, and that a replay has the same winner."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kit.host_subjects import give_up_leases
from onrecord.errors import InvalidInput
from onrecord.hosts.envelopes import RuntimeEffectEnvelope
from onrecord.hosts.groups import GroupMember, GroupResult, Losers, Wake, group_invocation, run_group
from onrecord.hosts.in_process import InProcessEffectHost
from onrecord.hosts.journal_backed import JournalEffectHost
from onrecord.hosts.outcomes import IN_DOUBT
from onrecord.store.memory import MemoryStore
from onrecord.testing.effect_conformance import SCOPE, Calls, Died, code_of, step, tool


async def race(host: Any, calls: Calls, plan: dict[str, Any], wake: Wake, losers: Losers) -> GroupResult:
    """`plan`: seconds after which each member ends; negative: fails after that long."""

    async def after(envelope: RuntimeEffectEnvelope) -> str:
        await asyncio.sleep(abs(plan[envelope.replay_key]))
        if plan[envelope.replay_key] < 0:
            raise LookupError(envelope.replay_key)
        return envelope.replay_key

    members = [GroupMember(step(key), calls.executor(after)) for key in plan]
    async with asyncio.timeout(10):
        return await run_group(
            host.scoped(SCOPE), group_invocation(members[0].envelope, "race", "race"), members, wake=wake, losers=losers
        )


def endings(result: GroupResult) -> list[str]:
    return [
        "cancelled" if ended.cancelled else type(ended.error).__name__ if ended.error else ended.result().value
        for ended in result.ended
    ]


NEVER = 3_600.0
"""Seconds: a member that is cancelled before its end, however slow the machine."""
SCENES = [
    ({"a": NEVER, "b": 0.01}, Wake.FIRST, Losers.CANCEL, 1, ["cancelled", "b"]),
    ({"a": 0.05, "b": 0.01}, Wake.FIRST, Losers.FINISH, 1, ["a", "b"]),
    ({"a": NEVER, "b": -0.01}, Wake.FIRST, Losers.CANCEL, 1, ["cancelled", "LookupError"]),
    ({"a": 0.05, "b": -0.01}, Wake.FIRST_SUCCESS, Losers.CANCEL, 0, ["a", "LookupError"]),
    ({"a": -0.02, "b": -0.01}, Wake.FIRST_SUCCESS, Losers.CANCEL, None, ["LookupError", "LookupError"]),
    ({"a": 0.02, "b": -0.01}, Wake.ALL, Losers.CANCEL, None, ["a", "LookupError"]),
]


@pytest.mark.parametrize(("plan", "wake", "losers", "winner", "expected"), SCENES)
def test_wake_and_loser_rules(plan: Any, wake: Wake, losers: Losers, winner: int | None, expected: list[str]) -> None:
    store, calls = MemoryStore(), Calls()
    host = JournalEffectHost(store)
    first = asyncio.run(race(host, calls, plan, wake, losers))
    assert (first.winner, endings(first)) == (winner, expected)
    give_up_leases(host)
    replayed = asyncio.run(race(JournalEffectHost(store, strict=True), calls, plan, wake, losers))
    assert (replayed.winner, replayed.order, endings(replayed)) == (winner, first.order, expected)
    assert sorted(calls.made) == sorted(plan)


def test_without_a_record_a_group_works_the_same() -> None:
    calls = Calls()
    result = asyncio.run(race(InProcessEffectHost(), calls, {"a": NEVER, "b": 0.01}, Wake.FIRST, Losers.CANCEL))
    assert (result.winner, endings(result)) == (1, ["cancelled", "b"])
    assert sorted(calls.made) == ["a", "b"], "nobody is carried out twice"


def test_a_member_in_doubt_stops_the_group() -> None:
    store, calls = MemoryStore(), Calls()

    async def scene() -> None:
        host = JournalEffectHost(store)
        with pytest.raises(Died):
            await host.scoped(SCOPE).execute_effect(tool("mail"), calls.dying())
        give_up_leases(host)
        scoped = JournalEffectHost(store).scoped(SCOPE)
        members = [GroupMember(tool("mail"), calls.forbidden()), GroupMember(step("other"), calls.returning(1))]
        group = run_group(scoped, group_invocation(members[0].envelope, "race", "race"), members, wake=Wake.ALL)
        assert await code_of(group) == IN_DOUBT

    asyncio.run(scene())


@pytest.mark.parametrize("keys", [[], ["a", "a"], ["a", "race"]])
def test_members_have_keys_of_their_own(keys: list[str]) -> None:
    calls = Calls()

    async def scene() -> None:
        members = [GroupMember(step(key), calls.returning(1)) for key in keys]
        invocation = group_invocation(step("race"), "race", "race")
        with pytest.raises(InvalidInput):
            await run_group(JournalEffectHost(MemoryStore()).scoped(SCOPE), invocation, members)

    asyncio.run(scene())
