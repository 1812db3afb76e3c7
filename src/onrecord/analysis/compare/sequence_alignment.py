"""Align two sequences of numbers: pair the equal items of both, in order. Pure, and never of quadratic cost.

1. Trim the equal items at both ends.
2. Items that occur once on each side are anchors. Keep the longest choice that ascends on both sides and align the
   stretches between anchors separately. If no item is unique, try windows of 2, 4, 8, … items.
3. Align short stretches exactly, with the fewest insertions and deletions (Myers).
4. Align long stretches without anchors in strides: take the path that gets furthest with a fixed number of changes,
   and begin the next stride where it ends.

Every step takes linear time, and each stretch is split a bounded number of times.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

SHORT = 64
"""Most items, on both sides together, of a stretch that is aligned exactly."""
STRIDE = 32
"""Most changes in one stride."""
MOST_SPLITS = 6
WIDEST_WINDOW = 32


class MatchingBlock(NamedTuple):
    """A block of equal items: `length` items from `expected` on in one sequence, from `actual` on in the other."""

    expected: int
    actual: int
    length: int


class _Stretch(NamedTuple):
    a: int
    end_a: int
    b: int
    end_b: int
    splits: int


def align(a: Sequence[int], b: Sequence[int]) -> list[MatchingBlock]:
    """Return the equal blocks of two sequences, ascending on both sides."""
    found: list[MatchingBlock] = []
    todo = [_Stretch(0, len(a), 0, len(b), 0)]
    while todo:
        stretch = _trim_equal_ends(a, b, todo.pop(), found)
        if stretch.a == stretch.end_a or stretch.b == stretch.end_b:
            continue
        if stretch.end_a - stretch.a + stretch.end_b - stretch.b <= SHORT:
            found.extend(_find_path(a, b, stretch, SHORT)[0])
            continue
        anchors = _find_anchors(a, b, stretch) if stretch.splits < MOST_SPLITS else []
        if anchors:
            found.extend(anchors)
            todo.extend(_gaps_between(anchors, stretch))
        else:
            found.extend(_align_in_strides(a, b, stretch))
    return _join_blocks(found)


def _trim_equal_ends(a: Sequence[int], b: Sequence[int], stretch: _Stretch, found: list[MatchingBlock]) -> _Stretch:
    start_a, end_a, start_b, end_b, splits = stretch
    while start_a < end_a and start_b < end_b and a[start_a] == b[start_b]:
        start_a += 1
        start_b += 1
    while start_a < end_a and start_b < end_b and a[end_a - 1] == b[end_b - 1]:
        end_a -= 1
        end_b -= 1
    if start_a > stretch.a:
        found.append(MatchingBlock(stretch.a, stretch.b, start_a - stretch.a))
    if end_a < stretch.end_a:
        found.append(MatchingBlock(end_a, end_b, stretch.end_a - end_a))
    return _Stretch(start_a, end_a, start_b, end_b, splits)


def _gaps_between(anchors: list[MatchingBlock], stretch: _Stretch) -> Iterable[_Stretch]:
    at_a, at_b = stretch.a, stretch.b
    for block in [*anchors, MatchingBlock(stretch.end_a, stretch.end_b, 0)]:
        if block.expected > at_a and block.actual > at_b:
            yield _Stretch(at_a, block.expected, at_b, block.actual, stretch.splits + 1)
        at_a, at_b = block.expected + block.length, block.actual + block.length


def _find_anchors(a: Sequence[int], b: Sequence[int], stretch: _Stretch) -> list[MatchingBlock]:
    """Return the narrowest windows that occur once on each side, ascending on both sides."""
    windows_a, windows_b = list(a[stretch.a : stretch.end_a]), list(b[stretch.b : stretch.end_b])
    width = 1
    while windows_a and windows_b:
        once_b = _find_unique(windows_b)
        pairs = [(at, once_b[window]) for window, at in _find_unique(windows_a).items() if window in once_b]
        if pairs:
            return _make_blocks(_longest_ascending(pairs), width, stretch)
        if width >= WIDEST_WINDOW:
            return []
        numbers: dict[tuple[int, int], int] = {}
        windows_a, windows_b = _double_windows(windows_a, width, numbers), _double_windows(windows_b, width, numbers)
        width *= 2
    return []


def _find_unique(windows: list[int]) -> dict[int, int]:
    """Return the windows that occur once, with their positions, in ascending order."""
    places: dict[int, int] = {}
    repeated: set[int] = set()
    for at, window in enumerate(windows):
        if window in places:
            repeated.add(window)
        else:
            places[window] = at
    for window in repeated:
        del places[window]
    return places


def _double_windows(windows: list[int], width: int, numbers: dict[tuple[int, int], int]) -> list[int]:
    """Return the windows of twice the width, each pair of neighbours with its own number."""
    return [numbers.setdefault(neighbours, len(numbers)) for neighbours in zip(windows, windows[width:], strict=False)]


def _longest_ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest choice of pairs that ascends on both sides. The pairs are sorted by the left side."""
    tails: list[int] = []
    last_of: list[int] = []
    before: list[int] = []
    for index, (_, right) in enumerate(pairs):
        place = len(tails) if not tails or right > tails[-1] else bisect_left(tails, right)
        before.append(last_of[place - 1] if place else -1)
        if place == len(tails):
            tails.append(right)
            last_of.append(index)
        else:
            tails[place], last_of[place] = right, index
    chosen = []
    index = last_of[-1]
    while index >= 0:
        chosen.append(pairs[index])
        index = before[index]
    return chosen[::-1]


