"""The scheduler with one of its rules taken out, for each rule.

A rule that can be taken out without a failing schedule is not needed, or the simulation is blind to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kit.simulation.life import Machine
from onrecord.runtime.scheduler.changed_code import ChangedCode
from onrecord.runtime.scheduler.divergences import DivergenceReports
from onrecord.runtime.scheduler.items import (
    AHEAD,
    APART,
    Act,
    Action,
    Away,
    Began,
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
from onrecord.runtime.scheduler.lanes import LaneTable
from onrecord.runtime.scheduler.live_side import CommitDraft, Inbox, LiveSide
from onrecord.runtime.scheduler.record_side import RecordSide
from onrecord.runtime.scheduler.wait_table import WaitTable
from onrecord.runtime.scheduler.window import Digest, Placed, Window, digest_history

_PARTS: tuple[tuple[type, Callable[[Kernel], Any]], ...] = (
    (LaneTable, lambda kernel: kernel._lanes),
    (WaitTable, lambda kernel: kernel._awaited),
    (LiveSide, lambda kernel: kernel._outside),
    (CommitDraft, lambda kernel: kernel._outside.draft),
    (Inbox, lambda kernel: kernel._outside.inbox),
    (RecordSide, lambda kernel: kernel._record),
    (DivergenceReports, lambda kernel: kernel._divergences),
    (ChangedCode, lambda kernel: kernel._changed),
)


def kernel_with(changed: type) -> type[Kernel]:
    """Return a kernel with another class for one of its parts."""
    find = next(find for kind, find in _PARTS if issubclass(changed, kind))

    class Changed(Kernel):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            if (part := find(self)) is not None:
                part.__class__ = changed

    return Changed


# What is written


class AwaysAreNotWritten(CommitDraft):
    def add(self, item: Item) -> None:
        if type(item) is not Away:
            super().add(item)


class TurnsAreNotWritten(Inbox):
    def write(self, arrival: Any, forced: int) -> None:
        super().write(arrival, forced)
        if type(arrival.item) is Turn and forced != AHEAD:
            self._draft.items.pop()


class DrawsAreNotWritten(CommitDraft):
    def add(self, item: Item) -> None:
        if type(item) is not Drawn:
            super().add(item)


class ForcedStepIsNotWritten(Inbox):
    def write(self, arrival: Any, forced: int) -> None:
        super().write(arrival, min(forced, 0))


class AheadIsNotWritten(Inbox):
    def write(self, arrival: Any, forced: int) -> None:
        super().write(arrival, max(forced, 0))


class DrawsCountAsActs(Kernel):
    def act(self, lane: str, *, draws: bool = False) -> Token | None:
        return super().act(lane)


class NothingIsSynced(CommitDraft):
    def take(self, *, sync: bool = False) -> Commit:
        return super().take()._replace(sync=False)


class EachArrivalIsCommittedAlone(Inbox):
    def write_ahead(self) -> None: ...


class OutcomesHaveNoTime(Kernel):
    def committed(self, time: int) -> None: ...


class GivenUpEffectsStayOpen(LiveSide):
    def write_apart(self, token: Token, value: Any) -> None: ...


class GivenUpEffectsHaveTwoOutcomes(LiveSide):
    def write_apart(self, token: Token, value: Any) -> None:
        token.is_written = False
        super().write_apart(token, value)


# With a history


class OutcomesApartAreDeliveredInPlace(RecordSide):
    def _is_skipped(self, item: Any) -> bool:
        return getattr(item, "forced", 0) != APART and super()._is_skipped(item)


class OutcomesApartAreLost(RecordSide):
    def _keep_apart(self, item: Any) -> None: ...


class PoliciesAreCompared(Kernel):
    def _find_recorded(self, lane: str, act: Act) -> Act | None:
        recorded = self.peek(lane)
        if getattr(recorded, "once", None) != getattr(act, "once", None) and recorded is not None:
            self._divergences.part(lane, recorded, act, "changed", None)
        return super()._find_recorded(lane, act)


class ListenedValuesAreRequests(Kernel):
    def listen(self, name: str, detail: Any = None) -> Token:
        token = super().listen(name, detail)
        self.open[token] = None
        token.call = Call(name, None, once=True)
        token.recorded = None if self.live else Requested(token.key, token.lane, name, None, once=True)
        return token


class ForgottenTurnsAreExpected(WaitTable):
    def forget(self, token: Token) -> None:
        super().forget(token)
        if token.call is None:
            self.named.pop(token.name, None)


class HistoryNeedNotBeOver(Kernel):
    def ask(self, lane: str, call: Call) -> Token:
        if self._writable and self.history.next_act(lane) is None:
            self.live = True
        return super().ask(lane, call)


class RequestsAreBegunAtOnce(LiveSide):
    def next(self, steps: int | None) -> Any:
        return self._take_begun() if self.to_begin else super().next(steps)


class NothingIsInDoubt(Kernel):
    def _go_live(self) -> Action:
        requested = {token.key for token in self.open if token.call is not None}
        self.history.digest = self.history.digest._replace(retries=frozenset(requested))
        return super()._go_live()


class WhatWasNotBegunIsInDoubt(LiveSide):
    def find_doubts(self) -> list[Token]:
        self._may_repeat = None
        return super().find_doubts()


class CancelledEffectsRunAgain(Kernel):
    def _go_live(self) -> Action:
        for token in self.open:
            token.cancelled = False
        return super()._go_live()


class RetriesAreNotSpent(LiveSide):
    def take_over(self, time: int) -> None:
        super().take_over(time)
        self.draft.items = [item for item in self.draft.items if not self._is_retried(item)]

    def _is_retried(self, item: Item) -> bool:
        return type(item) is Began and item.key in self._history.digest.retries


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


class BirthsAreNotCompared(LaneTable):
    def above(self, name: str) -> Iterator[tuple[str, int]]:
        return iter(())


class AwayStrandsAreNotWaitedFor(RecordSide):
    def next(self, steps: int | None) -> Any:
        away, self.away = self.away, set()
        try:
            return super().next(steps)
        finally:
            self.away = away


class ArrivalsCountTwice(Inbox):
    def add(self, token: Token, value: Any, *, last: bool = True, time: int = 0, is_written: bool = False) -> None:
        if token.call is None and not token.done:
            token.here = False
        super().add(token, value, last=last, time=time, is_written=is_written)


class OldArrivalsStayInTheInbox(Inbox):
    def keep_awaited(self) -> None: ...


class CancelledEffectsEndAtOnce(Kernel):
    def cancel(self, token: Token) -> None:
        if token.call is not None and not token.done:
            self.drop(token)
        super().cancel(token)


class CountersSurviveACheckpoint(Kernel):
    def checkpoint(self, lane: str, digest: Any) -> str:
        own = self._lanes.living(lane)
        root = super().checkpoint(lane, digest)
        self._lanes.states[root] = own
        own.name = root
        return root


class CheckpointsAreTakenAtAnyTime(Kernel):
    @property
    def is_alone(self) -> bool:
        return True


class ListenedValuesAreCommittedAhead(Inbox):
    def write_ahead(self) -> None:
        listening, self._listening = self._listening, {}
        super().write_ahead()
        self._listening = listening


class SparesAreNotUsed(LiveSide):
    def _take_spare(self, token: Token) -> bool:
        return False


class LanesComeBackToTheirRecord(ChangedCode):
    def has_left(self, lane: str) -> bool:
        """Return True once."""
        left = super().has_left(lane)
        self._left.discard(lane)
        return left


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


class EarlierChangesAreForgotten(Window):
    @property
    def has_changes(self) -> bool:
        return False


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
        self.ready.rotate(1)


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
        self._lanes.end(lane)


class FirstReturnIsEnough(Kernel):
    def returned(self, lane: str) -> Token | None:
        return None


class PendingActsAreNotRead(Window):
    def pending_act(self, lane: str) -> tuple[int, Act] | None:
        acts = self._acts.get(lane)
        return acts[0] if acts else None


class DivergencesStopNothing(RecordSide):
    def _unless_early(self, steps: int | None, diverged: Any, *, is_act: bool = False) -> Any:
        return Wait() if self.away or steps is None else None


class NeedlessTurnsAreExpected(RecordSide):
    def _is_needless(self, token: Token | None, turn: Turn, steps: int | None) -> bool:
        return False


class OnlyRecordedTimersFire(RecordSide):
    def _fire(self) -> None:
        return None


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
    "an away is written": Machine(kernel_with(AwaysAreNotWritten)),
    "turns are written with the next commit": Machine(kernel_with(TurnsAreNotWritten)),
    "draws are written with the next commit": Machine(kernel_with(DrawsAreNotWritten)),
    "the step of a forced delivery is written": Machine(kernel_with(ForcedStepIsNotWritten)),
    "a delivery committed ahead is marked": Machine(kernel_with(AheadIsNotWritten)),
    "draws are counted apart from acts": Machine(DrawsCountAsActs),
    "outcomes and at-most-once requests are synced": Machine(kernel_with(NothingIsSynced)),
    "arrivals of one batch share a commit": Machine(kernel_with(EachArrivalIsCommittedAlone)),
    "nothing is begun before the history is over": Machine(HistoryNeedNotBeOver),
    "nothing is begun before its request is committed": Machine(kernel_with(RequestsAreBegunAtOnce)),
    "an at-most-once effect without an outcome is in doubt": Machine(NothingIsInDoubt),
    "an effect that is known not to have been begun is not in doubt": Machine(kernel_with(WhatWasNotBegunIsInDoubt)),
    "a cancelled effect of a dead process is not executed again": Machine(CancelledEffectsRunAgain),
    "an outcome has the time of its commit": Machine(OutcomesHaveNoTime),
    "an effect that the program gave up has an outcome": Machine(kernel_with(GivenUpEffectsStayOpen)),
    "an effect that the program gave up has one outcome": Machine(kernel_with(GivenUpEffectsHaveTwoOutcomes)),
    "an outcome that its effect wrote is delivered by a turn": Machine(kernel_with(OutcomesApartAreDeliveredInPlace)),
    "an outcome that its effect wrote is kept until its turn": Machine(kernel_with(OutcomesApartAreLost)),
    "a policy is no part of a request": Machine(PoliciesAreCompared),
    "what is listened to is no request": Machine(ListenedValuesAreRequests),
    "counters begin again at a checkpoint": Machine(CountersSurviveACheckpoint),
    "a checkpoint is taken alone": Machine(CheckpointsAreTakenAtAnyTime),
    "what is listened to is not committed ahead of a checkpoint": Machine(kernel_with(ListenedValuesAreCommittedAhead)),
    "changed code repeats nothing that has an outcome": Machine(kernel_with(SparesAreNotUsed)),
    "a lane that left its record does not return to it": Machine(kernel_with(LanesComeBackToTheirRecord)),
    "positions are those of the journal": Machine(window=PositionsAreCounted),
    "draws stay with their rest if its delivery is dropped": Machine(window=DroppedDeliveriesAreDelivered),
    "dropped items are skipped": Machine(digest=_dropped_items_come_back),
    "what changed code draws is found after the change": Machine(digest=_changes_are_forgotten),
    "a strand of changed code that was away is found after the change": Machine(window=AwaysBelongToTheirStretch),
    "what accepted code left out is forgotten in its next life too": Machine(window=EarlierChangesAreForgotten),
    "draws that changed code leaves out are forgotten": Machine(window=LeftDrawsAreNotMarked),
    "a retry is spent by an item": Machine(kernel_with(RetriesAreNotSpent)),
    "a spent retry is no retry": Machine(digest=_retries_stay),
    "a whole record has added requests": Machine(EndedRecordsHaveNoAdded),
    "a prefix has no added requests": Machine(PrefixesHaveAdded),
    "an away strand is waited for": Machine(kernel_with(AwayStrandsAreNotWaitedFor)),
    "an arrival counts once": Machine(kernel_with(ArrivalsCountTwice)),
    "arrivals that the history had are dropped": Machine(kernel_with(OldArrivalsStayInTheInbox)),
    "a cancelled effect is still waited for": Machine(CancelledEffectsEndAtOnce),
    "strands run first in, first out": Machine(LastStrandRunsFirst),
    "a busy loop is interrupted": Machine(BusyLoopIsNeverInterrupted),
    "away is granted only where the record leaves it open": Machine(window=AwayIsGrantedAtOnce),
    "a strand that was not away at the last commit had come to rest": Machine(window=AwayIsGrantedAtTheEnd),
    "an act waits for the last return before it": Machine(FirstReturnIsEnough),
    "a request that is not made is reported at rest": Machine(kernel_with(DivergencesStopNothing)),
    "a turn that no lane waits for is skipped": Machine(kernel_with(NeedlessTurnsAreExpected)),
    "a timer that the record does not have fires": Machine(kernel_with(OnlyRecordedTimersFire)),
    "a stream is executed again only if nothing was acted on": Machine(digest=_cut_streams_are_executed_again),
    "a stream is cut only if something was acted on": Machine(digest=_streams_are_always_cut),
    "chunks of an earlier execution are void": Machine(digest=_old_chunks_stay),
}
"""Each rule, with the machine that lacks it."""
