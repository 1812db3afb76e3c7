"""Aligning two sequences of numbers: which stretches are common, in order. Cost stays linear for any input.

1. What both begin and end with is common.
2. Numbers that stand exactly once on each side are anchors; where they are few, so are short stretches that stand
   once on each side, and where there are none, numbers that stand equally often and seldom. The longest ascending
   choice of anchors splits the rest into gaps, which are aligned in the same way.
3. A gap that is small, or has no anchors, is aligned by the shortest edit script (Myers' greedy search), within a
   budget proportional to its length. What cannot match because the other side lacks it is left out first.
4. A gap whose budget is used up is told as replaced. The result is then still true, only not the shortest.

Gaps are split a bounded number of times, so every number is looked at a bounded number of times.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

SMALL_GAP = 64  # numbers on both sides together: searched at once, without looking for anchors
SELDOM = 8
MAX_SPLITS = 6
SPARSE = 64  # with fewer anchors than one in so many numbers, windows are looked for too
WINDOW = 8
SAMPLING = 8
BUDGET_PER_NUMBER = 4
_STRIDE = 512


class Block(NamedTuple):
    """`length` numbers from `expected` on equal those from `actual` on."""

    expected: int
    actual: int
    length: int


class _Gap(NamedTuple):
    """Half-open ranges of both sides that are still to be aligned."""

    start: int
    stop: int
    other_start: int
    other_stop: int
    splits: int


Pairs = list[tuple[int, int]]


def aligned(expected: Sequence[int], actual: Sequence[int]) -> list[Block]:
    """The common stretches, ascending on both sides, neighbours joined."""
    left, right = list(expected), list(actual)
    blocks: list[Block] = []
    todo = [_Gap(0, len(left), 0, len(right), 0)]
    while todo:
        gap = _stripped(left, right, todo.pop(), blocks)
        lengths = (gap.stop - gap.start, gap.other_stop - gap.other_start)
        if not all(lengths):
            continue
        anchors: Pairs = []
        if sum(lengths) > SMALL_GAP and gap.splits < MAX_SPLITS:
            anchors = _anchors(left, right, gap)
        if anchors:
            _split(left, right, gap, anchors, blocks, todo)
        else:
            blocks += _searched(left, right, gap)
    return _joined(blocks)


def _stripped(left: list[int], right: list[int], gap: _Gap, blocks: list[Block]) -> _Gap:
    start, stop, other_start, other_stop, splits = gap
    length = _common_start(left, right, start, other_start, min(stop - start, other_stop - other_start))
    if length:
        blocks.append(Block(start, other_start, length))
        start, other_start = start + length, other_start + length
    length = 0
    most = min(stop - start, other_stop - other_start)
    while length < most and left[stop - length - 1] == right[other_stop - length - 1]:
        length += 1
    if length:
        blocks.append(Block(stop - length, other_stop - length, length))
    return _Gap(start, stop - length, other_start, other_stop - length, splits)


def _common_start(left: list[int], right: list[int], i: int, j: int, most: int) -> int:
    length = 0
    while (
        length + _STRIDE <= most and left[i + length : i + length + _STRIDE] == right[j + length : j + length + _STRIDE]
    ):
        length += _STRIDE
    while length < most and left[i + length] == right[j + length]:
        length += 1
    return length


def _anchors(left: list[int], right: list[int], gap: _Gap) -> Pairs:
    here, there = left[gap.start : gap.stop], right[gap.other_start : gap.other_stop]
    pairs = _single_pairs(here, there, most=1)
    if len(pairs) * SPARSE < len(here):
        pairs += _window_pairs(here, there)
    if not pairs:
        pairs = _single_pairs(here, there, most=SELDOM)
    return [(gap.start + i, gap.other_start + j) for i, j in _ascending(sorted(pairs))]


def _single_pairs(here: list[int], there: list[int], most: int) -> Pairs:
    """What stands equally often on both sides and at most so often: the k-th here goes with the k-th there."""
    counts, other_counts = Counter(here), Counter(there)
    chosen = {number for number, count in counts.items() if count <= most and other_counts.get(number) == count}
    if not chosen:
        return []
    places: dict[int, list[int]] = {}
    for j in range(len(there) - 1, -1, -1):
        if there[j] in chosen:
            places.setdefault(there[j], []).append(j)
    return [(i, places[number].pop()) for i, number in enumerate(here) if number in chosen]


def _window_pairs(here: list[int], there: list[int]) -> Pairs:
    """Windows of numbers that stand once on each side: in a long text hardly a word is unique, but phrases are.

    Of all windows only those are looked at whose hash says so, which is the same choice on both sides.
    """
    windows, other_windows = _sampled(here), _sampled(there)
    return [
        (i, j)
        for window, i in windows.items()
        if i >= 0 and (j := other_windows.get(window, -1)) >= 0 and here[i : i + WINDOW] == there[j : j + WINDOW]
    ]


def _sampled(numbers: list[int]) -> dict[int, int]:
    """Where each of the chosen windows stands; -1 when it stands more than once."""
    places: dict[int, int] = {}
    for i, window in enumerate(map(hash, zip(*(numbers[k:] for k in range(WINDOW)), strict=False))):
        if window % SAMPLING == 0:
            places[window] = -1 if window in places else i
    return places


def _ascending(pairs: Pairs) -> Pairs:
    """The longest choice that ascends on the other side too (they ascend on this one)."""
    if all(pairs[n][1] < pairs[n + 1][1] for n in range(len(pairs) - 1)):
        return pairs
    ends: list[int] = []
    chosen: list[int] = []  # for each length, the pair that ends the choice with the lowest end
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before.append(chosen[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        chosen[length : length + 1] = [number]
    found: Pairs = []
    number = chosen[-1]
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


def _split(left: list[int], right: list[int], gap: _Gap, anchors: Pairs, blocks: list[Block], todo: list[_Gap]) -> None:
    """The anchors, grown to both sides, become blocks; what lies between them becomes gaps."""
    i, j = gap.start, gap.other_start
    for at, other_at in anchors:
        if at < i or other_at < j:
            continue  # the anchor before has grown over this one
        length = _common_start(left, right, at, other_at, min(gap.stop - at, gap.other_stop - other_at))
        start, other_start = at, other_at
        while start > i and other_start > j and left[start - 1] == right[other_start - 1]:
            start, other_start = start - 1, other_start - 1
        blocks.append(Block(start, other_start, at + length - start))
        if start > i and other_start > j:
            todo.append(_Gap(i, start, j, other_start, gap.splits + 1))
        i, j = at + length, other_at + length
    if i < gap.stop and j < gap.other_stop:
        todo.append(_Gap(i, gap.stop, j, gap.other_stop, gap.splits + 1))


def _searched(left: list[int], right: list[int], gap: _Gap) -> list[Block]:
    """The common stretches of a gap by the shortest edit script; none when that costs too much."""
    here, there = left[gap.start : gap.stop], right[gap.other_start : gap.other_stop]
    known, other_known = set(there), set(here)
    kept = [i for i, number in enumerate(here, gap.start) if number in known]
    other_kept = [j for j, number in enumerate(there, gap.other_start) if number in other_known]
    if not kept:
        return []
    size = len(here) + len(there)
    budget = size * (4 * size if size <= SMALL_GAP else BUDGET_PER_NUMBER) + 1000
    blocks: list[Block] = []
    start = other_start = length = 0
    for x, y in _shortest([left[i] for i in kept], [right[j] for j in other_kept], budget):
        i, j = kept[x], other_kept[y]
        if length and i == start + length and j == other_start + length:
            length += 1
            continue
        if length:
            blocks.append(Block(start, other_start, length))
        start, other_start, length = i, j, 1
    return [*blocks, Block(start, other_start, length)] if length else []


def _shortest(left: list[int], right: list[int], budget: int) -> Pairs:
    """Myers' greedy search: `reach[d]` holds, for the diagonals -d, -d+2 … d, how far d edits lead on this side."""
    n, m = len(left), len(right)
    reach: list[list[int]] = []
    previous: list[int] = []
    for edits in range(n + m + 1):
        current: list[int] = []
        for position in range(edits + 1):
            x = start = _stepped(previous, position, edits)
            y = x - 2 * position + edits
            while x < n and y < m and left[x] == right[y]:
                x += 1
                y += 1
            budget -= x - start
            current.append(x)
            if x >= n and y >= m:
                return _walked_back([*reach, current], n - m)
        budget -= 4 * edits
        if budget < 0:
            return []
        reach.append(current)
        previous = current
    raise AssertionError("n + m edits always lead to the end")


