"""`onrecord ls`"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kit.cli import (
    STORE,
    assert_two_lines,
    blocked_run,
    exported,
    flip_link,
    onrecord,
    onrecord_json,
    opened,
    record,
    tampering,
    whole_run,
)
from onrecord.core.events import (
    ActionRequested,
    ActionSucceeded,
    Cancelled,
    Completed,
    EffectSettled,
    Failed,
    Interrupted,
    Resumed,
    StateUpdated,
    WaitCreated,
)
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.runtime.forks.fork import begin_fork


def asked_once() -> ActionRequested:
    return ActionRequested(action_id="a1", payload=1, name="mail", effect="tool_call", meta={"once": True})


def test_runs_are_listed_newest_first() -> None:
    for run in ("first", "second", "third"):
        record(run)
    lines = onrecord("ls").stdout.splitlines()
    assert lines[0].split() == ["RUN", "STATUS", "AGENT", "EVENTS", "CREATED", "ORIGIN"]
    assert [line.split()[0] for line in lines[1:]] == ["third", "second", "first"]
    assert lines[1].split()[1:4] == ["completed", "tester", "4"]


def test_the_json_of_a_run() -> None:
    record("one")
    listed = onrecord_json("ls")
    (run,) = listed["runs"]
    assert listed["more"] is False
    assert run.keys() == {"run", "short", "status", "about", "agent", "events", "created", "imported", "parent", "head"}
    assert (run["run"], run["status"], run["agent"], run["events"]) == ("one", "completed", "tester", 4)
    assert run["created"].endswith("Z")
    assert run["head"].startswith("sha256:")
    assert run["imported"] is False


def test_json_is_accepted_before_and_after_the_command() -> None:
    record("one")
    assert onrecord("--json", "ls").stdout == onrecord("ls", "--json").stdout


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([StateUpdated(payload=1)], "interrupted"),
        (whole_run(), "completed"),
        ([Failed(error="x")], "failed"),
        ([Cancelled()], "cancelled"),
        (blocked_run(), "blocked"),
        ([WaitCreated(wait_id="w", name="approval")], "waiting"),
        ([asked_once()], "in_doubt"),
        ([asked_once(), EffectSettled(action_id="a1", decision="retry")], "interrupted"),
        ([asked_once(), Draft(ActionSucceeded(action_id="a1", output=1), parent=1)], "interrupted"),
        ([ActionRequested(action_id="a1", payload=1, name="ask")], "interrupted"),
        ([Interrupted(value=1), Draft(Resumed(value=2), parent=1)], "interrupted"),
        # Answered from another lane: the first lane's last event is still the interrupt.
        ([Interrupted(value=1), Draft(Resumed(value=2), parent=1, lane="main>a")], "interrupted"),
    ],
)
def test_the_status_of_a_run(events: list[Draft], status: str) -> None:
    record("one", events)
    assert onrecord_json("ls")["runs"][0]["status"] == status
    assert [run["run"] for run in onrecord_json("ls", "--status", status)["runs"]] == ["one"]
    other = "failed" if status != "failed" else "completed"
    assert onrecord_json("ls", "--status", other)["runs"] == []


def test_a_run_that_is_held_is_running_until_it_is_let_go() -> None:
    with opened() as store:
        journal = Journal.create(store, "one")
        journal.append(asked_once())
        assert onrecord_json("ls")["runs"][0]["status"] == "running", "its holder may be doing it right now"
        assert onrecord_json("ls", "--status", "in_doubt")["runs"] == []
        journal.release()
    (run,) = onrecord_json("ls")["runs"]
    assert (run["status"], run["about"]) == ("in_doubt", ["mail"])
    assert "in doubt (mail)" in onrecord("ls").stdout


def test_a_lease_that_expired_or_whose_holder_died_holds_nothing() -> None:
    dead = subprocess.run(
        [sys.executable, "-c", f"from onrecord import *; Journal.create(open_store({STORE!r}), 'dead')"],
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        timeout=30,
    )
    assert dead.returncode == 0
    with opened() as store:
        Journal.create(store, "slow", lease_seconds=0.01)
        time.sleep(0.02)
        assert {run["status"] for run in onrecord_json("ls")["runs"]} == {"interrupted"}


def test_what_is_waited_for_is_named() -> None:
    record("one", [WaitCreated(wait_id="w", name="approval\x1b[2J")])
    assert "waiting (approval\\x1b[2J)" in onrecord("ls").stdout
    assert onrecord_json("show", "one")["about"] == ["approval\x1b[2J"]
    assert "waiting (approval\\x1b[2J)" in onrecord("show", "one").stdout


def test_a_limit_says_that_there_is_more() -> None:
    for number in range(3):
        record(f"run-{number}", [Completed()])
    limited = onrecord("ls", "--limit", "2")
    assert len(limited.stdout.splitlines()) == 3
    assert "--limit 20" in limited.stderr
    assert onrecord_json("ls", "--limit", "2")["more"] is True
    assert onrecord("ls", "--limit", "3").stderr == ""


def test_a_listing_reads_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        record(f"run-{number}", [Completed()])
    monkeypatch.setattr("onrecord.journal.reader.RUNS_AT_ONCE", 2)
    assert [run["run"] for run in onrecord_json("ls")["runs"]] == [f"run-{number}" for number in (4, 3, 2, 1, 0)]


@pytest.mark.parametrize("limit", ["0", "-1", "1e3", "999999999999999999999", "x; DROP TABLE runs"])
def test_a_bad_limit_is_refused(limit: str) -> None:
    record("one")
    result = onrecord("ls", "--limit", limit)
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "usage")


def test_an_imported_run_is_marked(workspace: Path) -> None:
    record("one")
    exported("one")
    assert onrecord("import", "run.jsonl", "--store", "other.db").exit_code == 0
    assert onrecord_json("ls", "--store", "other.db")["runs"][0]["imported"] is True
    assert "imported" in onrecord("ls", "--store", "other.db").stdout


def test_a_fork_says_of_which_run_it_is() -> None:
    record("one")
    with opened() as store:
        begin_fork(store, "one", 2, run_id="other")
    other, one = onrecord_json("ls")["runs"]
    assert one["parent"] is None
    assert other["parent"] == {"run": "one", "seq": 2, "relation": "fork"}
    assert "fork of one" in onrecord("ls").stdout


def test_hostile_names_are_inert() -> None:
    record("one", facts={"agent": "\x1b[2J\x1b]0;owned\x07\u202eevil\n\rfake line"})
    result = onrecord("ls")
    assert len(result.stdout.splitlines()) == 2
    assert not set("\x1b\x07\r\u202e") & set(result.stdout)
    assert "\\x1b[2J" in result.stdout


@pytest.mark.parametrize("facts", [{}, {"agent": 7}, {"agent": {"$unknown": 1}}, {"agent": None}])
def test_facts_without_a_usable_agent(facts: dict[str, object]) -> None:
    record("one", facts=facts)
    assert onrecord_json("ls")["runs"][0]["agent"] is None
    assert " - " in onrecord("ls").stdout


def test_erased_facts() -> None:
    record("one", facts={"agent": "secret-agent"})
    assert onrecord("erase", "--value", "secret-agent", "--yes").exit_code == 0
    assert onrecord_json("ls")["runs"][0]["agent"] is None


def test_damage_does_not_keep_the_others_from_being_listed() -> None:
    record("good")
    record("bad")
    record("bad-too", [Interrupted(value=1), StateUpdated(payload=1), Draft(Resumed(value=2), parent=1, lane="main>a")])
    flip_link("bad-too", 3)
    with tampering() as connection:
        connection.execute("UPDATE runs SET content = x'00' WHERE run = 'bad'")
    runs = {run["run"]: run for run in onrecord_json("ls")["runs"]}
    assert runs.keys() == {"good", "bad", "bad-too"}
    assert runs["bad"]["agent"] is None


def test_without_a_store_nothing_is_made(workspace: Path) -> None:
    for command in (["ls"], ["show", "@last"], ["verify", "@last"], ["verify", "--all"], ["gc", "--keep", "1"]):
        result = onrecord(*command)
        assert result.exit_code == 3, command
        assert_two_lines(result.stderr, "no_store")
        assert "onrecord demo" in result.stderr
    assert list(workspace.iterdir()) == []


def test_an_empty_store_is_not_an_error() -> None:
    with opened():
        pass
    result = onrecord("ls")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no runs" in result.stderr


def test_the_store_is_chosen_by_option_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    record("default")
    record("named", path="other.db")
    assert onrecord_json("ls", "--store", "other.db")["runs"][0]["run"] == "named"
    assert onrecord_json("ls", "--store", "sqlite:///other.db")["runs"][0]["run"] == "named"
    monkeypatch.setenv("ONRECORD_STORE", "other.db")
    assert onrecord_json("ls")["runs"][0]["run"] == "named"
    assert onrecord_json("ls", "--store", STORE)["runs"][0]["run"] == "default"
