"""Pair the lanes of two runs.

Lanes are numbered as they begin, so tasks that began in another order have other numbers. Pairing works in this order:

1. Lanes of the same number with equal digests are a pair; nothing more is read of them.
2. Other lanes are a pair if their first requests match: those of equal names first, then those with equal digests,
   then by number.
3. The rest is paired by name and then by number, so that the differences can be named. A lane without a partner was
   added or removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import NamedTuple

from onrecord.analysis.diff.run_lanes import ROOT, RunLanes

MOST_NAMED = 100
"""Most lanes whose names are read; beyond it the order decides."""


class LanePair(NamedTuple):
    a: str | None
    b: str | None
    alike: bool
    """True if both have the same prefix digest at their ends."""


class _Siblings:
    """The children of two paired lanes, while they are being paired."""

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
        """Pair lanes of equal keys, the lower number first; a key of None is never paired."""
        free: dict[Hashable, list[str]] = {}
        for lane in reversed(self.left_b):
            free.setdefault(key(self.b, lane), []).append(lane)
        free.pop(None, None)
        rest, taken = [], set()
        for lane in self.left_a:
            candidates = free.get(key(self.a, lane))
            if candidates:
                taken.add(candidates[-1])
                self.pairs.append((lane, candidates.pop()))
            else:
                rest.append(lane)
        self.left_a, self.left_b = rest, [lane for lane in self.left_b if lane not in taken]

    def pair_by_name(self, key: Callable[[RunLanes, str], Hashable] = lambda _run, _lane: 0) -> None:
        """Pair lanes of equal names and keys. Names are read only for lanes whose keys are ambiguous."""
        if not self.left_a or not self.left_b or len(self.left_a) + len(self.left_b) > MOST_NAMED:
            return
        alike_a, alike_b = (
            Counter(key(run, lane) for lane in left) for run, left in ((self.a, self.left_a), (self.b, self.left_b))
        )

        def name_in_group(run: RunLanes, lane: str) -> Hashable:
            group = key(run, lane)
            if not alike_a[group] or not alike_b[group] or alike_a[group] == alike_b[group] == 1:
                return None
            name = run.name(lane)
            return None if name is None else (name, group)

        self.pair_by(name_in_group)

    def pair_by_number(self) -> None:
        shared = min(len(self.left_a), len(self.left_b))
        self.pairs.extend(zip(self.left_a[:shared], self.left_b[:shared], strict=True))
        self.left_a, self.left_b = self.left_a[shared:], self.left_b[shared:]


def bind_lanes(a: RunLanes, b: RunLanes) -> list[LanePair]:
    """Return all lanes of both runs in pairs, parents before children; None for a missing partner."""
    found: list[LanePair] = []
    todo: list[tuple[str, str]] = [(ROOT, ROOT)]
    for one, other in todo:  # the loop reads the list while it grows
        if one != ROOT:
            found.append(LanePair(one, other, a.prefix(one) == b.prefix(other)))
        below_a, below_b = a.children.get(one, []), b.children.get(other, [])
        if a.folds[one] == b.folds[other]:
            todo.extend(zip(below_a, below_b, strict=True))
            continue
        siblings = _pair_siblings(a, b, below_a, below_b, same_number=one == ROOT)
        todo.extend(siblings.pairs)
        found.extend(LanePair(lane, None, False) for removed in siblings.left_a for lane in a.below(removed))
        found.extend(LanePair(None, lane, False) for added in siblings.left_b for lane in b.below(added))
    return found


def _pair_siblings(a: RunLanes, b: RunLanes, lanes_a: list[str], lanes_b: list[str], *, same_number: bool) -> _Siblings:
    siblings = _Siblings(a, b, list(lanes_a), list(lanes_b))
    if same_number:
        siblings.pair_by(lambda _, lane: lane)
        return siblings
    siblings.pair_in_place()
    first_matches: dict[tuple[int, str], Hashable] = {}

    def first_match(run: RunLanes, lane: str) -> Hashable:
        place = (id(run), lane)
        if place not in first_matches:
            first_matches[place] = run.first(lane).match
        return first_matches[place]

    if siblings.left_a and siblings.left_b:
        siblings.pair_by_name(first_match)
        siblings.pair_by(lambda run, lane: run.folds[lane])
        siblings.pair_by(first_match)
        siblings.pair_by_name()
    siblings.pair_by_number()
    return siblings
