"""Aligning: every item has one place, equal things find each other, and length costs nothing extra."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onrecord.analysis.compare import sequence_alignment as aligning
from onrecord.analysis.compare.sequence_alignment import SHORT, align


def checked(a: Sequence[int], b: Sequence[int]) -> int:
    """How many items found each other; whatever is found is equal, in order, and nothing is used twice."""
    end_a = end_b = total = 0
    for block in align(a, b):
        assert block.length > 0
        assert block.expected >= end_a
        assert block.actual >= end_b
        end_a, end_b = block.expected + block.length, block.actual + block.length
        assert list(a[block.expected : end_a]) == list(b[block.actual : end_b])
        total += block.length
    assert end_a <= len(a)
    assert end_b <= len(b)
    return total


def longest_common(a: Sequence[int], b: Sequence[int]) -> int:
    """Of a subsequence, by the table that costs length times length."""
    above = [0] * (len(b) + 1)
    for one in a:
        row = [0]
        for column, other in enumerate(b):
            row.append(above[column] + 1 if one == other else max(row[column], above[column + 1]))
        above = row
    return above[-1]


short = st.integers(1, 12).flatmap(lambda kinds: st.lists(st.integers(0, kinds), max_size=SHORT // 2))


@settings(max_examples=200, deadline=None)
@given(short, short)
def test_what_is_short_is_aligned_as_well_as_can_be(a: list[int], b: list[int]) -> None:
    assert checked(a, b) == longest_common(a, b)


@pytest.mark.parametrize("kinds", [1, 2, 5, 40, 10**6])
@pytest.mark.parametrize("length", [100, 400])
def test_what_is_long_is_aligned_nearly_as_well(kinds: int, length: int) -> None:
    for seed in range(4):
        chance = random.Random(seed)
        a = [chance.randrange(kinds) for _ in range(length)]
        b = changed(a, chance, kinds, 0.05)
        assert checked(a, b) >= 0.95 * longest_common(a, b)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=300), st.lists(st.integers(0, 3), max_size=300))
def test_what_has_nothing_to_do_with_each_other_is_aligned_soundly(a: list[int], b: list[int]) -> None:
    checked(a, b)


def changed(a: Sequence[int], chance: random.Random, kinds: int, share: float) -> list[int]:
    b = []
    for item in a:
        fate = chance.random()
        if fate > share:
            b.append(item)
        elif fate > share * 2 / 3:
            b += [item, chance.randrange(kinds)]
        elif fate > share / 3:
            b.append(-1 - item)
    return b


class CountedItems(list[int]):
    """Counts how often an item is looked at."""

    looks = 0

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        found = super().__getitem__(at)
        CountedItems.looks += len(found) if isinstance(at, slice) else 1
        return found


@pytest.mark.parametrize("kinds", [1, 3, 50, 10**9], ids=["all alike", "few kinds", "some kinds", "all different"])
def test_work_per_item_stays_flat_from_a_thousand_to_fifty_thousand(kinds: int) -> None:
    """Looks at items are counted, since a clock would tell of the machine."""
    work = {}
    for length in (1_000, 50_000):
        chance = random.Random(7)
        a = [chance.randrange(kinds) for _ in range(length)]
        b = changed(a, chance, kinds, 0.01)
        CountedItems.looks = 0
        found = checked(CountedItems(a), CountedItems(b))
        work[length] = CountedItems.looks / length
        assert found >= 0.97 * length
    assert work[50_000] <= 60, work
    assert work[50_000] <= 4 * work[1_000] + 10, work


def test_unrelated_sequences_cost_no_more() -> None:
    chance = random.Random(3)
    a, b = ([chance.randrange(5) for _ in range(20_000)] for _ in range(2))
    CountedItems.looks = 0
    checked(CountedItems(a), CountedItems(b))
    assert CountedItems.looks <= 60 * 20_000


def test_a_block_that_moved_leaves_the_larger_part_in_place() -> None:
    a = list(range(1000))
    b = a[100:] + a[:100]
    assert checked(a, b) == 900


def test_a_large_insertion_into_what_repeats_itself() -> None:
    a = [n % 7 for n in range(500)] + [100] + [n % 5 for n in range(500)]
    b = [n % 7 for n in range(500)] + [200 + n % 3 for n in range(300)] + [100] + [n % 5 for n in range(500)]
    assert checked(a, b) == len(a)


def test_windows_are_anchors_where_no_item_is_unique() -> None:
    chance = random.Random(5)
    a = [chance.randrange(4) for _ in range(2_000)]
    b = a[:700] + [chance.randrange(4) for _ in range(600)] + a[700:]
    assert checked(a, b) >= 0.98 * len(a)
    assert aligning.WIDEST_WINDOW >= 16, "four kinds of items take windows of a dozen to be unique in thousands"
