"""Names of lanes: unique, short, and free of separators."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onrecord.runtime.scheduler.kernel import Kernel
from onrecord.runtime.scheduler.names import LABEL_BYTES, LANE_BYTES, child_lane, label_of

LABELS = st.one_of(
    st.sampled_from(["a", "a#1", "a>b", "a/b", "%", "~", "\ud800", "\\ud800", "%uD800", "é" * 40, "x" * 64, "x" * 65]),
    st.text(st.characters(), max_size=80),
)


@pytest.mark.parametrize(
    ("label", "ordinal", "name"),
    [
        ("work", 0, "main>work"),
        ("work", 1, "main>work#1"),
        ("a>b#c/d%~\n", 0, "main>a%3Eb%23c%2Fd%25%7E%0A"),
        ("\ud800", 0, "main>%uD800"),
        ("", 2, "main>#2"),
        ("é" * 32, 0, "main>" + "é" * 32),
    ],
)
def test_label_is_escaped(label: str, ordinal: int, name: str) -> None:
    assert child_lane("main", label, ordinal) == name


def test_long_names_end_in_their_digest() -> None:
    first, second = child_lane("main", "x" * 100, 0), child_lane("main", "x" * 101, 0)
    assert first != second
    assert len(first.partition(">")[2].encode()) <= LABEL_BYTES
    lane = functools.reduce(lambda parent, number: child_lane(parent, f"branch {number}", 0), range(100), "main")
    assert len(lane.encode()) <= LANE_BYTES
    assert len(child_lane(lane, "é" * 100, 3).encode()) <= LANE_BYTES


@given(st.lists(st.tuples(st.integers(0, 30), LABELS), max_size=30))
def test_no_two_lanes_share_a_name(births: list[tuple[int, str]]) -> None:
    kernel = Kernel()
    lanes = [kernel.root]
    for parent, label in births:
        lanes.append(kernel.born(lanes[parent % len(lanes)], label))
    assert len(set(lanes)) == len(lanes)
    for lane in lanes:
        assert len(lane.encode()) <= LANE_BYTES
        assert "/" not in lane


def test_a_label_that_looks_shortened_is_another_name() -> None:
    shortened = child_lane("main", "x" * 100, 0)
    assert child_lane("main", shortened.removeprefix("main>"), 0) != shortened


def test_label_of_a_function_is_its_qualified_name() -> None:
    def work() -> None:
        pass

    @functools.wraps(work)
    def wrapper() -> None:
        work()

    class Job:
        def __call__(self) -> None:
            pass

    name = "test_label_of_a_function_is_its_qualified_name"
    assert label_of(work) == label_of(wrapper) == label_of(functools.partial(wrapper)) == f"{name}.work"
    assert label_of(Job()) == f"{name}.Job"
