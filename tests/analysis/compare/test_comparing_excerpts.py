"""Long texts are compared where they part, and no further than anybody reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onrecord.analysis.compare import excerpts
from onrecord.analysis.compare.excerpts import AROUND, COMPARED, excerpt

LONG = "".join(f"word {number} " for number in range(600_000))


def test_short_texts_are_compared_as_they_are() -> None:
    found = excerpt("Where is my order A-17?", "Where is my order B-4?")
    assert (found.before, found.after, found.goes_on) == (0, 0, False)
    assert (found.diff.expected, found.diff.actual) == ("Where is my order A-17?", "Where is my order B-4?")


@pytest.mark.parametrize("place", [0, 5, LONG.index("300000"), LONG.index("599999"), len(LONG)])
def test_one_change_of_a_long_text_is_found_wherever_it_is(place: int) -> None:
    found = excerpt(LONG, f"{LONG[:place]}! {LONG[place:]}")
    assert [run.text for run in found.diff.runs if run.kind != "equal"] == ["! "]
    assert not found.goes_on
    assert len(found.diff.actual) <= 2 * AROUND + 2
    assert (found.before, found.after) == (max(0, place - AROUND), max(0, len(LONG) - place - AROUND))


def test_of_many_changes_the_first_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    whole = excerpts.diff_texts
    monkeypatch.setattr(excerpts, "diff_texts", lambda *texts: (compared.extend(map(len, texts)), whole(*texts))[1])
    found = excerpt(LONG, LONG.replace("9 ", "nine "))
    assert found.goes_on
    assert found.diff.runs[1] == ("removed", "9")
    assert max(compared) == COMPARED


@given(st.text("ab "), st.text("ab "), st.text("ab ", max_size=300), st.text("ab ", max_size=300))
def test_nothing_that_differs_is_left_out(one: str, other: str, start: str, end: str) -> None:
    expected, actual = start + one + end, start + other + end
    found = excerpt(expected, actual)
    assert expected == expected[: found.before] + found.diff.expected + expected[len(expected) - found.after :]
    assert actual == expected[: found.before] + found.diff.actual + expected[len(expected) - found.after :]
