"""Excerpt the part of two texts that differs, so that long texts are compared by words only there."""

from __future__ import annotations

from typing import NamedTuple

from onrecord.analysis.compare.texts import TextDiff, diff_texts

AROUND = 120
"""Equal characters that are kept on each side."""
COMPARED = 4000
"""Most characters that are compared by words."""


class Excerpt(NamedTuple):
    diff: TextDiff
    before: int
    """Equal characters at the beginning that are left out."""
    after: int
    """Equal characters at the end that are left out."""
    goes_on: bool
    """True if more differences may follow the excerpt."""


def excerpt(expected: str, actual: str) -> Excerpt:
    """Return all differences of two texts if they are close together, otherwise the first ones."""
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
    """Return the length of the common beginning, by bisection: slices compare faster than single characters."""
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
