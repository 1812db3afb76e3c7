"""Reports of a program that does something else than its record says.

The act that is reported explains the difference best: a request that was left out before a branch was started, rather
than what the branch asks; a request that was not made, rather than its outcome that no lane waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from onrecord.runtime.scheduler.items import ACTS, Act, Diverged, Divergent, Ended, Item, Requested, Token, Turn
from onrecord.runtime.scheduler.lanes import LaneTable
from onrecord.runtime.scheduler.window import Window


class DivergenceReports:
    def __init__(self, history: Window, lanes: LaneTable, waiting: dict[Token, None]) -> None:
        self.found: Diverged | None = None
        """The first one. Nothing goes on after it."""
        self._postponed: tuple[int, Callable[[], Diverged]] | None = None
        self._history = history
        self._lanes = lanes
        self._waiting = waiting

    def check(self) -> None:
        """Stop a lane of a program that diverged."""
        if self.found is not None:
            raise Divergent(self.found)

    def postpone(self, missing: Callable[[], Diverged]) -> None:
        """Report an act under the cursor that was not made again only if another lane differs before it is made."""
        self._postponed = self._history.position, missing

    def report(self, lane: str, expected: Any, actual: Any, reason: str, position: int | None) -> Diverged:
        postponed, self._postponed = self._postponed, None
        if postponed is not None and postponed[0] == self._history.position != position:
            return postponed[1]()
        self.found = Diverged(lane, expected, actual, reason, position)
        return self.found

    def part(self, lane: str, expected: Any, actual: Any, reason: str, position: int | None) -> NoReturn:
        """Report an act that differs, or the request that a lane above left out before it started this branch."""
        for above, number in self._lanes.above(lane):
            left = self._history.pending_act(above)
            if left is not None and type(left[1]) is Requested and left[1].births <= number:
                lane, expected, actual, reason, position = above, left[1], f"started {lane}", "removed", left[0]
        raise Divergent(self.report(lane, expected, actual, reason, position))

    def missing(self, item: Act, position: int) -> Diverged:
        """Report an act that was not made again."""
        return self.report(item.lane, item, self._doing(item.lane), "removed", position)

    def not_ended(self, item: Ended) -> Diverged:
        """Report a program that is to end, and rests."""
        root = self._lanes.root
        return self.report(root, item, self._doing(root), "did not end", self._history.position)

    def unexpected(self, item: Any) -> Diverged:
        """Report a delivery that no lane waits for: the request that was not made explains it better."""
        left = self._history.first_unmade()
        if left is not None:
            return self.missing(left[1], left[0])
        lane = item.lane if type(item) is Turn else item.key.partition("/")[0]
        return self.report(lane, item, self._doing(lane), "not awaited", self._history.position)

    def stuck(self, item: Item | None) -> Diverged:
        """Report a busy program that makes no progress at this item of its history."""
        if item is None or type(item) is Ended:
            root = self._lanes.root
            return self.report(root, item or "an end", self._doing(root), "busy", self._history.position)
        if isinstance(item, ACTS):
            return self.missing(item, self._history.position)
        return self.unexpected(item)

    def _doing(self, lane: str) -> str:
        own = self._lanes.find(lane)
        if own is None or own.ended:
            return "has ended, or was not started"
        waits = [str(token.name) for token in self._waiting if token.lane == lane]
        return f"waits for {', '.join(waits)}" if waits else "waits for another lane"
