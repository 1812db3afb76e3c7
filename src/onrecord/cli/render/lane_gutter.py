"""The gutter of a timeline: one column for each lane that is there, like the branches of a history.

○ something was requested   ● it was answered, or something happened   × it failed   ┃ under way   │ idle
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from onrecord.core.events import ANSWERS, OPENING_KINDS
from onrecord.core.lane_names import ROOT_LANE, is_root_lane

MOST_COLUMNS = 12
REQUESTED, HAPPENED, FAILED, UNDER_WAY, IDLE = "○", "●", "×", "┃", "│"
_FAILURES = frozenset({"ActionFailed", "ActionDenied", "Failed"})


class GutterEvent(NamedTuple):
    """What the gutter needs of an event."""

    lane: str
    kind: str


class Gutter:
    """Events one by one. A lane takes the first free column when it appears, and gives it back behind its last event.

    `ends` says how many events are to come of each lane. Where nobody knows, a lane that has nothing under way gives
    its column to the next one that needs one. The root lane keeps its column after a checkpoint.
    """

    def __init__(self, ends: dict[str, int] | None = None) -> None:
        self._left = dict(ends or {})
        self._is_live = ends is None
        self._columns: list[str | None] = []
        self._under_way: set[str] = set()

    def row(self, event: GutterEvent) -> str:
        lane = _branch(event)
        column = self._column(lane)
        mark = FAILED if event.kind in _FAILURES else REQUESTED if event.kind in OPENING_KINDS else HAPPENED
        if event.kind in OPENING_KINDS:
            self._under_way.add(lane)
        elif event.kind in ANSWERS:
            self._under_way.discard(lane)
        drawn = [mark if n == column else self._passing(other) for n, other in enumerate(self._columns)]
        self._leave(lane, column)
        shown = "".join(drawn).rstrip()
        if len(shown) <= MOST_COLUMNS:
            return shown
        return shown[: MOST_COLUMNS - 1] + (mark if column >= MOST_COLUMNS - 1 else "…")

    def _passing(self, lane: str | None) -> str:
        return " " if lane is None else UNDER_WAY if lane in self._under_way else IDLE

    def _column(self, lane: str) -> int:
        if lane in self._columns:
            return self._columns.index(lane)
        free = next((n for n, other in enumerate(self._columns) if other is None or self._may_go(other)), None)
        if free is None:
            self._columns.append(lane)
            return len(self._columns) - 1
        self._columns[free] = lane
        return free

    def _may_go(self, lane: str) -> bool:
        return self._is_live and lane != ROOT_LANE and lane not in self._under_way

    def _leave(self, lane: str, column: int) -> None:
        if lane not in self._left:
            return
        self._left[lane] -= 1
        if not self._left[lane]:
            self._columns[column] = None
            self._under_way.discard(lane)


def gutters(events: Sequence[GutterEvent]) -> list[str]:
    """Of a stretch that is known; nothing where there is one lane only."""
    counts = _counted(_branch(event) for event in events)
    if len(counts) < 2:
        return [""] * len(events)
    gutter = Gutter(counts)
    return [gutter.row(event) for event in events]


def _branch(event: GutterEvent) -> str:
    return ROOT_LANE if is_root_lane(event.lane) else event.lane


def _counted(lanes: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for lane in lanes:
        found[lane] = found.get(lane, 0) + 1
    return found
