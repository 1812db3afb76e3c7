"""Lines of pieces: whatever text they are made of, they fit, lose nothing and act on nothing."""

from __future__ import annotations

import unicodedata
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from onrecord.cli.render.lane_gutter import HAPPENED, MOST_COLUMNS, REQUESTED, Gutter, GutterEvent, gutters
from onrecord.cli.render.side_by_side import paired_lines
from onrecord.cli.render.styled_text import Piece, compared_by_words, marked, split_lines, width_of, wrapped
from onrecord.cli.render.text import cells, cost_text, duration_text, inert, tokens_text
from onrecord.cli.render.values import readable_lines

TEXTS = st.text(st.characters(), max_size=200)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def acts(text: str) -> bool:
    return any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text)


@given(TEXTS, st.integers(2, 60))
def test_a_wrapped_text_fits_and_is_whole(text: str, width: int) -> None:
    for line in split_lines([Piece(text)]):
        parts = wrapped(line, width)
        assert all(width_of(part) <= width for part in parts)
        assert "".join(p.text for part in parts for p in part) == "".join(p.text for p in line)
        assert not any(acts(piece.text) for piece in line)


@given(TEXTS, TEXTS)
def test_marks_lose_nothing(expected: str, actual: str) -> None:
    diff = compared_by_words(inert(expected), inert(actual))
    for kind, text in (("removed", expected), ("added", actual)):
        assert "".join(piece.text for piece in marked(diff, kinds=("equal", kind))) == inert(text)


@given(TREES)
def test_any_value_is_readable_and_inert(tree: Any) -> None:
    lines = readable_lines(tree)
    assert lines
    assert not any(acts(line) for line in lines)


@given(TREES, TREES)
def test_any_two_values_are_paired_without_losing_a_difference(expected: Any, actual: Any) -> None:
    left, right = readable_lines(expected), readable_lines(actual)
    pairs = paired_lines(left, right)
    different = any(pair.kind in ("changed", "removed", "added") for pair in pairs)
    assert different == (left != right)


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["ActionRequested", "ActionSucceeded", "StateUpdated"]))))
def test_a_gutter_is_bounded_and_marks_every_event(events: list[tuple[int, str]]) -> None:
    places = [GutterEvent("main" if not lane else f"main>a#{lane}", kind) for lane, kind in events]
    live = Gutter()
    for drawn in ([live.row(place) for place in places], gutters(places)):
        for row, place in zip(drawn, places, strict=True):
            assert cells(row) <= MOST_COLUMNS
            mark = REQUESTED if place.kind == "ActionRequested" else HAPPENED
            assert not row or row.count(mark) == 1


def test_numbers_in_words() -> None:
    assert [duration_text(us) for us in (None, 0, 145, 51_351, 1_234_567, 200_000_000, 7_500_000_000)] == [
        "",
        "0.0 ms",
        "0.1 ms",
        "51 ms",
        "1.2 s",
        "3m 20s",
        "2h 05m",
    ]
    assert [tokens_text(n) for n in (0, 9_999, 12_345, 2_500_000, 3e9)] == ["0", "9,999", "12.3k", "2.5M", "3.0G"]
    assert [cost_text(n) for n in (None, 0.0, 0.00001, 0.0123, 250.0)] == [
        "",
        "$0.00",
        "<$0.0001",
        "$0.0123",
        "$250.00",
    ]
