"""The lanes of a run: their names, what each has counted, and which of them have ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onrecord.core.lane_names import child_lane, parent_lane, sibling_name


class LaneState:
    """State of one lane: its name, parent and counters."""

    __slots__ = (
        *("acts", "births", "children", "counts", "draws", "ended", "label", "name", "number", "parent"),
        "requests",
    )

    def __init__(self, name: str, parent: str | None = None, label: str = "", number: int = 0) -> None:
        self.name = name
        self.parent = parent
        self.label = label
        self.number = number
        """How many lanes the parent had started before."""
        self.births = 0
        self.children = 0
        """Lanes that it started and that are still known."""
        self.acts = 0
        """Without draws."""
        self.draws = 0
        """Since the last other act."""
        self.requests = 0
        self.counts: dict[Any, int] = {}
        self.ended = False

    def count(self, name: Any) -> int:
        """Return how often the lane did this before."""
        number = self.counts.get(name, 0)
        self.counts[name] = number + 1
        return number


class LaneTable:
    def __init__(self, root: str) -> None:
        self.root = root
        self.alive = 1
        """How many lanes have not ended."""
        self.states = {root: LaneState(root)}

    @property
    def names(self) -> list[str]:
        """The names of all lanes that are not forgotten."""
        return list(self.states)

    def find(self, name: str) -> LaneState | None:
        """Return the lane, unless it is forgotten."""
        return self.states.get(name)

    def living(self, name: str) -> LaneState:
        """Return the lane, or the nearest one above it that has not ended: callbacks may outlive their task."""
        lane = self.states.get(name)
        while lane is None or lane.ended:
            if name == self.root:
                return self.states[name]
            name = name.rpartition(">")[0] or self.root
            lane = self.states.get(name)
        return lane

    def add(self, parent: str, label: str) -> str:
        """Name a new lane."""
        above = self.living(parent)
        name = child_lane(above.name, label, above.count(("born", label)))
        self.states[name] = LaneState(name, above.name, label, above.births)
        above.births += 1
        above.children += 1
        self.alive += 1
        return name

    def rename(self, name: str, label: str) -> str:
        """Name a lane that has done nothing, if it is the last one that its parent started. Return its name."""
        lane = self.states.get(name)
        if lane is None or lane.parent is None or lane.acts or lane.births or lane.ended:
            return name
        if lane.counts or lane.requests:
            return name
        above = self.states[lane.parent]
        if lane.number != above.births - 1:
            return name  # others were started since
        above.counts["born", lane.label] -= 1
        del self.states[name]
        lane.name = child_lane(above.name, label, above.count(("born", label)))
        lane.label = label
        self.states[lane.name] = lane
        return lane.name

    def end(self, name: str) -> bool:
        """Forget a lane as soon as its children have ended too. Return False if it had ended before."""
        lane = self.states.get(name)
        if lane is None or lane.ended:
            return False
        lane.ended = True
        self.alive -= 1
        while lane.parent is not None and lane.ended and not lane.children:
            del self.states[lane.name]
            lane = self.states[lane.parent]
            lane.children -= 1
        return True

    def is_over(self, name: str) -> bool:
        """Return True for a lane that has ended, or is not started any more; False for one that is still to start."""
        lane = self.states.get(name)
        if lane is not None:
            return lane.ended
        parent, (_, ordinal) = parent_lane(name), sibling_name(name)
        above = self.states.get(parent or "")
        if above is None or above.ended:
            return parent is None or self.is_over(parent)
        births = [(key[1], count) for key, count in above.counts.items() if type(key) is tuple and key[0] == "born"]
        return any(ordinal < count and child_lane(above.name, label, ordinal) == name for label, count in births)

    def restart(self, root: str) -> None:
        """Continue as another root lane, with all counters at zero."""
        self.root = root
        self.states = {root: LaneState(root)}

    def above(self, name: str) -> Iterator[tuple[str, int]]:
        """Yield each lane above, with the number of lanes that it had started before the branch to this one."""
        lane = self.states[name]
        while lane.parent is not None:
            yield lane.parent, lane.number
            lane = self.states[lane.parent]
