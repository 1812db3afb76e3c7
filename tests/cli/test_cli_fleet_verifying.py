"""`onrecord verify --all` over a filter, in processes and in shares; what is kept beside runs in listings."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from kit.cli import flip_content, onrecord, onrecord_json, opened, record
from kit.fleet import ForkedWorker, verdicts
from onrecord.analysis.compare.kept_differences import keep_difference
from onrecord.core.events import Completed
from onrecord.journal.journal import Journal

pytestmark = pytest.mark.usefixtures("forked_workers")


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: timeless(item) for name, item in value.items() if name != "seconds"}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def test_one_process_and_several_come_to_the_same_report() -> None:
    for number in range(6):
        record(f"run-{number}")
    flip_content("run-3", 2)
    alone, together = (onrecord_json("verify", "--all", "--jobs", jobs, status=4) for jobs in ("1", "2"))
    assert timeless(alone) == timeless(together)
    assert timeless(alone) == timeless(onrecord_json("verify", "--all", status=4))
    assert together["verdicts"] == {"valid": 5, "damaged": 1}
    assert together["runs"][3]["problems"][0]["code"] == "bad_content"
    text = onrecord("verify", "--all", "--jobs", "2")
    assert text.exit_code == 4
    assert "event 2: the content does not match the link [bad_content, failure]" in text.stdout
    assert text.stdout.splitlines()[-2] == "6 runs verified, 1 damaged"
    assert text.stdout.splitlines()[-1].endswith("INVALID")


def test_everything_that_is_kept_is_verified() -> None:
    record("one")
    with opened() as store:
        keep_difference(store, "default", b"difference")
    assert len(onrecord_json("verify", "--all")["runs"]) == 2
    assert list(verdicts(onrecord_json("verify", "--all", "--agent", "tester"))) == ["one"]


def test_the_operations_journal_is_no_run_that_a_filter_chooses() -> None:
    for run in ("one", "two"):
        record(run)
    assert onrecord("gc", "--keep", "1", "--yes").exit_code == 0
    assert list(verdicts(onrecord_json("verify", "--all"))) == ["two", "operations"]
    assert list(verdicts(onrecord_json("verify", "--all", "--status", "completed"))) == ["two"]
    shards = [verdicts(onrecord_json("verify", "--all", "--shard", f"{number}/2")) for number in (1, 2)]
    assert sorted([*shards[0], *shards[1]]) == ["operations", "two"]


def test_a_run_without_events_is_no_pass() -> None:
    with opened() as store, Journal.create(store, "empty"):
        pass
    assert onrecord_json("verify", "--all", status=1)["verdicts"] == {"skipped": 1}
    record("whole")
    assert onrecord_json("verify", "--all")["verdicts"] == {"valid": 1, "skipped": 1}


HANGING = """
import time
import onrecord.journal.verify as module
verify = module.verify_run
def hang(store, run, *terms, **options):
    time.sleep(600 if run == "long" else 0)
    return verify(store, run, *terms, **options)
module.verify_run = hang
"""


def test_a_time_limit_leaves_the_verdict_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ForkedWorker, "prelude", HANGING)
    record("long")
    record("short")
    result = onrecord("verify", "--all", "--time-limit", "1")
    assert result.exit_code == 1
    assert "TIMED_OUT  long" in result.stdout
    assert "valid    short  4/4" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("- INCOMPLETE")
    assert onrecord_json("verify", "--all", "--time-limit", "1", status=1)["valid"] is False


def test_the_junit_file() -> None:
    for run in ("one", "two"):
        record(run)
    flip_content("two", 2)
    assert onrecord("verify", "--all", "--junit", "out.xml").exit_code == 4
    (suite,) = ElementTree.parse("out.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    (failure,) = suite[1]
    assert "event 2: the content does not match the link" in (failure.text or "")


def test_processes_and_jobs_are_one_option() -> None:
    record("one")
    for option in ("--jobs", "--processes"):
        assert onrecord("verify", "one", option, "2").exit_code == 0
        assert onrecord("verify", "--all", option, "2").exit_code == 0
        assert onrecord("verify", "--all", option, "0").exit_code == 2


# What is kept beside runs


@pytest.fixture
def beside() -> str:
    """A run, and after it a difference and receipts that were kept; the run's id."""
    record("the-run")
    with opened() as store:
        keep_difference(store, "default", b"difference", runs=["the-run"])
    record("flow", [Completed()], facts={"receipts": "onrecord.receipt/1"})
    return "the-run"


def test_what_is_kept_beside_runs_is_not_listed_among_them(beside: str) -> None:
    assert [run["run"] for run in onrecord_json("ls")["runs"]] == [beside]
    assert [run["kind"] for run in onrecord_json("ls", "--all-kinds")["runs"]] == ["receipts", "difference", "run"]
    assert "(difference)" in onrecord("ls", "--all-kinds").stdout


def test_last_never_means_what_is_kept_beside_runs(beside: str) -> None:
    assert onrecord_json("show", "@last")["run"] == beside
    assert onrecord("show", "@last~1").exit_code == 3
    record("another")
    assert onrecord_json("show", "@last~1")["run"] == beside
    assert onrecord_json("show", "flow")["run"] == "flow", "by its name it is found"


def test_an_agent_decides_nothing_about_its_kind() -> None:
    record("one", facts={"agent": "tester", "kind": "difference", "receipts": 1})
    assert [run["run"] for run in onrecord_json("ls")["runs"]] == ["one"]


def test_a_diff_that_is_kept_does_not_move_last(workspace: Path) -> None:
    for run in ("one", "two"):
        record(run)
    assert onrecord("diff", "@last~1", "@last").exit_code in (0, 1)
    assert onrecord_json("show", "@last")["run"] == "two"
