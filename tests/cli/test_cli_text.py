"""Recorded text on a terminal: harmless, short, within its columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onrecord.cli.render.output import Column, json_text, layout, value_lines
from onrecord.cli.render.text import brief, cells, fit, inert, iso_time, local_time, url_text


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("a\rb\nc\td", "a\\rb\\nc\\td"),
        ("\x7f\x00", "\\x7f\\x00"),
        ("abc\u202edcba", "abc\\u202edcba"),
        ("\u2066x\u2069\u200e\u061c", "\\u2066x\\u2069\\u200e\\u061c"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_acts_on_a_terminal_is_shown_as_an_escape(hostile: str, shown: str) -> None:
    assert inert(hostile) == shown


@pytest.mark.parametrize("text", ["plain", "grüße", "日本語", "🎉", "back\\slash", ""])
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert inert(text) == text


@given(st.text(st.characters()))
def test_nothing_active_ever_remains(text: str) -> None:
    left = {unicodedata.category(character) for character in inert(text)}
    assert not left & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(st.text(st.characters()), st.integers(1, 60))
def test_a_fitted_text_takes_no_more_columns_than_it_may(text: str, width: int) -> None:
    assert cells(fit(inert(text), width)) <= width


def test_a_fitted_text_says_that_it_was_cut() -> None:
    assert fit("abcdefgh", 5) == "abcd…"
    assert fit("日本語日本語", 5) == "日本…"
    assert fit("abcde", 5) == "abcde"


def test_piled_up_marks_are_cut() -> None:
    assert len(fit("e" + "\u0301" * 1000, 10)) < 10


def test_a_brief_reads_no_more_than_it_shows() -> None:
    class Counted(list[str]):
        taken = 0

        def __iter__(self) -> Iterator[str]:
            for item in super().__iter__():
                self.taken += 1
                yield item

    huge = Counted(["y"] * 100_000)
    assert len(brief({"list": huge}, 50)) == 51
    assert 0 < huge.taken < 50


def test_a_brief_of_a_deep_value_ends() -> None:
    deep: object = "core"
    for _ in range(5000):
        deep = [deep]
    assert "…" in brief(deep)


def test_a_brief_is_inert() -> None:
    assert "\x1b" not in brief({"\x1b[2J": "\x1b]0;x\x07\u202e"})


def test_json_is_ascii_and_holds_no_control_character() -> None:
    written = json_text({"x": "\x1b\x7f\u202e\ud800é"})
    assert written.isascii()
    assert written.replace("\n", "").isprintable()


def test_a_value_as_deep_as_the_format_allows_is_written() -> None:
    deep: object = "core"
    for _ in range(1000):
        deep = [deep]
    assert "core" in json_text(deep)
    assert any("core" in line for line in value_lines(deep))


def test_times_that_no_calendar_has() -> None:
    assert iso_time(0) == "1970-01-01T00:00:00Z"
    assert iso_time(10**30) is None
    assert local_time(10**30) == str(10**30)


def test_a_password_in_a_url_is_not_shown() -> None:
    assert url_text("postgresql://me:secret@host:5432/db") == "postgresql://me:***@host:5432/db"
    assert url_text("sqlite:////tmp/a:b@c") == "sqlite:////tmp/a:b@c"


COLUMNS = (Column("run"), Column("agent", flexible=True), Column("created", drop=2), Column("events", drop=1))
ROWS = [["demo-1234", "a" * 60, "2026-01-01 00:00:00", "12"]]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_a_table_fits_its_terminal(width: int) -> None:
    assert sum(room + 2 for _, room in layout(COLUMNS, ROWS, width)) - 2 <= width


def test_a_narrow_table_drops_columns_by_their_rank() -> None:
    assert [index for index, _ in layout(COLUMNS, ROWS, 40)] == [0, 1, 3]
    assert [index for index, _ in layout(COLUMNS, ROWS, 30)] == [0, 1]
    assert layout(COLUMNS, ROWS, 200)[1] == (1, 60)
