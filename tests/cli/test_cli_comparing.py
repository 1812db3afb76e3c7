"""`onrecord diff` and `onrecord step`"""

from __future__ import annotations

import pytest

from kit.cli import asking, assert_two_lines, flip_content, onrecord, onrecord_json, record
from onrecord.core.events import Completed, StateUpdated

ESCAPE = "\x1b[2J"


def test_two_equal_runs() -> None:
    record("one")
    record("two")
    result = onrecord("diff", "one", "two")
    assert result.exit_code == 0
    assert result.stdout.startswith("same  runs one and two did the same: 4 events")
    assert onrecord_json("diff", "one", "two")["verdict"] == "same"


def test_where_two_runs_part() -> None:
    record("one")
    record("two", [*asking("2+2?", "the answer is 5"), StateUpdated(payload={"sum": 5}), Completed(output="4")])
    result = onrecord("diff", "one", "two")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith(
        "diverged  runs one and two diverge at lane main, position 2: the same request was answered"
    )
    assert '~ /output: "the answer is 4" → "the answer is 5"' in result.stdout
    assert "2 matched · 2 changed" in lines
    found = onrecord_json("diff", "one", "two", status=1)
    assert found["first"]["position"] == 2
    assert found["first"]["expected_hash"] != found["first"]["actual_hash"]
    assert [change["status"] for change in found["changes"]] == ["changed", "changed"]


def test_a_shorter_run_names_its_side() -> None:
    record("one")
    record("two", asking("2+2?", "the answer is 4"))
    found = onrecord_json("diff", "one", "two", status=1)
    assert found["first"]["actual"] is None
    assert found["first"]["expected"]["seq"] == 3


def test_only_where_they_part() -> None:
    record("one")
    record("two", [*asking("3+3?", "6"), Completed()])
    text = onrecord("diff", "one", "two", "--first-only").stdout
    assert "WHAT" not in text
    assert "/payload/question" in text


def test_the_second_run_may_be_in_another_store() -> None:
    record("one")
    record("one", path="other.db")
    assert onrecord("diff", "one", "one", "--against", "other.db").exit_code == 0


def test_few_changes_are_shown_and_all_are_counted() -> None:
    record("one", [StateUpdated(payload=n) for n in range(30)])
    record("two", [StateUpdated(payload=-n - 1) for n in range(30)])
    result = onrecord("diff", "one", "two", "--limit", "5")
    assert result.stdout.count("changed  ") == 5
    assert "25 more" in result.stderr


def test_data_never_moves_the_cursor() -> None:
    record("one", asking(f"a{ESCAPE}", "x"))
    record("two", asking(f"b{ESCAPE}", "x"))
    assert "\x1b" not in onrecord("diff", "one", "two").stdout
    assert "\x1b" not in onrecord("step", "one", stdin="n\ni\n/[2J\n").output


def test_unknown_and_damaged_runs() -> None:
    record("one")
    result = onrecord("diff", "one", "nothing")
    assert result.exit_code == 3
    assert_two_lines(result.stderr, "unknown_run")
    record("two", [*asking("2+2?", "the answer is 5"), Completed()])
    flip_content("two", 2)
    result = onrecord("diff", "one", "two")
    assert result.exit_code == 4
    assert "Traceback" not in result.output


def test_two_runs_that_did_nothing_are_no_pass() -> None:
    record("one", [StateUpdated(payload=1)])
    record("empty", [StateUpdated(payload=1)])
    assert onrecord("diff", "one", "empty").exit_code == 0
    from kit.cli import opened
    from onrecord.journal.journal import Journal

    with opened() as store:
        Journal.create(store, "a").release()
        Journal.create(store, "b").release()
    assert onrecord_json("diff", "a", "b", status=1)["verdict"] == "empty"


def test_walking_a_run() -> None:
    record("one")
    result = onrecord("step", "one", stdin="n\n\nn\ns\nb\nb\nq\n")
    assert result.exit_code == 0
    shown = [line.split()[0] for line in result.stdout.splitlines() if line[:5].strip().isdecimal()]
    assert shown == ["1", "2", "3", "2", "1"]
    assert '"sum": 4' in result.stdout


def test_walking_ends_with_the_input_and_says_what_cannot_be() -> None:
    record("one")
    result = onrecord("step", "one", "--to", "4", stdin="n\n99\n0\nb\nwhat\n")
    assert result.exit_code == 0
    assert "end of the run" in result.stderr
    assert "no position 99" in result.stderr
    assert "no position -1" in result.stderr
    assert "go to position N" in result.stdout


def test_searching_stays_where_it_is_when_nothing_is_found() -> None:
    record("one")
    result = onrecord("step", "one", stdin="/the answer\n/nowhere\ni\n")
    assert "no later event contains nowhere" in result.stderr
    assert '"seq": 2' in result.stdout


def test_a_whole_walk_as_json() -> None:
    record("one")
    found = onrecord_json("step", "one")
    assert [one["seq"] for one in found["steps"]] == [1, 2, 3, 4]
    hashes = [one["state_hash"] for one in found["steps"]]
    assert hashes[0] == hashes[1] != hashes[2] == hashes[3]
    assert found["state"] == {"sum": 4}


@pytest.mark.parametrize("position", ["5", "99"])
def test_a_bad_position_to_begin_at(position: str) -> None:
    record("one")
    result = onrecord("step", "one", "--to", position)
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "bad_position")
