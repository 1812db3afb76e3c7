"""Aligning two sequences of numbers: which items of one are which of the other. Pure, and never of quadratic cost.

1. What is equal at both ends is taken off.
2. Items that occur once on each side are anchors; the longest run of them that ascends on both sides is kept, and what
   lies between two anchors is aligned by itself. Where nothing is unique, pairs, fours, eights, … of items are tried.
3. What is short is aligned exactly, by the fewest insertions and deletions (Myers).
4. What is long and without anchors is gone through in strides: the path that gets furthest with a fixed number of
   changes is taken, and the next stride begins where it ends.

Every step costs time in proportion to the length, and each stretch is split a fixed number of times.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

SHORT = 64
"""Items on both sides together up to which a stretch is aligned exactly."""
STRIDE = 32
"""Changes after which a path is taken as it is."""
MOST_SPLITS = 6
WIDEST_WINDOW = 32


class Block(NamedTuple):
    """`length` items from `a` on in one sequence are those from `b` on in the other."""

    a: int
    b: int
    length: int


class _Stretch(NamedTuple):
    a: int
    end_a: int
    b: int
    end_b: int
    splits: int


def align(a: Sequence[int], b: Sequence[int]) -> list[Block]:
    """Equal stretches of the two, ascending on both sides."""
    found: list[Block] = []
    todo = [_Stretch(0, len(a), 0, len(b), 0)]
    while todo:
        stretch = _trimmed(a, b, todo.pop(), found)
        if stretch.a == stretch.end_a or stretch.b == stretch.end_b:
            continue
        if stretch.end_a - stretch.a + stretch.end_b - stretch.b <= SHORT:
            found.extend(_path(a, b, stretch, SHORT)[0])
            continue
        anchors = _anchors(a, b, stretch) if stretch.splits < MOST_SPLITS else []
        if anchors:
            found.extend(anchors)
            todo.extend(_between(anchors, stretch))
        else:
            found.extend(_strides(a, b, stretch))
    return _joined(found)


def _trimmed(a: Sequence[int], b: Sequence[int], stretch: _Stretch, found: list[Block]) -> _Stretch:
    start_a, end_a, start_b, end_b, splits = stretch
    while start_a < end_a and start_b < end_b and a[start_a] == b[start_b]:
        start_a += 1
        start_b += 1
    while start_a < end_a and start_b < end_b and a[end_a - 1] == b[end_b - 1]:
        end_a -= 1
        end_b -= 1
    if start_a > stretch.a:
        found.append(Block(stretch.a, stretch.b, start_a - stretch.a))
    if end_a < stretch.end_a:
        found.append(Block(end_a, end_b, stretch.end_a - end_a))
    return _Stretch(start_a, end_a, start_b, end_b, splits)


def _between(anchors: list[Block], stretch: _Stretch) -> Iterable[_Stretch]:
    at_a, at_b = stretch.a, stretch.b
    for block in [*anchors, Block(stretch.end_a, stretch.end_b, 0)]:
        if block.a > at_a and block.b > at_b:
            yield _Stretch(at_a, block.a, at_b, block.b, stretch.splits + 1)
        at_a, at_b = block.a + block.length, block.b + block.length


def _anchors(a: Sequence[int], b: Sequence[int], stretch: _Stretch) -> list[Block]:
    """Windows that occur once on each side, the narrowest there are, in an order that ascends on both sides."""
    windows_a, windows_b = list(a[stretch.a : stretch.end_a]), list(b[stretch.b : stretch.end_b])
    width = 1
    while windows_a and windows_b:
        once_b = _once(windows_b)
        pairs = [(at, once_b[window]) for window, at in _once(windows_a).items() if window in once_b]
        if pairs:
            return _blocks(_ascending(pairs), width, stretch)
        if width >= WIDEST_WINDOW:
            return []
        numbers: dict[tuple[int, int], int] = {}
        windows_a, windows_b = _doubled(windows_a, width, numbers), _doubled(windows_b, width, numbers)
        width *= 2
    return []


def _once(windows: list[int]) -> dict[int, int]:
    """Windows that occur once → where; in ascending order."""
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


def _doubled(windows: list[int], width: int, numbers: dict[tuple[int, int], int]) -> list[int]:
    """Windows of twice the width, each two neighbours under a number of their own."""
    return [numbers.setdefault(neighbours, len(numbers)) for neighbours in zip(windows, windows[width:], strict=False)]


def _ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest selection of pairs, ascending on the left as they come, that ascends on the right as well."""
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


