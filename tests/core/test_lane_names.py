"""Names of lanes: what they may be, where they come from, how they are shown, and how a link holds them."""

from __future__ import annotations

import json

import pytest

from onrecord.core.canonical import canonical_bytes
from onrecord.core.lane_names import (
    LANE_BYTES,
    ROOT_LANE,
    child_lane,
    is_lane,
    is_root_lane,
    next_root,
    parent_lane,
    shown_lane,
    sibling_name,
)
from onrecord.core.links import link_bytes, parse_link, write_link

LABELS = [
    *("fetch", "", "a.b", "<lambda>", "a>b", "a#1", "100%", "a/b", "~", "@", "main@1", 'say "hi"\\', "né", "日本語"),
    *("\n\x00\x1f\x7f", "\x85\u2028\u202e", "\ud800", "x" * 64, "x" * 65, "é" * 40, "%" * 30, "😀" * 200),
]


def test_every_label_gives_a_valid_lane_of_its_own() -> None:
    lanes = [child_lane(ROOT_LANE, label, ordinal) for label in LABELS for ordinal in (0, 1, 12)]
    assert len(set(lanes)) == len(lanes)
    for lane in lanes:
        assert is_lane(lane), lane
        assert parent_lane(lane) == ROOT_LANE


@pytest.mark.parametrize("label", LABELS)
def test_lanes_at_any_depth_are_valid_and_short(label: str) -> None:
    lane, seen = next_root(ROOT_LANE), set()
    for ordinal in range(60):
        lane = child_lane(lane, label, ordinal % 3)
        assert is_lane(lane)
        assert len(lane.encode()) <= LANE_BYTES
        above = parent_lane(lane)
        assert above is not None
        assert lane.startswith(f"{above}>")
        seen.add(lane)
    assert len(seen) == 60


@pytest.mark.parametrize(
    "lane", ["", "0", "0.1", "mainly", "Main", "main@", "main@0", "main@01", "main@1@2", "main/a", "main>a/b", " main"]
)
def test_what_is_no_lane(lane: str) -> None:
    assert not is_lane(lane)


def test_characters_and_lengths_that_no_lane_has() -> None:
    for character in "/\x00\n\x1f\x7f\ud800\udfff":
        assert not is_lane(f"main>a{character}")
    assert is_lane("main>" + "x" * 507)
    assert not is_lane("main>" + "x" * 508)
    assert not is_lane("main>" + "é" * 254)
    assert not is_lane("main\n")


@pytest.mark.parametrize(
    ("lane", "parent", "is_root", "sibling", "shown"),
    [
        ("main", None, True, ("main", 0), "main"),
        ("main@2", "main", True, ("main@2", 0), "main@2"),
        ("main@2>x", "main@2", False, ("x", 0), "main@2 › x"),
        ("main>a#1>b", "main>a#1", False, ("b", 0), "a#1 › b"),
        ("main>visit#2>fetch#10", "main>visit#2", False, ("fetch", 10), "visit#2 › fetch#10"),
        ("main>a%2Fb%3E%0A%25", "main", False, ("a%2Fb%3E%0A%25", 0), "a/b>%0A%"),
        ("main>\u202ea\x85%9B", "main", False, ("\u202ea\x85%9B", 0), "%u202Ea%85%9B"),
        ("main>", "main", False, ("", 0), '""'),
        ("main~0123456789abcdef", "main", False, ("main~0123456789abcdef", 0), "main~0123456789abcdef"),
    ],
)
def test_parts_of_a_lane(lane: str, parent: str | None, is_root: bool, sibling: tuple[str, int], shown: str) -> None:
    assert parent_lane(lane) == parent
    assert is_root_lane(lane) == is_root
    assert sibling_name(lane) == sibling
    assert shown_lane(lane) == shown


def test_what_is_shown_holds_no_control_characters() -> None:
    for label in LABELS:
        assert shown_lane(child_lane(ROOT_LANE, label, 1)).isprintable()


@pytest.mark.parametrize("label", LABELS)
def test_a_link_with_any_lane_is_canonical(label: str) -> None:
    lane = child_lane(ROOT_LANE, label, 1)
    written = write_link(b"c" * 32, "e1", f"{lane}/ask/0", "Completed", lane, 1, b"p" * 32, "r1", 2, 3)
    assert written == canonical_bytes(json.loads(written))
    link = parse_link(written)
    assert link.lane == lane
    assert link_bytes(link) == written