def _stepped(previous: list[int], position: int, edits: int) -> int:
    """Where the next edit leads: an addition from the diagonal above or a removal from the one below."""
    if not edits:
        return 0
    if position == 0 or (position != edits and previous[position - 1] < previous[position]):
        return previous[position]
    return previous[position - 1] + 1


def _walked_back(reach: list[list[int]], diagonal: int) -> Pairs:
    pairs: Pairs = []
    for edits in range(len(reach) - 1, -1, -1):
        position = (diagonal + edits) // 2
        before = reach[edits - 1] if edits else []
        start = _stepped(before, position, edits)
        pairs += [(x, x - diagonal) for x in range(reach[edits][position] - 1, start - 1, -1)]
        if edits:
            added = position == 0 or (position != edits and before[position - 1] < before[position])
            diagonal += 1 if added else -1
    return pairs[::-1]


def _joined(blocks: list[Block]) -> list[Block]:
    joined: list[Block] = []
    for block in sorted(blocks):
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.expected + last.length == block.expected
            and last.actual + last.length == block.actual
        ):
            joined[-1] = Block(last.expected, last.actual, last.length + block.length)
        else:
            joined.append(block)
    return joined


class Hunk(NamedTuple):
    """Between two common stretches: what only the expected side has, and what only the actual side has."""

    start: int
    stop: int
    other_start: int
    other_stop: int


def hunks_of(blocks: Sequence[Block], length: int, other_length: int) -> list[Hunk]:
    """What lies between the blocks, before the first and after the last; only where something lies."""
    found: list[Hunk] = []
    i = j = 0
    for block in [*blocks, Block(length, other_length, 0)]:
        if block.expected > i or block.actual > j:
            found.append(Hunk(i, block.expected, j, block.actual))
        i, j = block.expected + block.length, block.actual + block.length
    return found
