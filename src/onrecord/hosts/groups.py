"""Effects that run side by side: when the caller goes on, and what becomes of the ones it did not wait for.

The race itself is a durable step: its outcome says who was first and in which order the members ended. So a replay
knows the winner without racing again, and asks for the outcomes by key. A member that lost and is cancelled has that as
its recorded outcome (`effect_cancelled`): it is never left in doubt, and never runs again.
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
"""Codes that say nothing came of the effect: no member has won or lost by them, the group cannot go on."""


class Wake(StrEnum):
    FIRST = "first"
    """When any member has ended, well or badly."""
    FIRST_SUCCESS = "first_success"
    """When any member has ended well, or all have failed."""
    ALL = "all"


class Losers(StrEnum):
    CANCEL = "cancel"
    FINISH = "finish"
    """They run to their end, and are recorded, before the group ends."""


class GroupMember(NamedTuple):
    envelope: RuntimeEffectEnvelope
    executor: LocalExecutor


class MemberEnd(NamedTuple):
    """How a member ended: an outcome, or the error that it raises."""

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
    """Index of the member that woke the caller; None when all were waited for, or none succeeded."""
    ended: list[MemberEnd]
    """In the order of the members."""
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
    """`invocation` names the race itself: a durable step with a replay key of its own."""
    keys = [member.envelope.replay_key for member in members]
    if not members or len({*keys, invocation.replay_key}) != len(members) + 1:
        raise InvalidInput("a group has members, each under a key of its own", code="bad_group")
    race = _Race(controller, members, wake, losers)
    command = DurableStep(step_id="group", input={"keys": keys, "wake": wake.value, "losers": losers.value})
    envelope = RuntimeEffectEnvelope(invocation, command)
    decided = await controller.execute_effect(envelope, LocalExecutor.durable_step(race.run))
    decision = decided.into_durable_step()
    order = [int(index) for index in decision["order"]]
    outcomes = race.ended
    for index in order:  # served, one after the other, in the order in which they were seen when it happened
        if index not in outcomes:
            outcomes[index] = await _end_of(controller, members[index])
    return GroupResult(decision["winner"], [outcomes[index] for index in range(len(members))], order)


def group_invocation(of: RuntimeEffectEnvelope, effect_id: str, replay_key: str) -> RuntimeInvocation:
    """The invocation of a race in the runtime scope of one of its members."""
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
        """Empty when the race was served from the record."""

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
        """Ends with an error of its own when the race is over, so that this is what gets recorded."""

        async def carry_out(envelope: RuntimeEffectEnvelope) -> RuntimeEffectOutcome:
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

        return LocalExecutor(carry_out, probe=executor.probe)


async def _end_of(controller: Controller, member: GroupMember) -> MemberEnd:
    try:
        return MemberEnd(await controller.execute_effect(*member), None)
    except Exception as error:
        if getattr(error, "code", None) in _NOT_OUTCOMES:
            raise
        return MemberEnd(None, error)
