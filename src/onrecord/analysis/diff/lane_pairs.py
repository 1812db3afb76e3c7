"""Which lane of one run is which lane of the other.

Lanes are numbered as they begin, so tasks that began in another order have other numbers. They are told apart as a
run that comes back tells them apart (`effect.lanes`):

1. Lanes of the same number that did the same are the same lane; nothing more is read of them.
2. Others belong together when their first request was the same: those of one name first, then those that did the
   same, then by number.
3. What is left is paired by name and then by number, to be able to say what differs. A lane without a counterpart is
   added or removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import NamedTuple

from reenact.replays.divergence.run_lanes import ROOT, RunLanes

MOST_NAMED = 100
"""Of more lanes that began alike, the names are not read: their order decides."""


class LanePair(NamedTuple):
    a: str | None
    b: str | None
    alike: bool
    """The two have equal prefix digests to their ends."""


class _Siblings:
    """Children of two lanes that belong together, while they are being paired."""

    def __init__(self, a: RunLanes, b: RunLanes, lanes_a: list[str], lanes_b: list[str]) -> None:
        self.a, self.b = a, b
        self.left_a, self.left_b = lanes_a, lanes_b
        self.pairs: list[tuple[str, str]] = []

    def pair_in_place(self) -> None:
        for one, other in zip(list(self.left_a), list(self.left_b), strict=False):
            if self.a.folds[one] == self.b.folds[other]:
                self.pairs.append((one, other))
        taken_a, taken_b = {one for one, _ in self.pairs}, {other for _, other in self.pairs}
        self.left_a = [lane for lane in self.left_a if lane not in taken_a]
        self.left_b = [lane for lane in self.left_b if lane not in taken_b]

    def pair_by(self, key: Callable[[RunLanes, str], Hashable]) -> None:
        """Pairs lanes of equal keys, the lower number first; a key of None belongs to nobody."""
        waiting: dict[Hashable, list[str]] = {}
        for lane in reversed(self.left_b):
            waiting.setdefault(key(self.b, lane), []).append(lane)
        waiting.pop(None, None)
        rest, taken = [], set()
        for lane in self.left_a:
            candidates = waiting.get(key(self.a, lane))
            if candidates:
                taken.add(candidates[-1])
                self.pairs.append((lane, candidates.pop()))
            else:
                rest.append(lane)
        self.left_a, self.left_b = rest, [lane for lane in self.left_b if lane not in taken]

    def pair_by_name(self, key: Callable[[RunLanes, str], Hashable] = lambda _run, _lane: 0) -> None:
        """Names are read only of lanes that their keys do not tell apart."""
        if not self.left_a or not self.left_b or len(self.left_a) + len(self.left_b) > MOST_NAMED:
            return
        alike_a, alike_b = (
            Counter(key(run, lane) for lane in left) for run, left in ((self.a, self.left_a), (self.b, self.left_b))
        )

        def named(run: RunLanes, lane: str) -> Hashable:
            group = key(run, lane)
            if not alike_a[group] or not alike_b[group] or alike_a[group] == alike_b[group] == 1:
                return None
            name = run.name(lane)
            return None if name is None else (name, group)

        self.pair_by(named)

    def pair_by_number(self) -> None:
        shared = min(len(self.left_a), len(self.left_b))
        self.pairs.extend(zip(self.left_a[:shared], self.left_b[:shared], strict=True))
        self.left_a, self.left_b = self.left_a[shared:], self.left_b[shared:]


def bind_lanes(a: RunLanes, b: RunLanes) -> list[LanePair]:
    """All lanes of both runs in pairs, those above before those below; None where a lane has no counterpart."""
    found: list[LanePair] = []
    todo: list[tuple[str, str]] = [(ROOT, ROOT)]
    for one, other in todo:  # grows while it is gone through
        if one != ROOT:
            found.append(LanePair(one, other, a.prefix(one) == b.prefix(other)))
        below_a, below_b = a.children.get(one, []), b.children.get(other, [])
        if a.folds[one] == b.folds[other]:
            todo.extend(zip(below_a, below_b, strict=True))
            continue
        siblings = _paired(a, b, below_a, below_b, same_number=one == ROOT)
        todo.extend(siblings.pairs)
        found.extend(LanePair(lane, None, False) for gone in siblings.left_a for lane in a.below(gone))
        found.extend(LanePair(None, lane, False) for came in siblings.left_b for lane in b.below(came))
    return found


def _paired(a: RunLanes, b: RunLanes, lanes_a: list[str], lanes_b: list[str], *, same_number: bool) -> _Siblings:
    siblings = _Siblings(a, b, list(lanes_a), list(lanes_b))
    if same_number:
        siblings.pair_by(lambda _, lane: lane)
        return siblings
    siblings.pair_in_place()
    beginnings: dict[tuple[int, str], Hashable] = {}

    def began(run: RunLanes, lane: str) -> Hashable:
        place = (id(run), lane)
        if place not in beginnings:
            beginnings[place] = run.first(lane).match
        return beginnings[place]

    if siblings.left_a and siblings.left_b:
        siblings.pair_by_name(began)
        siblings.pair_by(lambda run, lane: run.folds[lane])
        siblings.pair_by(began)
        siblings.pair_by_name()
    siblings.pair_by_number()
    return siblings
