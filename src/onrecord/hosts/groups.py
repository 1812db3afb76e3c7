"""Groups: effects that run concurrently, with rules for waking the caller and for the losers.

The race itself is a durable step. Its outcome holds the winner and the order in which the members ended, so a replay
does not race again, and finds the outcomes by key. A loser that is cancelled has the recorded outcome
`effect_cancelled`: it is never in doubt, and never runs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from onrecord.errors import InvalidInput
from onrecord.hosts.contract import EffectController, LocalExecutor, ScopedEffectController
from onrecord.hosts.envelopes import (
    DurableStep,
    RuntimeEffectControllerError,
    RuntimeEffectEnvelope,
    RuntimeEffectKind,
    RuntimeEffectOutcome,
    RuntimeInvocation,
)
from onrecord.hosts.outcomes import BUSY, CANCELLED, CONFLICT, CORRUPT, IN_DOUBT, MISSING_RECORD

Controller = EffectController | ScopedEffectController
_NOT_OUTCOMES = frozenset({CONFLICT, MISSING_RECORD, IN_DOUBT, BUSY, CORRUPT})
"""Codes of effects without an outcome: they end the group, and no member has won or lost."""


class Wake(StrEnum):
    FIRST = "first"
    """Wake when any member has ended, with a value or an error."""
    FIRST_SUCCESS = "first_success"
    """Wake when any member has succeeded, or all have failed."""
    ALL = "all"


class Losers(StrEnum):
    CANCEL = "cancel"
    FINISH = "finish"
    """Losers end, and are recorded, before the group ends."""


class GroupMember(NamedTuple):
    envelope: RuntimeEffectEnvelope
    executor: LocalExecutor


class MemberEnd(NamedTuple):
    """The end of a member: an outcome or an error."""

    outcome: RuntimeEffectOutcome | None
    error: Exception | None

    def result(self) -> RuntimeEffectOutcome:
        if self.error is not None:
            raise self.error
        assert self.outcome is not None
        return self.outcome

    @property
    def cancelled(self) -> bool:
        return isinstance(self.error, RuntimeEffectControllerError) and self.error.code == CANCELLED


class GroupResult(NamedTuple):
    winner: int | None
    """The index of the member that woke the caller. None if all were waited for, or none succeeded."""
    ended: list[MemberEnd]
    """The ends in the order of the members."""
    order: list[int]
    """The members in the order in which they ended."""


async def run_group(
    controller: Controller,
    invocation: RuntimeInvocation,
    members: Sequence[GroupMember],
    *,
    wake: Wake = Wake.ALL,
    losers: Losers = Losers.CANCEL,
) -> GroupResult:
    """Run the members. `invocation` names the race: a durable step with its own replay key."""
    keys = [member.envelope.replay_key for member in members]
    if not members or len({*keys, invocation.replay_key}) != len(members) + 1:
        raise InvalidInput("a group has members, each with its own replay key", code="bad_group")
    race = _Race(controller, members, wake, losers)
    command = DurableStep(step_id="group", input={"keys": keys, "wake": wake.value, "losers": losers.value})
    envelope = RuntimeEffectEnvelope(invocation, command)
    decided = await controller.execute_effect(envelope, LocalExecutor.durable_step(race.run))
    decision = decided.into_durable_step()
    order = [int(index) for index in decision["order"]]
    outcomes = race.ended
    for index in order:  # served one after the other, in the recorded order
        if index not in outcomes:
            outcomes[index] = await _end_of(controller, members[index])
    return GroupResult(decision["winner"], [outcomes[index] for index in range(len(members))], order)


def group_invocation(of: RuntimeEffectEnvelope, effect_id: str, replay_key: str) -> RuntimeInvocation:
    """Return the invocation of a race in the runtime scope of one of its members."""
    return RuntimeInvocation.effect(of.invocation.scope, effect_id, RuntimeEffectKind.DURABLE_STEP, replay_key)


class _Race:
    def __init__(self, controller: Controller, members: Sequence[GroupMember], wake: Wake, losers: Losers) -> None:
        self._controller = controller
        self._members = members
        self._wake = wake
        self._losers = losers
        self._over = asyncio.Event()
        self._order: list[int] = []
        self._winner: int | None = None
        self.ended: dict[int, MemberEnd] = {}
        """Empty if the race was served from the record."""

    async def run(self, _input: Any) -> dict[str, Any]:
        tasks = [asyncio.ensure_future(self._one(index)) for index in range(len(self._members))]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        return {"winner": self._winner, "order": self._order}

    async def _one(self, index: int) -> None:
        envelope, executor = self._members[index]
        ended = await _end_of(self._controller, GroupMember(envelope, self._cancellable(executor)))
        self._order.append(index)
        self.ended[index] = ended
        wakes = self._wake is Wake.FIRST or (self._wake is Wake.FIRST_SUCCESS and ended.error is None)
        if wakes and self._winner is None and not ended.cancelled:
            self._winner = index
            if self._losers is Losers.CANCEL:
                self._over.set()

    def _cancellable(self, executor: LocalExecutor) -> LocalExecutor:
        """Return an executor that raises `effect_cancelled` when the race is over, so that this is recorded."""

        async def execute(envelope: RuntimeEffectEnvelope) -> RuntimeEffectOutcome:
            work = asyncio.ensure_future(executor(envelope))
            over = asyncio.ensure_future(self._over.wait())
            try:
                await asyncio.wait({work, over}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                over.cancel()
                if not work.done():
                    work.cancel()
                    await asyncio.wait({work})
            if work.cancelled():
                raise RuntimeEffectControllerError(CANCELLED, "another effect of the group was first")
            return work.result()

        return LocalExecutor(execute, probe=executor.probe)


async def _end_of(controller: Controller, member: GroupMember) -> MemberEnd:
    try:
        return MemberEnd(await controller.execute_effect(*member), None)
    except Exception as error:
        if getattr(error, "code", None) in _NOT_OUTCOMES:
            raise
        return MemberEnd(None, error)
