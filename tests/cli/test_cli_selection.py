"""Which run is meant."""

from __future__ import annotations

import pytest

from kit.cli import assert_two_lines, onrecord, onrecord_json, record
from onrecord.core.events import Completed


@pytest.fixture
def three_runs() -> list[str]:
    """Oldest first."""
    return [record(run) for run in ("alpha-0000001", "alpha-0000002", "beta-1")]


def shown(text: str) -> str:
    run: str = onrecord_json("show", text)["run"]
    return run


def test_a_whole_id_a_unique_beginning_and_positions(three_runs: list[str]) -> None:
    assert shown("beta-1") == "beta-1"
    assert shown("b") == "beta-1"
    assert shown("@last") == "beta-1"
    assert shown("@last~0") == "beta-1"
    assert shown("@last~2") == "alpha-0000001"


def test_an_ambiguous_beginning_names_the_candidates(three_runs: list[str]) -> None:
    result = onrecord("show", "alpha")
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "ambiguous_run")
    assert "alpha-0000001, alpha-0000002" in result.stderr


def test_many_candidates_are_not_all_named() -> None:
    for number in range(9):
        record(f"same-{number}", [Completed()])
    result = onrecord("show", "same")
    assert result.exit_code == 2
    assert result.stderr.count("same-") == 5
    assert result.stderr.rstrip().endswith("…")


def test_a_whole_id_wins_over_a_longer_one() -> None:
    record("job")
    record("job-2")
    assert shown("job") == "job"


@pytest.mark.parametrize("text", ["nothing", "ALPHA", "alpha%", "alpha_0000001", "'", "..", "a\u202eb", "\x1b[2J"])
def test_an_unknown_run_is_not_found_and_named_harmlessly(three_runs: list[str], text: str) -> None:
    result = onrecord("show", text)
    assert result.exit_code == 3
    assert_two_lines(result.stderr, "unknown_run")
    assert "\x1b" not in result.stderr
    assert "\u202e" not in result.stderr


def test_a_position_that_is_not_there(three_runs: list[str]) -> None:
    result = onrecord("show", "@last~3")
    assert result.exit_code == 3
    assert_two_lines(result.stderr, "unknown_run")


@pytest.mark.parametrize("text", ["@first", "@last~", "@last~-1", "@last~x", "@last~9999999999999", "@"])
def test_a_position_that_is_none(three_runs: list[str], text: str) -> None:
    result = onrecord("show", text)
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "bad_run")


def test_positions_reach_beyond_one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [record(f"run-{number}", [Completed()]) for number in range(5)]
    monkeypatch.setattr("onrecord.journal.reader.RUNS_AT_ONCE", 2)
    assert [shown(f"@last~{back}") for back in range(5)] == runs[::-1]
    assert onrecord("show", "@last~5").exit_code == 3


def test_the_operations_journal_is_asked_for_by_its_whole_name() -> None:
    record("opaque", [Completed()])
    assert onrecord("gc", "--keep", "0", "--yes").exit_code == 0
    assert shown("operations") == "operations"
    assert onrecord("show", "oper").exit_code == 3


def test_namespaces_keep_apart() -> None:
    record("here")
    record("there", namespace="other")
    assert onrecord("show", "there").exit_code == 3
    assert onrecord_json("show", "@last", "--namespace", "other")["run"] == "there"
    assert onrecord("ls", "--namespace", "not a name").exit_code == 2


def test_short_ids_are_unique_and_name_their_run() -> None:
    runs = ["session-2026-01-01-a", "session-2026-01-01-b", "unrelated-long-name", "tiny", "blocked-run"]
    for run in runs:
        record(run, [Completed()])
    short = {one["run"]: one["short"] for one in onrecord_json("ls")["runs"]}
    assert short["unrelated-long-name"] == "unrelate"
    assert short["tiny"] == "tiny"
    assert short["blocked-run"] == "blocked-run", "a name that somebody gave is not cut by three letters"
    assert short["session-2026-01-01-a"] == "session-2026-01-01-a"
    assert {shown(text) for text in short.values()} == set(runs)
