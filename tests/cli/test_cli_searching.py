"""`onrecord search`"""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.cli import STORE, assert_two_lines, onrecord, onrecord_json, record, whole_run


def test_words_are_found_with_what_stands_around_them() -> None:
    record("first", whole_run())
    record("second", whole_run())
    lines = onrecord("search", "ActionRequested").stdout.splitlines()
    assert lines[0].split()[:3] == ["second", "event", "1"]
    found = onrecord_json("search", "ActionRequested")
    assert [(hit["run"], hit["kind"]) for hit in found["hits"]] == [
        ("second", "ActionRequested"),
        ("first", "ActionRequested"),
    ]
    assert found["unread"] == 0


def test_pages_go_on_by_cursor() -> None:
    for number in range(3):
        record(f"run-{number}")
    first = onrecord_json("search", "run-*", "--limit", "2")
    rest = onrecord_json("search", "run-*", "--limit", "2", "--cursor", first["next"])
    runs = [hit["run"] for hit in (*first["hits"], *rest["hits"])]
    assert sorted(runs) == ["run-0", "run-1", "run-2"]
    assert f"--cursor {first['next']}" in onrecord("search", "run-*", "--limit", "2").stderr


def test_nothing_found_is_told() -> None:
    record("first")
    result = onrecord("search", "zebra")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "no match in 1 run" in result.stderr


@pytest.mark.parametrize("words", ["+++", "x" * 201])
def test_what_cannot_be_asked_is_usage(words: str) -> None:
    record("first")
    result = onrecord("search", words)
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "bad_query")


def test_hostile_texts_cannot_move_the_cursor() -> None:
    from onrecord.core.events import StateUpdated

    record("first", [StateUpdated(payload="needle \x1b[2J\x07 \u202e evil\r\n needle")])
    text = onrecord("search", "needle").stdout
    assert "needle" in text
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(text)
    assert len(text.splitlines()) == 2


def test_a_store_that_is_not_there_is_not_made() -> None:
    result = onrecord("search", "needle")
    assert result.exit_code == 3
    assert not Path(STORE).exists()
