"""The recorded side of a run: deliveries come from the history, in its order.

An act of the record that was not made again is a divergence, and so is a delivery that no lane waits for. While a
strand is away nothing is a divergence. Changed code drops all of these; a tolerant replay delivers something else
first.

A program may sleep, or give a pool jobs, more or less often than its record says, as one that polls a file or finds a
cache warm does. So a recorded turn that no lane waits for is skipped. A timer or a job that the record does not have
comes before a divergence is reported.

A wake-up is made by code outside of every lane, at any time: data of a pipe may come in one piece or in two. So one of
the record is waited for until its lane has ended, one that the record does not have is delivered before a divergence is
reported, and a program that is woken from outside is waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from onrecord.runtime.scheduler.changed_code import ChangedCode
from onrecord.runtime.scheduler.divergences import DivergenceReports
from onrecord.runtime.scheduler.items import (
    ACTS,
    AHEAD,
    APART,
    DELIVERIES,
    STEPS_BETWEEN_RESTS,
    Act,
    Chunk,
    Delivery,
    Diverged,
    EffectOutcome,
    Ended,
    Item,
    Loosen,
    Requested,
    SettledItem,
    Token,
    Turn,
    Wait,
    is_same_act,
)
from onrecord.runtime.scheduler.lanes import LaneTable
from onrecord.runtime.scheduler.wait_table import WaitTable
from onrecord.runtime.scheduler.window import Window

MOST_FIRED = 10_000
"""Timers that fire in a replay without any progress in the record. A program that only sleeps has diverged."""
_NEEDLESS = ("timer", "start", "back", "pause")


class Tolerance:
    """Tolerant replays: a request that differs from the record is answered by another recorded one.

    What lanes wait for is delivered out of order where the order of the record would be a divergence.
    """

    def __init__(self, loosen: Loosen, history: Window, awaited: WaitTable) -> None:
        self._loosen = loosen
        self._history = history
        self._awaited = awaited

    def find_request(self, expected: Act | None, request: Requested) -> Requested | None:
        """Return the recorded request that answers one which differs from the next recorded act of its lane."""
        if expected is not None and is_same_act(expected, request):
            return None
        position = self._loosen(request, self._history.unmade_requests())
        if position is None:
            return None
        bound = self._history.mark_made_at(position)
        assert isinstance(bound, Requested)
        return bound

    def take_delivery(self) -> tuple[Token, Delivery] | None:
        """Take what some lane waits for, out of order."""
        apart = self._awaited.find_apart()
        if apart is not None:
            return apart, Turn(*apart.taken_name)
        found = self._history.take_delivery(self._is_awaited)
        if found is None:
            return None
        token = self._awaited.find(found)
        assert token is not None
        return token, found

    def is_given_away(self, item: Delivery) -> bool:
        """Return True for a turn `taken` whose outcome was given to another lane."""
        return type(item) is Turn and item.kind == "taken" and self._awaited.find(item) is None

    def _is_awaited(self, item: Delivery) -> bool:
        token = self._awaited.find(item)
        return token is not None and not token.gone and not (type(item) is SettledItem and item.how == "retry")


class Due(NamedTuple):
    """A recorded delivery that is to be made now."""

    token: Token
    item: Delivery
    value: Any


class Over(Enum):
    """The history is over."""

    OVER = 0


class RecordSide:
    steps_of_spin = 100_000
    """Steps of a busy program without a delivery after which it need not rest for a turn that no lane waits for."""

    def __init__(
        self,
        history: Window,
        awaited: WaitTable,
        lanes: LaneTable,
        divergences: DivergenceReports,
        changed: ChangedCode | None,
        tolerance: Tolerance | None,
    ) -> None:
        self.away: set[str] = set()
        """Lanes whose strand is away now."""
        self._history = history
        self._awaited = awaited
        self._lanes = lanes
        self._divergences = divergences
        self._changed = changed
        self.tolerance = tolerance
        self._passed: list[Turn] = []
        """Turns that a busy program did not wait for. It may still do so when it rests."""
        self._has_shifted = False
        """The program sleeps more or less often than its record says."""
        self._is_woken = False
        """The program is woken by code outside of every lane, which may do so again."""
        self._fired = 0, 0
        """The position of the cursor, and how many timers fired there that the record does not have."""

    def next(self, steps: int | None) -> Due | Wait | Diverged | Over | None:
        """Return the next delivery of the history, a divergence, or None for a busy program that continues."""
        history = self._history
        if self._passed and steps is None and (late := self._take_passed()) is not None:
            return late
        ahead = history.ahead
        while ahead or history.read():
            position, item = ahead[0]
            if type(item) is EffectOutcome and item.forced == 0 and steps is None and self.tolerance is None:
                token = self._awaited.named.get(item.key)
                if token is not None and not token.gone:  # the usual case, as below
                    history.advance()
                    self._passed.clear()
                    return Due(token, item, item.value)
            if isinstance(item, ACTS):
                if position not in history.made and not self._is_dropped(item, steps):
                    missing = partial(self._divergences.missing, item, position)
                    return self._unless_early(steps, missing, is_act=True)
            elif type(item) is Ended:
                if not self._is_dropped(item, steps):
                    return self._unless_early(steps, partial(self._divergences.not_ended, item))
            elif isinstance(item, DELIVERIES) and not self._is_skipped(item):
                token = self._awaited.find(item)
                if token is not None and token.gone:
                    if type(item) is not Chunk:
                        self._awaited.skip(item)
                elif type(item) is Turn and self._is_needless(token, item, steps):
                    if item.kind == "back":
                        history.forget_away(item.lane, item.ordinal)
                elif token is not None or not self._is_dropped(item, steps):
                    return self._next_delivery(token, item, steps)
            history.advance()
        return (self._take_early() if steps is None else None) or Over.OVER

    def _next_delivery(self, token: Token | None, item: Delivery, steps: int | None) -> Due | Wait | Diverged | None:
        """Return the delivery under the cursor if it is its turn, and if a lane waits for it."""
        if steps is not None and not _comes_at(item.forced, steps):
            is_late = (self._has_shifted or self._passed) and self._is_spinning(steps)
            if not is_late:
                return None
        if token is None:
            # A busy program waits at this step for a strand that is away.
            if self.away:
                return Wait()
            if _may_come(item):
                return (self._take_early() or Wait()) if steps is None else None
            return self._unless_early(steps, partial(self._divergences.unexpected, item))
        if type(item) is Chunk:
            token.chunks = item.number + 1
        self._history.advance()
        self._passed.clear()
        return Due(token, item, self._awaited.value_of(token, item))

    # A program that sleeps more or less often

    def _is_needless(self, token: Token | None, turn: Turn, steps: int | None) -> bool:
        """Return True for a turn that no lane waits for. It changes nothing by itself."""
        if turn.kind == "wake":
            self._is_woken = True
            return token is None and self._lanes.is_over(turn.lane)
        if turn.kind not in _NEEDLESS or self.away or self._changed is not None:
            return False
        if token is not None:
            # The lane does not sleep there any more, and waits for another timer of that name. Tasks of a loop that was
            # away had asked before the timer came, too.
            is_other = turn.kind == "timer" and turn.forced >= 0 and self.tolerance is None
            is_needless = is_other and self._history.is_ahead(turn.lane) and not self._awaited.has_returning
        else:
            is_needless = steps is None or _comes_at(turn.forced, steps)
        self._has_shifted |= is_needless
        if token is None and steps is not None and turn.forced == 0 and self._is_spinning(steps):
            self._passed.append(turn)
            return True
        return is_needless

    def _is_spinning(self, steps: int) -> bool:
        """Return True for a busy program that does not seem to come to rest before the next delivery."""
        return steps >= self.steps_of_spin

    def _take_passed(self) -> Due | None:
        """Return a turn that a program waits for, which rests after all."""
        passed, self._passed = self._passed, []
        for number, turn in enumerate(passed):
            token = self._awaited.find(turn)
            if token is not None and not token.gone:
                self._passed = passed[number + 1 :]
                return Due(token, turn, None)
        return None

    def _fire(self) -> Due | None:
        """Let the first timer fire: a lane that sleeps may still do what is expected.

        So may a job that the record does not have. So may a strand that waits for its return at an earlier act than
        recorded, since it takes more of them, or that waits longer than the others can. What is still to come in the
        record is the last.
        """
        position, count = self._fired
        if position != self._history.position:
            count = 0
        if count >= MOST_FIRED:
            return None
        turns = (token for token in self._awaited.open if token.call is None)
        found = min(filter(self._may_fire, turns), key=self._rank, default=None)
        if found is None:
            return None
        self._fired = self._history.position, count + 1
        self._has_shifted = True
        return Due(found, Turn(*found.turn_name, found.due), None)

    def _may_fire(self, token: Token) -> bool:
        """Return True for a turn that may be delivered without a record. A wake-up must have come."""
        kind = token.turn_name[0]
        if kind == "wake":
            return token.here
        if kind == "start":
            return not self._history.is_to_come(token.turn_name)
        return kind == "back" or (kind == "timer" and not self._is_woken)

    def _rank(self, token: Token) -> tuple[bool, bool, int]:
        is_to_come = self._history.is_to_come(token.turn_name)
        return is_to_come, is_to_come and token.turn_name[0] == "back", token.due

    def _is_skipped(self, item: Delivery) -> bool:
        """Return True for what is delivered by something else, or never: outcomes apart, void chunks, retries."""
        if type(item) is EffectOutcome and item.forced == APART:
            self._keep_apart(item)
            return True
        if type(item) is Chunk and self._history.head_is_void:
            if self._changed is not None:
                self._changed.drop_void(item)
            return True
        if type(item) is SettledItem and item.how == "retry":
            return True
        return self.tolerance is not None and self.tolerance.is_given_away(item)

    def _keep_apart(self, item: EffectOutcome) -> None:
        token = self._awaited.find(item)
        if token is None and self._changed is not None:
            self._changed.drop(item)
        elif token is not None:
            self._awaited.keep_apart(token, item)

    def _is_dropped(self, item: Item, steps: int | None) -> bool:
        """Drop the item under the cursor if the code may have changed and no strand can still need it."""
        if self._changed is None or steps is not None or self.away:
            return False
        self._changed.drop(item)
        return True

    def _unless_early(
        self, steps: int | None, diverged: Callable[[], Diverged], *, is_act: bool = False
    ) -> Due | Wait | Diverged | None:
        """Return the divergence, unless a strand runs, one that is away may still come, or a timer may fire."""
        if steps is not None:
            return None
        if self.away:
            return Wait()
        early = self._take_early()
        if early is None and (early := self._fire()) is not None and is_act:
            self._divergences.postpone(diverged)
        return early or (Wait() if self._is_woken else diverged())

    def _take_early(self) -> Due | None:
        """Return, out of order, what a lane of a tolerant replay waits for."""
        found = None if self.tolerance is None else self.tolerance.take_delivery()
        return None if found is None else Due(*found, self._awaited.value_of(*found))

    def give_up_waiting(self) -> bool:
        """Wait no longer for code outside of every lane. Return False if it was not waited for."""
        was_woken, self._is_woken = self._is_woken, False
        item = self._history.head()
        if was_woken and item is not None and isinstance(item, DELIVERIES) and _may_come(item):
            self._history.advance()
        return was_woken

    def pass_rest(self) -> None:
        """Pass what is left of the history: deliveries that are not waited for, and what changed code left out."""
        history = self._history
        while (item := history.head()) is not None:
            if isinstance(item, DELIVERIES):
                token = self._awaited.find(item)
                if token is None and self._changed is not None:
                    self._changed.drop(item)
                elif type(item) is EffectOutcome and token is not None:
                    token.is_written = True
            elif isinstance(item, ACTS) and not history.head_is_made and self._changed is not None:
                self._changed.drop(item)
            history.advance()


def _may_come(item: Delivery) -> bool:
    """Return True for the wake-up of a task by code outside of every lane, which creates the turn when it comes."""
    return type(item) is Turn and item.kind == "wake"


def _comes_at(forced: int, steps: int) -> bool:
    """Return True if a recorded delivery comes to a busy program at this number of steps, or was to come before."""
    return 0 < forced <= steps or (forced == AHEAD and steps >= STEPS_BETWEEN_RESTS)
