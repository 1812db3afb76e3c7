"""A run's share follows from its id alone."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onrecord.analysis.fleet.shard import MOST_SHARDS, Shard, shard_number
from onrecord.errors import InvalidInput

IDS = st.lists(st.text(min_size=1, max_size=40), unique=True, max_size=60)


@given(IDS, st.integers(1, 40))
def test_shards_are_disjoint_and_complete(runs: list[str], total: int) -> None:
    held = [run for number in range(1, total + 1) for run in runs if Shard(number, total).holds(run)]
    assert sorted(held) == sorted(runs)


@given(st.text(), IDS, st.integers(1, 40))
def test_other_runs_do_not_move_a_run(run: str, others: list[str], total: int) -> None:
    alone = [number for number in range(1, total + 1) if Shard(number, total).holds(run)]
    among = [number for number in range(1, total + 1) if run in filter(Shard(number, total).holds, [*others, run])]
    assert alone == among == [shard_number(run, total)]


def test_the_shares_are_pinned() -> None:
    """Another version on another machine of the same build has to share out in the same way."""
    assert [shard_number(run, 4) for run in ("alpha", "beta", "gamma", "run-0", "run-1", "\ud800")] == [
        3,
        2,
        1,
        3,
        1,
        2,
    ]


def test_the_shares_are_about_equal() -> None:
    sizes = Counter(shard_number(f"run-{number}", 8) for number in range(8000))
    assert sizes.keys() == set(range(1, 9))
    assert max(sizes.values()) < 1.15 * min(sizes.values())


@pytest.mark.parametrize("text", ["1/1", "2/4", "4/4", f"{MOST_SHARDS}/{MOST_SHARDS}"])
def test_what_is_a_shard(text: str) -> None:
    assert str(Shard.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "/",
        "1/",
        "/2",
        "0/2",
        "3/2",
        "-1/2",
        "1/0",
        "01/2",
        "1/2/3",
        " 1/2",
        "1/2\n",
        "1.0/2",
        "١/٢",
        "a/b",
        f"1/{MOST_SHARDS + 1}",
        "1/99999999999999999999",
    ],
)
def test_what_is_not_a_shard_is_an_error_of_usage(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Shard.parse(text)
    assert (refused.value.code, refused.value.exit_status) == ("bad_shard", 2)
