"""`reenact search`"""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_support import STORE, assert_two_lines, record, reenact, reenact_json, whole_run


def test_words_are_found_with_what_stands_around_them() -> None:
    record("first", whole_run())
    record("second", whole_run())
    lines = reenact("search", "ActionRequested").stdout.splitlines()
    assert lines[0].split()[:3] == ["second", "event", "1"]
    found = reenact_json("search", "ActionRequested")
    assert [(hit["run"], hit["kind"]) for hit in found["hits"]] == [
        ("second", "ActionRequested"),
        ("first", "ActionRequested"),
    ]
    assert found["unread"] == 0


def test_pages_go_on_by_cursor() -> None:
    for number in range(3):
        record(f"run-{number}")
    first = reenact_json("search", "run-*", "--limit", "2")
    rest = reenact_json("search", "run-*", "--limit", "2", "--cursor", first["next"])
    runs = [hit["run"] for hit in (*first["hits"], *rest["hits"])]
    assert sorted(runs) == ["run-0", "run-1", "run-2"]
    assert f"--cursor {first['next']}" in reenact("search", "run-*", "--limit", "2").stderr


def test_nothing_found_is_told() -> None:
    record("first")
    result = reenact("search", "zebra")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "nothing was found in 1 run" in result.stderr


@pytest.mark.parametrize("words", ["+++", "x" * 201])
def test_what_cannot_be_asked_is_usage(words: str) -> None:
    record("first")
    result = reenact("search", words)
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "bad_query")


def test_hostile_texts_cannot_move_the_cursor() -> None:
    from reenact.core.events import StateUpdated

    record("first", [StateUpdated(payload="needle \x1b[2J\x07 \u202e evil\r\n needle")])
    text = reenact("search", "needle").stdout
    assert "needle" in text
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(text)
    assert len(text.splitlines()) == 2


def test_a_store_that_is_not_there_is_not_made() -> None:
    result = reenact("search", "needle")
    assert result.exit_code == 3
    assert not Path(STORE).exists()
