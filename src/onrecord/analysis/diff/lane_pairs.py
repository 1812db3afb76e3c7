"""Pair the lanes of two runs.

Equal labels in one parent are numbered as they are born, so tasks that began in another order have other numbers, and a
function that was renamed has another label. Siblings are paired in this order, and what is paired is out:

1. equal names and equal digests,
2. equal labels and equal digests,
3. equal names and first requests that match; then equal labels,
4. any labels, equal digests; then first requests that match,
5. equal names; then equal labels; then the rest in the order of their names, so that the differences can be named.

A lane without a partner was added or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from onrecord.analysis.diff.run_lanes import ROOT, RunLanes
from onrecord.core.lane_names import sibling_name


class LanePair(NamedTuple):
    a: str | None
    b: str | None
    alike: bool
    """True if both have the same prefix digest at their ends."""


_Key = Callable[[RunLanes, str], Hashable]


class _Siblings:
    """The children of two paired lanes, while they are being paired."""

    def __init__(self, a: RunLanes, b: RunLanes, lanes_a: list[str], lanes_b: list[str]) -> None:
        self.a, self.b = a, b
        self.left_a, self.left_b = sorted(lanes_a, key=sibling_name), sorted(lanes_b, key=sibling_name)
        self.pairs: list[tuple[str, str]] = []
        self._first_matches: dict[tuple[int, str], Hashable] = {}

    def pair(self) -> None:
        keys: tuple[_Key, ...] = (
            lambda run, lane: (_name(run, lane), run.folds[lane]),
            lambda run, lane: (_label(run, lane), run.folds[lane]),
            lambda run, lane: (_name(run, lane), self._first_match(run, lane)),
            lambda run, lane: (_label(run, lane), self._first_match(run, lane)),
            lambda run, lane: run.folds[lane],
            self._first_match,
            _name,
            _label,
            lambda _run, _lane: 0,
        )
        for key in keys:
            self.pair_by(key)

    def pair_by(self, key: _Key) -> None:
        """Pair lanes of equal keys, the lower number first; a key of None is never paired."""
        if not self.left_a or not self.left_b:
            return
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

    def _first_match(self, run: RunLanes, lane: str) -> Hashable:
        place = (id(run), lane)
        if place not in self._first_matches:
            self._first_matches[place] = run.first(lane).match
        return self._first_matches[place]


def _name(_run: RunLanes, lane: str) -> Hashable:
    return sibling_name(lane)


def _label(_run: RunLanes, lane: str) -> Hashable:
    return sibling_name(lane)[0]


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
        siblings = _Siblings(a, b, below_a, below_b)
        if one == ROOT:
            siblings.pair_by(_name)
        else:
            siblings.pair()
        todo.extend(siblings.pairs)
        found.extend(LanePair(lane, None, False) for removed in siblings.left_a for lane in a.below(removed))
        found.extend(LanePair(None, lane, False) for added in siblings.left_b for lane in b.below(added))
    return found
