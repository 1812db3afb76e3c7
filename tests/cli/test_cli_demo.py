"""`reenact demo`, from an empty folder to next steps that work."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest
from cli_support import STORE, assert_two_lines, reenact, reenact_json, reenact_process

from reenact.cli import demo


def test_the_demo_from_end_to_end(workspace: Path, tmp_path: Path) -> None:
    scratch, home = tmp_path / "scratch", tmp_path / "home"
    scratch.mkdir()
    home.mkdir()
    outside = {"TMPDIR": str(scratch), "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}
    result = reenact_process("demo", env=outside)
    assert (result.returncode, result.stderr) == (0, "")
    assert "\n2 mails without Reenact, 1 with\n" in result.stdout
    assert "Paid with R-0881, mailed once, sent by leave of dana." in result.stdout
    assert "Verification: 19/19 events verified, 0 failures, 0 mismatches - VALID" in result.stdout
    assert "event 7: the content does not match the link" in result.stdout
    assert "Verification: 18/19 events verified, 1 failures, 0 mismatches - INVALID" in result.stdout
    assert (
        result.stdout.index("- VALID") < result.stdout.index("- INVALID") < result.stdout.index("reenact show @last ")
    )
    assert "Nothing is left of the demo but its run in the store" in result.stdout
    assert "\x1b" not in result.stdout, "plain when piped"
    assert os.listdir(workspace) == [".reenact"]
    assert sorted(os.listdir(".reenact")) == [".gitignore", "reenact.db"]
    assert (os.listdir(scratch), os.listdir(home)) == ([], [])


def test_the_next_steps_work() -> None:
    steps = re.findall(r"^  reenact (.*?)  +\w", reenact("demo").stdout, re.MULTILINE)
    assert [step.split()[0] for step in steps] == ["show", "show", "show", "replay", "export", "verify"]
    for step in steps:
        assert reenact(*step.split()).exit_code == 0, step


def test_the_demo_run_is_the_last_one_and_has_everything() -> None:
    made = reenact_json("demo")
    assert made["valid"] is True
    assert (made["with"], made["without"]) == ({"mails": 1, "payments": 1}, {"mails": 2, "payments": 2})
    assert made["altered_copy"]["valid"] is False
    assert [problem["seq"] for problem in made["altered_copy"]["problems"]] == [7]
    shown = reenact_json("show", "@last")
    assert (shown["run"], shown["status"]) == (made["run"], "completed")
    assert shown["facts"]["origin"]["module"] == "reenact.cli.demo_agent"
    kinds = {event["kind"] for event in shown["timeline"]}
    assert kinds == {
        "StateUpdated",
        "ActionRequested",
        "ActionSucceeded",
        "WaitCreated",
        "WaitResolved",
        "Completed",
    }
    assert reenact_json("verify", "@last", "--deep")["nodes"] > 0, "the conversation is shared"


def test_the_wait_key_of_the_demo_is_not_on_record() -> None:
    reenact_json("demo")
    asked = [event for event in reenact_json("show", "@last")["timeline"] if "ask_for_approval" in str(event["key"])]
    assert asked[0]["content"]["payload"]["key"].startswith("<wait key ")


def test_the_demo_can_be_repeated() -> None:
    first, second = reenact_json("demo")["run"], reenact_json("demo")["run"]
    assert [run["run"] for run in reenact_json("ls")["runs"]] == [second, first]


@pytest.mark.parametrize("broken", ["alteration", "counting"])
def test_the_demo_fails_when_it_does_not_show_what_it_says(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken == "alteration":
        monkeypatch.setattr(demo, "ALTERED_PRICE", demo.PRICE)
    else:
        monkeypatch.setattr("reenact.cli.demo_agent.World.count", lambda *_: 1)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    result = reenact("demo")
    assert result.exit_code == 70
    assert_two_lines(result.stderr, "demo_failed")
    assert os.listdir(scratch) == []


def test_the_demo_goes_into_the_store_and_namespace_that_are_named() -> None:
    assert reenact("demo", "--store", "other.db", "--namespace", "shop").exit_code == 0
    assert not os.path.exists(STORE)
    assert len(reenact_json("ls", "--store", "other.db", "--namespace", "shop")["runs"]) == 1


def test_a_store_that_dies_with_the_process_is_refused() -> None:
    result = reenact("demo", "--store", "memory://")
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "usage")
