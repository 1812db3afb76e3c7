"""Lanes: the concurrent branches of an agent, found again when the run comes back.

1. A lane is a task, a job of an executor, or a thread of the agent. It gets its number among its siblings with the
   first request in it or below it: a branch that asks for nothing leaves no trace.
2. When a run comes back, a lane is bound to the recorded sibling whose first request was the same. A name given by the
   program goes first; among equals the lower number goes first.
3. Among equals a binding stays open: when a later request does not fit, it is exchanged with that of a sibling that
   has asked and been answered the same so far.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakValueDictionary

from reenact.core.canonical import canonical_bytes
from reenact.core.codec import encode
from reenact.core.hashing import value_digest
from reenact.effect.past import Past, RecordedLane, RecordedRequest

if TYPE_CHECKING:
    from reenact.effect.live_run import LiveRun


_GIVEN_BY_ASYNCIO = re.compile(r"Task-\d+\Z")


class Lane:
    __slots__ = (
        *("__weakref__", "_label", "_name", "_origin", "birth", "born", "made", "ordinals"),
        *("parent", "path", "recorded", "run", "task"),
    )

    def __init__(self, run: LiveRun, parent: Lane | None, name: str | None = None, origin: Any = None) -> None:
        self._origin = origin
        self._label: str | None = None
        self.run = run
        self.parent = parent
        self._name = name
        self.task: ReferenceType[Any] | None = None
        """The task that is this lane, if it is one."""
        self.path: str | None = "0" if parent is None else None
        """None until its first request."""
        self.born = 0
        """How many lanes began in this one."""
        self.birth: str = "0"
        if parent is not None:
            parent.born += 1
            self.birth = f"{parent.birth}:{parent.born}"
        self.ordinals: dict[str, int] = {}
        self.recorded: RecordedLane | None = None
        self.made: list[RecordedRequest] = []
        """Recorded requests that were made again, where there are siblings to be told apart from."""

    @property
    def name(self) -> str | None:
        """The name that the program gave its task: before Python 3.13 it does so when the task is there already."""
        task = self.task() if self.task is not None else None
        name = self._name or (task.get_name() if task is not None else None)
        return None if name is None or _GIVEN_BY_ASYNCIO.match(name) else name

    def next_ordinal(self, what: str) -> int:
        ordinal = self.ordinals.get(what, 0)
        self.ordinals[what] = ordinal + 1
        return ordinal

    @property
    def identity(self) -> str:
        """How a turn names the lane: by number, or, as long as it has none, by birth and by what it was begun with.

        Tasks that are made from a set are born in another order every time; then the second tells them apart.
        """
        return self.path or f":{self.birth}={self.label}"

    @property
    def label(self) -> str:
        if self._label is None:
            written = canonical_bytes(encode(self._origin).tree) if self._origin is not None else b""
            self._label = value_digest(written).hex()[:16]
        return self._label


class LaneBook:
    """All lanes of one run: numbering new ones, finding recorded ones."""

    def __init__(self, past: Past | None) -> None:
        self._past = past
        self._numbers: dict[str, int] = {}
        self._by_birth: WeakValueDictionary[str, Lane] = WeakValueDictionary()

    def born(self, lane: Lane) -> None:
        if self._past is not None:
            self._by_birth[lane.birth] = lane

    def find(self, identity: str) -> Lane | None:
        if identity.startswith(":"):
            return self._by_birth.get(identity[1:].partition("=")[0])
        recorded = self._past.lanes.get(identity) if self._past is not None else None
        bound: Lane | None = recorded.bound if recorded is not None else None
        return bound

    def number(self, lane: Lane) -> str:
        """The lane's path; it gets one now if it has none."""
        if lane.path is None:
            assert lane.parent is not None
            above = self.number(lane.parent)
            taken = len(self._past.children(above)) if self._past is not None else 0
            number = self._numbers.get(above, taken) + 1
            self._numbers[above] = number
            lane.path = f"{above}.{number}"
        return lane.path

    def bind(self, lane: Lane, match: bytes, key: str | None) -> bool:
        """Finds the recorded lane of an unbound one, whose first request has this digest (and explicit key)."""
        if self._past is None:
            return False
        chain = [lane]
        while chain[-1].recorded is None:
            parent = chain[-1].parent
            if parent is None:
                return False
            chain.append(parent)
        bound = chain.pop()
        assert bound.path is not None
        depth = bound.path.count(".") + len(chain)
        candidates = [
            candidate for candidate in self._past.unbound(bound.path, match) if _begins_with(candidate, key, depth)
        ]
        if not candidates:
            return False
        chosen = next((one for one in candidates if lane.name and self._name(one) == lane.name), candidates[0])
        assert chosen.first is not None
        steps = chosen.first.lane.split(".")
        for offset, unbound in enumerate(reversed(chain), start=bound.path.count(".") + 2):
            self._tie(unbound, self._past.lane(".".join(steps[:offset])))
        return True

    def _tie(self, lane: Lane, recorded: RecordedLane) -> None:
        lane.recorded, lane.path, recorded.bound = recorded, recorded.path, lane

    def tie_root(self, lane: Lane) -> None:
        if self._past is not None:
            self._tie(lane, self._past.lanes["0"])

    def _name(self, recorded: RecordedLane) -> str | None:
        """The name that the program gave the recorded lane."""
        first = recorded.first
        if self._past is None or first is None or first.kind != "ActionRequested":
            return None  # only requests carry it
        meta = self._past.members(first.row).get("meta")
        return meta.get("lane") if isinstance(meta, dict) else None

    def exchange(self, lane: Lane, match: bytes) -> RecordedRequest | None:
        """The next request does not fit the lane's record; perhaps it fits that of an equal sibling."""
        if self._past is None or lane.recorded is None or lane.path is None or lane.path == "0":
            return None
        made = len(lane.made)
        for other in self._past.children(lane.path.rpartition(".")[0]):
            holder: Lane | None = other.bound
            if holder is None or holder is lane or len(other.requests) <= made or len(holder.made) < made:
                continue
            request = other.requests[made]
            if request.match == match and not request.made and _alike(other, lane.recorded, made):
                mine = lane.recorded
                self._tie(lane, other)
                self._tie(holder, mine)
                lane.made, holder.made = holder.made, lane.made
                return request
        return None


def _begins_with(candidate: RecordedLane, key: str | None, depth: int) -> bool:
    first = candidate.first
    if first is None or first.lane.count(".") != depth:
        return False
    return key is None or first.key == key


def _alike(one: RecordedLane, other: RecordedLane, length: int) -> bool:
    """Their first `length` requests were the same and were answered the same."""
    for left, right in zip(one.requests[:length], other.requests[:length], strict=True):
        if left.match != right.match:
            return False
        if left.answer is None or right.answer is None:
            if left.answer is not right.answer:
                return False
        elif left.answer.row.match != right.answer.row.match:
            return False
    return True
