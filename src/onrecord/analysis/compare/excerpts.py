"""Where two texts part, and a little of what is around: however long they are, little of them is compared by words."""

from __future__ import annotations

from typing import NamedTuple

from reenact.replays.comparing.texts import TextDiff, diff_texts

AROUND = 120
"""Characters of what is the same that are kept on each side."""
COMPARED = 4000
"""Characters from there on that are compared by words."""


class Excerpt(NamedTuple):
    diff: TextDiff
    before: int
    """Characters that both begin with, and that are left out."""
    after: int
    """The same at their ends."""
    goes_on: bool
    """There is more behind it that differs."""


def excerpt(expected: str, actual: str) -> Excerpt:
    """All differences of two texts if they stand close to each other, otherwise the first ones."""
    most = min(len(expected), len(actual))
    start = _common_start(expected, actual, most)
    end = _common_end(expected, actual, most - start)
    before, after = max(0, start - AROUND), max(0, end - AROUND)
    left, right = expected[before : len(expected) - after], actual[before : len(actual) - after]
    goes_on = max(len(left), len(right)) > COMPARED
    if goes_on:
        left, right, after = left[:COMPARED], right[:COMPARED], 0
    return Excerpt(diff_texts(left, right), before, after, goes_on)


def _common_start(one: str, other: str, most: int) -> int:
    """By halving: each comparison is of stretches, and all of them together look at each character twice at most."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_end(one: str, other: str, most: int) -> int:
    low, high = 0, most
    ends = len(one), len(other)
    while low < high:
        middle = (low + high + 1) // 2
        if one[ends[0] - middle : ends[0] - low] == other[ends[1] - middle : ends[1] - low]:
            low = middle
        else:
            high = middle - 1
    return low