def _make_blocks(pairs: list[tuple[int, int]], width: int, stretch: _Stretch) -> list[MatchingBlock]:
    """Turn windows into blocks. Windows may overlap; no item is used twice."""
    found: list[MatchingBlock] = []
    end_a = end_b = 0
    for left, right in pairs:
        overlap = max(end_a - left, end_b - right, 0)
        if overlap < width:
            found.append(MatchingBlock(stretch.a + left + overlap, stretch.b + right + overlap, width - overlap))
            end_a, end_b = left + width, right + width
    return _join_blocks(found)


def _align_in_strides(a: Sequence[int], b: Sequence[int], stretch: _Stretch) -> list[MatchingBlock]:
    """Align a long stretch without anchors, stride by stride. Items of one side only are left out."""
    common = set(a[stretch.a : stretch.end_a]).intersection(b[stretch.b : stretch.end_b])
    places_a = [at for at in range(stretch.a, stretch.end_a) if a[at] in common]
    places_b = [at for at in range(stretch.b, stretch.end_b) if b[at] in common]
    items_a, items_b = [a[at] for at in places_a], [b[at] for at in places_b]
    found: list[MatchingBlock] = []
    at_a = at_b = 0
    while at_a < len(items_a) and at_b < len(items_b):
        rest = _Stretch(at_a, len(items_a), at_b, len(items_b), 0)
        blocks, (at_a, at_b) = _find_path(items_a, items_b, rest, STRIDE)
        for block in blocks:
            found.extend(
                MatchingBlock(places_a[block.expected + n], places_b[block.actual + n], 1) for n in range(block.length)
            )
    return found


def _find_path(
    a: Sequence[int], b: Sequence[int], stretch: _Stretch, most: int
) -> tuple[list[MatchingBlock], tuple[int, int]]:
    """Return the path with the fewest changes (insertions and deletions) and its end.

    It ends at the end of the stretch or, after `most` changes, as far as they reach. `reached[k]` is the furthest
    position in `a` on diagonal k (left minus right) with the changes made so far.
    """
    start_a, end_a, start_b, end_b, _ = stretch
    length_a, length_b = end_a - start_a, end_b - start_b
    reached = {1: 0}
    history: list[dict[int, int]] = []
    for changes in range(most + 1):
        history.append(dict(reached))
        for diagonal in range(-changes, changes + 1, 2):
            left = _step(reached, diagonal, changes)
            right = left - diagonal
            while left < length_a and right < length_b and a[start_a + left] == b[start_b + right]:
                left += 1
                right += 1
            reached[diagonal] = left
            if left >= length_a and right >= length_b:
                return _trace_back(history, diagonal, left, stretch), (end_a, end_b)
    inside = [
        (left + left - diagonal, diagonal)
        for diagonal, left in reached.items()
        if left <= length_a and left - diagonal <= length_b and (diagonal - most) % 2 == 0
    ]
    if not inside:
        return [], (end_a, end_b)
    total, diagonal = max(inside)
    left = (total + diagonal) // 2
    return _trace_back(history, diagonal, left, stretch), (start_a + left, start_b + left - diagonal)


def _step(reached: dict[int, int], diagonal: int, changes: int) -> int:
    """Return where a path enters a diagonal: from the one above by a step in `b`, or from below by a step in `a`."""
    if diagonal == -changes or (diagonal != changes and reached[diagonal - 1] < reached[diagonal + 1]):
        return reached[diagonal + 1]
    return reached[diagonal - 1] + 1


def _trace_back(history: list[dict[int, int]], diagonal: int, left: int, stretch: _Stretch) -> list[MatchingBlock]:
    found: list[MatchingBlock] = []
    for changes in range(len(history) - 1, -1, -1):
        reached = history[changes]
        entered = _step(reached, diagonal, changes) if changes else 0
        if left > entered:
            found.append(MatchingBlock(stretch.a + entered, stretch.b + entered - diagonal, left - entered))
        if not changes:
            break
        from_above = diagonal == -changes or (diagonal != changes and reached[diagonal - 1] < reached[diagonal + 1])
        diagonal += 1 if from_above else -1
        left = reached[diagonal]
    return found[::-1]


def _join_blocks(blocks: list[MatchingBlock]) -> list[MatchingBlock]:
    """Return the blocks in order, with neighbours on the same diagonal joined."""
    found: list[MatchingBlock] = []
    end_a = end_b = -1
    for block in sorted(blocks):
        a, b, length = block
        if a == end_a and b == end_b:
            last = found[-1]
            found[-1] = MatchingBlock(last.expected, last.actual, last.length + length)
        else:
            found.append(block)
        end_a, end_b = a + length, b + length
    return found


def pair_best(scores: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Return the pairs of rows and columns, ascending on both sides, with the highest total score. Zero never pairs."""
    height, width = len(scores), len(scores[0]) if scores else 0
    best = [[0.0] * (width + 1) for _ in range(height + 1)]  # the best total from row i and column j on
    for i in reversed(range(height)):
        for j in reversed(range(width)):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], scores[i][j] + best[i + 1][j + 1])
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < height and j < width:
        if scores[i][j] and best[i][j] == scores[i][j] + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


class Hunk(NamedTuple):
    """Ranges between two common stretches that only the expected or only the actual side has."""

    start: int
    stop: int
    other_start: int
    other_stop: int


def find_hunks(blocks: Sequence[MatchingBlock], length: int, other_length: int) -> list[Hunk]:
    """Return the non-empty hunks before, between and after the blocks."""
    found: list[Hunk] = []
    i = j = 0
    for block in [*blocks, MatchingBlock(length, other_length, 0)]:
        if block.expected > i or block.actual > j:
            found.append(Hunk(i, block.expected, j, block.actual))
        i, j = block.expected + block.length, block.actual + block.length
    return found
