"""The recorded side of a run: deliveries come from the history, in its order.

An act of the record that was not made again is a divergence, and so is a delivery that no lane waits for, except for a
wake-up: code outside of every lane may still make it. While a strand is away nothing is a divergence. Changed code
drops all of these; a tolerant replay delivers something else first.
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
    Chunk,
    Delivery,
    Diverged,
    EffectOutcome,
    Ended,
    Item,
    SettledItem,
    Token,
    Turn,
    Wait,
)
from onrecord.runtime.scheduler.tolerance import Tolerance
from onrecord.runtime.scheduler.wait_table import WaitTable
from onrecord.runtime.scheduler.window import Window


class Due(NamedTuple):
    """A recorded delivery that is to be made now."""

    token: Token
    item: Delivery
    value: Any


class Over(Enum):
    """The history is over."""

    OVER = 0


class RecordSide:
    def __init__(
        self,
        history: Window,
        awaited: WaitTable,
        divergences: DivergenceReports,
        changed: ChangedCode | None,
        tolerance: Tolerance | None,
    ) -> None:
        self.away: set[str] = set()
        """Lanes whose strand is away now."""
        self._history = history
        self._awaited = awaited
        self._divergences = divergences
        self._changed = changed
        self.tolerance = tolerance

    def next(self, steps: int | None) -> Due | Wait | Diverged | Over | None:
        """Return the next delivery of the history, a divergence, or None for a busy program that continues."""
        history = self._history
        while (item := history.head()) is not None:
            if isinstance(item, ACTS):
                if not history.head_is_made and not self._is_dropped(item, steps):
                    return self._unless_early(steps, partial(self._divergences.missing, item, history.position))
            elif type(item) is Ended:
                if not self._is_dropped(item, steps):
                    return self._unless_early(steps, partial(self._divergences.not_ended, item))
            elif isinstance(item, DELIVERIES) and not self._is_skipped(item):
                token = self._awaited.find(item)
                if token is not None and token.gone:
                    if type(item) is not Chunk:
                        self._awaited.skip(item)
                elif token is not None or not self._is_dropped(item, steps):
                    return self._next_delivery(token, item, steps)
            history.advance()
        return (self._take_early() if steps is None else None) or Over.OVER

    def _next_delivery(self, token: Token | None, item: Delivery, steps: int | None) -> Due | Wait | Diverged | None:
        """Return the delivery under the cursor if it is its turn, and if a lane waits for it."""
        if steps is not None and not _comes_at(item.forced, steps):
            return None
        if token is None:
            # A busy program waits at this step for a strand that is away.
            if self.away:
                return Wait()
            return self._unless_early(steps, Wait if _may_come(item) else partial(self._divergences.unexpected, item))
        if type(item) is Chunk:
            token.chunks = item.number + 1
        self._history.advance()
        return Due(token, item, self._awaited.value_of(token, item))

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

    def _unless_early(self, steps: int | None, diverged: Callable[[], Diverged | Wait]) -> Due | Wait | Diverged | None:
        """Return the divergence, unless a strand runs or one that is away may still come."""
        if steps is not None:
            return None
        if self.away:
            return Wait()
        return self._take_early() or diverged()

    def _take_early(self) -> Due | None:
        """Return, out of order, what a lane of a tolerant replay waits for."""
        found = None if self.tolerance is None else self.tolerance.take_delivery()
        return None if found is None else Due(*found, self._awaited.value_of(*found))

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
    """Return True if a recorded delivery comes to a busy program at this number of steps."""
    return 0 < forced == steps or (forced == AHEAD and steps >= STEPS_BETWEEN_RESTS)
