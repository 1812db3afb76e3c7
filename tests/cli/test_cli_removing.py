"""`onrecord gc` and `erase`: nothing goes without --yes, and what goes is on record."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.cli import (
    STORE,
    asking,
    assert_two_lines,
    blocked_run,
    onrecord,
    onrecord_json,
    opened,
    record,
    tampering,
    whole_run,
)
from onrecord.cli.commands.remove import age_microseconds
from onrecord.core.events import Completed, StateUpdated
from onrecord.errors import InvalidInput
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal

SECRET = "correct horse battery"


def runs() -> list[str]:
    return [run["run"] for run in onrecord_json("ls")["runs"]]


def test_a_dry_run_lists_and_removes_nothing() -> None:
    for run in ("one", "two", "three"):
        record(run)
    result = onrecord("gc", "--keep", "1")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == ["one", "two"]
    assert "--yes" in result.stderr
    assert runs() == ["three", "two", "one"]
    assert onrecord_json("gc", "--keep", "1")["dry_run"] is True


def test_removed_runs_leave_a_record() -> None:
    for run in ("one", "two", "three"):
        record(run)
    removed = onrecord_json("gc", "--keep", "1", "--yes")
    assert [one["run"] for one in removed["runs"]] == ["one", "two"]
    assert removed["dry_run"] is False
    assert runs() == ["three"]
    operations = onrecord_json("show", "operations")["timeline"]
    assert [event["content"]["run"] for event in operations] == ["one", "two"]
    assert operations[0]["content"]["reason"] == "gc --keep 1"
    assert onrecord("verify", "--all").exit_code == 0


def test_a_run_that_has_not_ended_stays() -> None:
    record("open", blocked_run())
    record("ended")
    assert onrecord("gc", "--keep", "0", "--yes").exit_code == 0
    assert runs() == ["open"]


def test_age_counts_from_the_beginning() -> None:
    record("one")
    assert onrecord_json("gc", "--older-than", "1h")["runs"] == []
    assert "no run would be removed" in onrecord("gc", "--older-than", "1h").stderr
    assert [run["run"] for run in onrecord_json("gc", "--older-than", "0s")["runs"]] == ["one"]
    assert onrecord_json("gc", "--older-than", "0s", "--keep", "1")["runs"] == []


def test_ages() -> None:
    assert age_microseconds("90s") == 90_000_000
    assert age_microseconds("2m") == 120_000_000
    assert age_microseconds("30d") == 30 * 86_400_000_000
    assert age_microseconds("1w") == age_microseconds("7d") == age_microseconds("168h")
    for text in ("", "30", "d", "-1d", "1.5d", "30 d", "9999999d", "٣d", "1y"):
        with pytest.raises(InvalidInput):
            age_microseconds(text)


@pytest.mark.parametrize("arguments", [[], ["--keep", "-1"], ["--older-than", "soon"], ["--yes"]])
def test_a_rule_is_needed(arguments: list[str]) -> None:
    record("one")
    result = onrecord("gc", *arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 2
    assert runs() == ["one"]


def with_secret() -> None:
    record("one", [*asking("who?", f"it is {SECRET}."), Completed()])
    record("two", [StateUpdated(payload=[SECRET]), Completed()], facts={"agent": SECRET})
    record("three")


def bytes_on_disk() -> bytes:
    return b"".join(path.read_bytes() for path in Path(".onrecord").iterdir())


def test_a_dry_run_of_an_erasure_lists_the_places() -> None:
    with_secret()
    result = onrecord("erase", "--value", SECRET)
    assert result.exit_code == 0
    assert sorted(result.stdout.splitlines()) == ["one  2", "two  facts, 1"]
    assert "3 contents in 2 runs would be erased; nothing was" in result.stderr
    assert SECRET not in result.output
    assert SECRET.encode() in bytes_on_disk()


def test_an_erased_value_is_gone_and_the_chains_hold() -> None:
    with_secret()
    erased = onrecord_json("erase", "--value", SECRET, "--yes", "--reason", "asked for")
    assert sorted((one["run"], one["seq"]) for one in erased["contents"]) == [("one", 2), ("two", 0), ("two", 1)]
    assert SECRET.encode() not in bytes_on_disk()
    assert onrecord("verify", "--all").exit_code == 0
    assert onrecord_json("show", "operations")["timeline"][0]["content"]["reason"] == "asked for"
    again = onrecord("erase", "--value", SECRET, "--yes")
    assert again.exit_code == 3


@pytest.mark.parametrize("text", [SECRET, SECRET + "\n", SECRET + "\r\n"])
def test_the_value_comes_from_stdin_or_a_file(text: str) -> None:
    with_secret()
    assert "3 contents" in onrecord("erase", stdin=text).stderr
    assert "3 contents" in onrecord("erase", "--value-file", "-", stdin=text).stderr
    Path("value").write_bytes(text.encode())
    assert "3 contents" in onrecord("erase", "--value-file", "value").stderr


@pytest.mark.parametrize(
    ("arguments", "stdin", "status", "code"),
    [
        (["--value", "never recorded"], "", 3, "value_not_found"),
        (["--value", "abc"], "", 2, "value_too_short"),
        ([], "", 2, "no_value"),
        ([], b"\xff\xfe\xff\xff", 2, "bad_value"),
        ([], "x" * (1024 * 1024 + 1), 2, "bad_value"),
        (["--value", SECRET, "--value-file", "-"], SECRET, 2, "usage"),
        (["--value-file", "missing"], "", 3, "no_file"),
        (["--value-file", "."], "", 3, "no_file"),
        (["--value", SECRET, "--reason", f"because of {SECRET}"], "", 2, "bad_reason"),
    ],
)
@pytest.mark.parametrize("yes", [[], ["--yes"]])
def test_values_that_cannot_be_erased(
    arguments: list[str], stdin: str | bytes, status: int, code: str, yes: list[str]
) -> None:
    with_secret()
    result = onrecord("erase", *arguments, *yes, stdin=stdin)
    assert result.exit_code == status
    assert_two_lines(result.stderr, code)
    assert SECRET not in result.output
    assert SECRET.encode() in bytes_on_disk()


@pytest.mark.parametrize("yes", [[], ["--yes"]])
def test_a_value_in_a_link_is_refused(yes: list[str]) -> None:
    record("one", [Draft(StateUpdated(payload=SECRET), key=SECRET), Completed()])
    result = onrecord("erase", "--value", SECRET, *yes)
    assert result.exit_code == 6
    assert_two_lines(result.stderr, "erasure_refused")


def test_a_run_that_is_being_written_is_refused() -> None:
    with opened() as store, Journal.create(store, "busy") as journal:
        journal.append(StateUpdated(payload=SECRET))
        result = onrecord("erase", "--value", SECRET, "--yes")
        assert result.exit_code == 6
        assert_two_lines(result.stderr, "run_busy")
        journal.append(Completed())
    assert onrecord("erase", "--value", SECRET, "--yes").exit_code == 0


def test_erasing_without_a_store_makes_none() -> None:
    for yes in ([], ["--yes"]):
        result = onrecord("erase", "--value", SECRET, *yes)
        assert result.exit_code == 3
        assert_two_lines(result.stderr, "no_store")
    assert not os.path.exists(STORE)


def test_an_erasure_that_is_not_on_record_is_damage() -> None:
    record("one", whole_run())
    with tampering() as connection:
        connection.execute("UPDATE events SET content = NULL, salt = NULL, match = NULL WHERE seq = 2")
    assert onrecord("verify", "one").exit_code == 4


@pytest.mark.parametrize("options", [[], ["--yes"]])
def test_a_value_that_is_nowhere_is_not_looked_for_among_runs(options: list[str]) -> None:
    record("one")
    result = onrecord("erase", "--value", "nowhere to be found", *options)
    assert result.exit_code == 3
    assert_two_lines(result.stderr, "value_not_found")
    assert "capitals and spaces count" in result.stderr
    assert "onrecord ls" not in result.stderr