def _blocks(pairs: list[tuple[int, int]], width: int, stretch: _Stretch) -> list[Block]:
    """Windows may overlap; no item is taken twice."""
    found: list[Block] = []
    end_a = end_b = 0
    for left, right in pairs:
        overlap = max(end_a - left, end_b - right, 0)
        if overlap < width:
            found.append(Block(stretch.a + left + overlap, stretch.b + right + overlap, width - overlap))
            end_a, end_b = left + width, right + width
    return _joined(found)


def _strides(a: Sequence[int], b: Sequence[int], stretch: _Stretch) -> list[Block]:
    """A way through a long stretch without anchors. What occurs on one side only cannot be in its way."""
    common = set(a[stretch.a : stretch.end_a]).intersection(b[stretch.b : stretch.end_b])
    places_a = [at for at in range(stretch.a, stretch.end_a) if a[at] in common]
    places_b = [at for at in range(stretch.b, stretch.end_b) if b[at] in common]
    items_a, items_b = [a[at] for at in places_a], [b[at] for at in places_b]
    found: list[Block] = []
    at_a = at_b = 0
    while at_a < len(items_a) and at_b < len(items_b):
        rest = _Stretch(at_a, len(items_a), at_b, len(items_b), 0)
        blocks, (at_a, at_b) = _path(items_a, items_b, rest, STRIDE)
        for block in blocks:
            found.extend(Block(places_a[block.a + n], places_b[block.b + n], 1) for n in range(block.length))
    return found


def _path(a: Sequence[int], b: Sequence[int], stretch: _Stretch, most: int) -> tuple[list[Block], tuple[int, int]]:
    """The path with the fewest insertions and deletions, and where it ends: at the end of the stretch or, with `most`
    of them, as far as one gets.

    `reached[k]` is how far one gets in `a` on diagonal k (left minus right) with as many changes as were allowed.
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
                return _walked_back(history, diagonal, left, stretch), (end_a, end_b)
    inside = [
        (left + left - diagonal, diagonal)
        for diagonal, left in reached.items()
        if left <= length_a and left - diagonal <= length_b and (diagonal - most) % 2 == 0
    ]
    if not inside:
        return [], (end_a, end_b)
    total, diagonal = max(inside)
    left = (total + diagonal) // 2
    return _walked_back(history, diagonal, left, stretch), (start_a + left, start_b + left - diagonal)


def _step(reached: dict[int, int], diagonal: int, changes: int) -> int:
    """Where a diagonal is entered: from the one above by a step in `b`, or from the one below by a step in `a`."""
    if diagonal == -changes or (diagonal != changes and reached[diagonal - 1] < reached[diagonal + 1]):
        return reached[diagonal + 1]
    return reached[diagonal - 1] + 1


def _walked_back(history: list[dict[int, int]], diagonal: int, left: int, stretch: _Stretch) -> list[Block]:
    found: list[Block] = []
    for changes in range(len(history) - 1, -1, -1):
        reached = history[changes]
        entered = _step(reached, diagonal, changes) if changes else 0
        if left > entered:
            found.append(Block(stretch.a + entered, stretch.b + entered - diagonal, left - entered))
        if not changes:
            break
        came_down = diagonal == -changes or (diagonal != changes and reached[diagonal - 1] < reached[diagonal + 1])
        diagonal += 1 if came_down else -1
        left = reached[diagonal]
    return found[::-1]


def _joined(blocks: list[Block]) -> list[Block]:
    """In order, neighbours on one diagonal as one."""
    found: list[Block] = []
    end_a = end_b = -1
    for block in sorted(blocks):
        a, b, length = block
        if a == end_a and b == end_b:
            last = found[-1]
            found[-1] = Block(last.a, last.b, last.length + length)
        else:
            found.append(block)
        end_a, end_b = a + length, b + length
    return found
