"""The scheduler with one of its rules taken out, for each rule.

A rule that can be taken out without a failing schedule is not needed, or the simulation is blind to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from kit.simulation.life import Machine
from onrecord.runtime.scheduler.items import (
    AHEAD,
    APART,
    Act,
    Action,
    Away,
    Begin,
    Call,
    Chunk,
    Commit,
    Drawn,
    EffectOutcome,
    Item,
    Requested,
    Token,
    Turn,
    Wait,
)
from onrecord.runtime.scheduler.kernel import Kernel
from onrecord.runtime.scheduler.window import Digest, Placed, Window, digest_history

# What is written


class AwayIsNotWritten(Kernel):
    def away(self, lane: str) -> bool:
        granted = super().away(lane)
        self._draft = [item for item in self._draft if type(item) is not Away]
        return granted


class TurnsAreNotWritten(Kernel):
    def _write(self, arrival: Any, forced: int) -> None:
        super()._write(arrival, forced)
        if type(arrival.item) is Turn and forced != AHEAD:
            self._draft.pop()


class DrawsAreNotWritten(Kernel):
    def draw(self, lane: str, site: str, make: Any) -> Any:
        value = super().draw(lane, site, make)
        self._draft = [item for item in self._draft if type(item) is not Drawn]
        return value


class ForcedStepIsNotWritten(Kernel):
    def _write(self, arrival: Any, forced: int) -> None:
        super()._write(arrival, min(forced, 0))


class AheadIsNotWritten(Kernel):
    def _write(self, arrival: Any, forced: int) -> None:
        super()._write(arrival, max(forced, 0))


class DrawsCountAsActs(Kernel):
    def act(self, lane: str, *, draws: bool = False) -> Token | None:
        return super().act(lane)


class NothingIsSynced(Kernel):
    def _commit(self, *, sync: bool = False) -> Commit:
        return super()._commit()._replace(sync=False)


class EachArrivalIsCommittedAlone(Kernel):
    def _next_live(self, steps: int | None) -> Action | None:
        later = list(self._inbox)[1:]
        for arrival in later:
            self._inbox.remove(arrival)
        action = super()._next_live(steps)
        self._inbox.extend(later)
        return action


class OutcomesHaveNoTime(Kernel):
    def committed(self, time: int) -> None: ...


class GivenUpEffectsStayOpen(Kernel):
    def _write_apart(self, token: Token, value: Any) -> None: ...


class GivenUpEffectsHaveTwoOutcomes(Kernel):
    def _write_apart(self, token: Token, value: Any) -> None:
        token.is_written = False
        super()._write_apart(token, value)


# With a history


class OutcomesApartAreDeliveredInPlace(Kernel):
    def _is_skipped(self, item: Any) -> bool:
        return getattr(item, "forced", 0) != APART and super()._is_skipped(item)


class OutcomesApartAreLost(Kernel):
    def _keep_apart(self, item: Any) -> None: ...


class PoliciesAreCompared(Kernel):
    def _find_recorded(self, lane: str, act: Act) -> Act | None:
        recorded = self.peek(lane)
        if getattr(recorded, "once", None) != getattr(act, "once", None) and recorded is not None:
            self._part(lane, recorded, act, "changed", None)
        return super()._find_recorded(lane, act)


class ListenedValuesAreRequests(Kernel):
    def listen(self, name: str, detail: Any = None) -> Token:
        token = super().listen(name, detail)
        self.open[token] = None
        token.call = Call(name, None, once=True)
        token.recorded = None if self.live else Requested(token.key, token.lane, name, None, once=True)
        return token


class ForgottenTurnsAreExpected(Kernel):
    def _forget(self, token: Token) -> None:
        super()._forget(token)
        if token.call is None:
            self._tokens.pop(token.name, None)


class HistoryNeedNotBeOver(Kernel):
    def ask(self, lane: str, call: Call) -> Token:
        if self._writable and self.history.next_act(lane) is None:
            self.live = True
        return super().ask(lane, call)


class RequestsAreBegunAtOnce(Kernel):
    def _next_live(self, steps: int | None) -> Action | None:
        if self._to_begin:
            begin: Begin = self._take_begun()
            return begin
        return super()._next_live(steps)


class NothingIsInDoubt(Kernel):
    def _go_live(self) -> Action:
        requested = {token.key for token in self.open if token.call is not None}
        self.history.digest = self.history.digest._replace(retries=frozenset(requested))
        return super()._go_live()


class WhatWasNotBegunIsInDoubt(Kernel):
    def _go_live(self) -> Action:
        self._may_repeat = None
        return super()._go_live()


class CancelledEffectsRunAgain(Kernel):
    def _go_live(self) -> Action:
        for token in self.open:
            token.cancelled = False
        return super()._go_live()


class RetriesAreNotSpent(Kernel):
    def _go_live(self) -> Action:
        action = super()._go_live()
        self._draft = [item for item in self._draft if not self._is_retried(item)]
        return action

    def _is_retried(self, item: Item) -> bool:
        return type(item).__name__ == "Began" and item.key in self.history.digest.retries


class EndedRecordsHaveNoAdded(Kernel):
    def _find_recorded(self, lane: str, act: Act) -> Act | None:
        digest = self.history.digest
        self.history.digest = digest._replace(is_whole=False)
        try:
            return super()._find_recorded(lane, act)
        finally:
            self.history.digest = digest


class PrefixesHaveAdded(Kernel):
    def _find_recorded(self, lane: str, act: Act) -> Act | None:
        digest = self.history.digest
        self.history.digest = digest._replace(is_whole=True)
        try:
            return super()._find_recorded(lane, act)
        finally:
            self.history.digest = digest


class BirthsAreNotCompared(Kernel):
    def _part(self, lane: str, expected: Any, actual: Any, reason: str, position: int | None) -> Any:
        parents = {name: own.parent for name, own in self._lanes.items()}
        for own in self._lanes.values():
            own.parent = None
        try:
            super()._part(lane, expected, actual, reason, position)
        finally:
            for name, parent in parents.items():
                self._lanes[name].parent = parent


class AwayStrandsAreNotWaitedFor(Kernel):
    def _next_recorded(self, steps: int | None) -> Any:
        away, self._away = self._away, set()
        try:
            return super()._next_recorded(steps)
        finally:
            self._away = away


class ArrivalsCountTwice(Kernel):
    def arrived(self, token: Token, value: Any = None, *, last: bool = True, time: int = 0) -> None:
        if token.call is None and not token.done:
            token.here = False
        super().arrived(token, value, last=last, time=time)


class OldArrivalsStayInTheInbox(Kernel):
    def _go_live(self) -> Action:
        inbox = list(self._inbox)
        action = super()._go_live()
        self._inbox.extendleft(reversed([arrival for arrival in inbox if arrival not in self._inbox]))
        return action


class CancelledEffectsEndAtOnce(Kernel):
    def cancel(self, token: Token) -> None:
        if token.call is not None and not token.done:
            self.drop(token)
        super().cancel(token)


class CountersSurviveACheckpoint(Kernel):
    def checkpoint(self, lane: str, digest: Any) -> str:
        own = self._lanes[lane]
        root = super().checkpoint(lane, digest)
        self._lanes[root] = own
        return root


class CheckpointsAreTakenAtAnyTime(Kernel):
    @property
    def is_alone(self) -> bool:
        return True


class ListenedValuesAreCommittedAhead(Kernel):
    def _write_ahead(self) -> None:
        listening, self.listening = self.listening, {}
        super()._write_ahead()
        self.listening = listening


class SparesAreNotUsed(Kernel):
    def _take_spare(self, token: Token) -> bool:
        return False


class LanesComeBackToTheirRecord(Kernel):
    def _accept(self, lane: str, act: Any) -> None:
        super()._accept(lane, act)
        if act not in (one for _, one in self.history.acts_of(lane)):
            self._draft.append(act)
        self._left.clear()

    def _find_recorded(self, lane: str, act: Act) -> Act | None:
        written = len(self._draft)
        if self._accepts and not self.live:
            self._accept(lane, act)
            if len(self._draft) > written:
                self._is_commit_due |= type(act) is Requested
                return None
        return super()._find_recorded(lane, act)


class PositionsAreCounted(Window):
    def __init__(self, items: Iterable[Placed], digest: Digest) -> None:
        super().__init__(((number, item) for number, (_, item) in enumerate(items)), digest)


class DroppedDeliveriesAreDelivered(Window):
    def drop(self) -> None: ...


class AwaysBelongToTheirStretch(Window):
    def meet_away(self, lane: str, ordinal: int, draws: int | None) -> bool:
        changes, self._changes = self._changes, deque()
        found = super().meet_away(lane, ordinal, draws)
        self._changes = changes
        return found


class LeftDrawsAreNotMarked(Window):
    @property
    def has_unmet(self) -> bool:
        return False


def _dropped_items_come_back(items: Iterable[Placed], *, writable: bool) -> Digest:
    return digest_history(items, writable=writable)._replace(dropped=frozenset())


def _changes_are_forgotten(items: Iterable[Placed], *, writable: bool) -> Digest:
    return digest_history(items, writable=writable)._replace(changes=())


# Strands


class LastStrandRunsFirst(Kernel):
    def wake(self, strand: Any) -> None:
        super().wake(strand)
        self._ready.rotate(1)


class BusyLoopIsNeverInterrupted(Kernel):
    def next(self, steps: int | None = None) -> Action | None:
        return super().next(steps) if steps is None or not self.live else None


class AwayIsGrantedAtOnce(Window):
    @property
    def is_loose(self) -> bool:
        return True


class AwayIsGrantedAtTheEnd(Window):
    """The rule of the prototype, without the strands that had come to rest."""

    @property
    def is_loose(self) -> bool:
        return self.head() is None


class EndedLanesAreNotCompared(Kernel):
    def ended(self, lane: str) -> None:
        self._lanes[lane].ended = True
        self._alive -= 1


class FirstReturnIsEnough(Kernel):
    def returned(self, lane: str) -> Token | None:
        return None


class PendingActsAreNotRead(Window):
    def pending_act(self, lane: str) -> tuple[int, Act] | None:
        acts = self._acts.get(lane)
        return acts[0] if acts else None


class DivergencesStopNothing(Kernel):
    def _unless_early(self, steps: int | None, diverged: Any) -> Action | None:
        return Wait() if self._away or steps is None else None


# Streams and retries, as the end of a history tells


def _cut_streams_are_executed_again(items: Iterable[Placed], *, writable: bool) -> Digest:
    digest = digest_history(items, writable=writable)
    if not writable:
        return digest
    chunks: dict[str, list[int]] = {}
    for position, item in items:
        if type(item) is Chunk:
            chunks.setdefault(item.key, []).append(position)
        elif type(item) is EffectOutcome:
            chunks.pop(item.key, None)
    void = {position for positions in chunks.values() for position in positions}
    return digest._replace(void=digest.void | void, anew=digest.anew | chunks.keys())


def _streams_are_always_cut(items: Iterable[Placed], *, writable: bool) -> Digest:
    digest = digest_history(items, writable=False)
    return digest


def _old_chunks_stay(items: Iterable[Placed], *, writable: bool) -> Digest:
    return digest_history(items, writable=writable)._replace(void=frozenset())


def _retries_stay(items: Iterable[Placed], *, writable: bool) -> Digest:
    retries = frozenset(item.key for _, item in items if getattr(item, "how", "") == "retry")
    return digest_history(items, writable=writable)._replace(retries=retries)


CONTROLS: dict[str, Machine] = {
    "an away is written": Machine(AwayIsNotWritten),
    "turns are written with the next commit": Machine(TurnsAreNotWritten),
    "draws are written with the next commit": Machine(DrawsAreNotWritten),
    "the step of a forced delivery is written": Machine(ForcedStepIsNotWritten),
    "a delivery committed ahead is marked": Machine(AheadIsNotWritten),
    "draws are counted apart from acts": Machine(DrawsCountAsActs),
    "outcomes and at-most-once requests are synced": Machine(NothingIsSynced),
    "arrivals of one batch share a commit": Machine(EachArrivalIsCommittedAlone),
    "forgotten turns are skipped": Machine(ForgottenTurnsAreExpected),
    "nothing is begun before the history is over": Machine(HistoryNeedNotBeOver),
    "nothing is begun before its request is committed": Machine(RequestsAreBegunAtOnce),
    "an at-most-once effect without an outcome is in doubt": Machine(NothingIsInDoubt),
    "an effect that is known not to have been begun is not in doubt": Machine(WhatWasNotBegunIsInDoubt),
    "a cancelled effect of a dead process is not executed again": Machine(CancelledEffectsRunAgain),
    "an outcome has the time of its commit": Machine(OutcomesHaveNoTime),
    "an effect that the program gave up has an outcome": Machine(GivenUpEffectsStayOpen),
    "an effect that the program gave up has one outcome": Machine(GivenUpEffectsHaveTwoOutcomes),
    "an outcome that its effect wrote is delivered by a turn": Machine(OutcomesApartAreDeliveredInPlace),
    "an outcome that its effect wrote is kept until its turn": Machine(OutcomesApartAreLost),
    "a policy is no part of a request": Machine(PoliciesAreCompared),
    "what is listened to is no request": Machine(ListenedValuesAreRequests),
    "counters begin again at a checkpoint": Machine(CountersSurviveACheckpoint),
    "a checkpoint is taken alone": Machine(CheckpointsAreTakenAtAnyTime),
    "what is listened to is not committed ahead of a checkpoint": Machine(ListenedValuesAreCommittedAhead),
    "changed code repeats nothing that has an outcome": Machine(SparesAreNotUsed),
    "a lane that left its record does not return to it": Machine(LanesComeBackToTheirRecord),
    "positions are those of the journal": Machine(window=PositionsAreCounted),
    "draws stay with their rest if its delivery is dropped": Machine(window=DroppedDeliveriesAreDelivered),
    "dropped items are skipped": Machine(digest=_dropped_items_come_back),
    "what changed code draws is found after the change": Machine(digest=_changes_are_forgotten),
    "a strand of changed code that was away is found after the change": Machine(window=AwaysBelongToTheirStretch),
    "draws that changed code leaves out are forgotten": Machine(window=LeftDrawsAreNotMarked),
    "a retry is spent by an item": Machine(RetriesAreNotSpent),
    "a spent retry is no retry": Machine(digest=_retries_stay),
    "a whole record has added requests": Machine(EndedRecordsHaveNoAdded),
    "a prefix has no added requests": Machine(PrefixesHaveAdded),
    "an away strand is waited for": Machine(AwayStrandsAreNotWaitedFor),
    "an arrival counts once": Machine(ArrivalsCountTwice),
    "arrivals that the history had are dropped": Machine(OldArrivalsStayInTheInbox),
    "a cancelled effect is still waited for": Machine(CancelledEffectsEndAtOnce),
    "strands run first in, first out": Machine(LastStrandRunsFirst),
    "a busy loop is interrupted": Machine(BusyLoopIsNeverInterrupted),
    "away is granted only where the record leaves it open": Machine(window=AwayIsGrantedAtOnce),
    "a strand that was not away at the last commit had come to rest": Machine(window=AwayIsGrantedAtTheEnd),
    "an act waits for the last return before it": Machine(FirstReturnIsEnough),
    "a request that is not made is reported at rest": Machine(DivergencesStopNothing),
    "a stream is executed again only if nothing was acted on": Machine(digest=_cut_streams_are_executed_again),
    "a stream is cut only if something was acted on": Machine(digest=_streams_are_always_cut),
    "chunks of an earlier execution are void": Machine(digest=_old_chunks_stay),
}
"""Each rule, with the machine that lacks it."""
