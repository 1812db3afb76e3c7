"""Waits of an agent's threads for each other: how one ended, and in whose turn, is part of the record.

1. A thread that waits rests: others may have their turn. It goes on in its turn, whatever has woken it.
2. While recording, a wait ends when it is over or when its time is. Its turn is called after that: `wake` or `late`.
3. When the run comes back the record alone decides. A wait that was over in time has all the time it needs; one that
   was late is late in its turn, however early that is, and the clock by which the standard library counts the rest of
   a time-out follows.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from onrecord.runtime.engine.context import HERE, PLACE
from onrecord.runtime.engine.stops import RunStopped
from onrecord.runtime.replay.records import LATE, WAKE
from onrecord.runtime.scheduler.delivery_item import Item
from onrecord.runtime.scheduler.lanes import Lane
from onrecord.runtime.scheduler.scheduler import LOOK_SECONDS, RELAX_SECONDS, Patience
from onrecord.runtime.scheduler.thread_signal import Signal

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun

SLICE_SECONDS = 0.05
PATIENCE_SECONDS = 1.0
"""How long all threads of a run that comes back may wait for each other before that is called a divergence."""
CLEAN_UP_SECONDS = 1.0
"""How long threads of a stopped run may wait for each other."""
_INSTANT = 1e-6


def thread_clock() -> float:
    """What the time-outs of the standard library are counted by."""
    return monotonic() + HERE.ahead


class Attendance:
    """How many threads a run has, the first one included, and how many of them wait for each other."""

    def __init__(self) -> None:
        self.alive = 1
        self.waiting = 0

    @classmethod
    def of(cls, run: LiveRun) -> Attendance:
        with run.lock:
            return _attendances.setdefault(run, cls())


_attendances: WeakKeyDictionary[LiveRun, Attendance] = WeakKeyDictionary()


def wait_in_turn(run: LiveRun, is_over: Callable[[float], bool], timeout: float | None) -> bool:
    """Waits until it is over (True) or late (False). `is_over` waits for at most that many seconds."""
    lane = PLACE.get()
    if type(lane) is not Lane or HERE.token is None:  # the only thread there is
        return _Wait(run, is_over, timeout).until_over()
    return _WaitInTurn(run, is_over, timeout, lane).outcome()


class _Wait:
    def __init__(self, run: LiveRun, is_over: Callable[[float], bool], timeout: float | None) -> None:
        self.run = run
        self._is_over = is_over
        self._timeout = timeout
        self._since = monotonic()

    @property
    def is_decided(self) -> bool:
        """By the record."""
        return False

    @property
    def _counts_time(self) -> bool:
        return self._timeout is not None

    def until_over(self) -> bool:
        """Waits in slices: not for a run that has stopped, nor for a replay whose threads all wait for each other."""
        run, there, stopped = self.run, Attendance.of(self.run), 0.0
        patience = Patience(run.turns)
        there.waiting += 1
        try:
            while True:
                if self._is_over(self._slice()):
                    return True
                now = monotonic()
                if run.stopped is not None:
                    stopped = stopped or now
                    if now - stopped > CLEAN_UP_SECONDS:
                        raise RunStopped(run.stopped)
                elif self.is_decided or (self._counts_time and now - self._since >= (self._timeout or 0.0)):
                    return False
                elif not run.is_live and there.waiting >= there.alive and patience.seconds > PATIENCE_SECONDS:
                    run.stands_still()
        finally:
            there.waiting -= 1

    def _slice(self) -> float:
        if self._timeout is None:
            return SLICE_SECONDS
        if not self._counts_time:
            return LOOK_SECONDS
        return max(min(SLICE_SECONDS, self._since + self._timeout - monotonic()), 0.0)


class _WaitInTurn(_Wait):
    """The wait of one thread among others."""

    def __init__(self, run: LiveRun, is_over: Callable[[float], bool], timeout: float | None, lane: Lane) -> None:
        super().__init__(run, is_over, timeout)
        ordinal = lane.next_ordinal(WAKE)
        self._token = HERE.token
        self._turn = Signal()
        self._was_late = False
        self._wake = Item(WAKE, lane, ordinal, self._go_on, looped=False)
        self._late = Item(LATE, lane, ordinal, self._be_late, looped=False)

    @property
    def is_decided(self) -> bool:
        return self._was_late

    @property
    def _counts_time(self) -> bool:
        return self._timeout is not None and not self.run.turns.replaying

    def _go_on(self) -> None:
        self.run.turns.runs(self._token)
        self._turn.set()

    def _be_late(self) -> None:
        self._was_late = True
        self._go_on()

    def outcome(self) -> bool:
        run, turns = self.run, self.run.turns
        with run.lock:
            turns.rests(self._token)
            if turns.replaying and self._timeout is not None:
                turns.expect(self._late)
            turns.advance()
        try:
            over = self.until_over()
            if not self._turn.wait(0.0):
                over = self._take_turn(over)
            over = over and not self._was_late
            self._set_clock(over)
            return over
        finally:
            with run.lock:
                turns.forget(self._wake)
                turns.forget(self._late)
                turns.runs(self._token, awake=True)

    def _take_turn(self, over: bool) -> bool:
        """What woke this thread may have woken others: they go on one after the other, and again in that order."""
        run = self.run
        run.turns.arrive(self._wake if over else self._late)
        patience = Patience(run.turns)
        while not self._turn.wait(LOOK_SECONDS):
            run.turns.overdue()
            relaxed = not run.is_live and patience.seconds > RELAX_SECONDS
            if run.is_stopped or (relaxed and not run.turns.will_be_late(self._late)):
                break
        return over

    def _set_clock(self, over: bool) -> None:
        if self._timeout is None:
            return
        left = self._since + self._timeout - monotonic()
        if not over:
            HERE.ahead += max(left + _INSTANT, 0.0)
        elif left <= 0:
            HERE.ahead += left - _INSTANT
