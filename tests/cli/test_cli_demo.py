"""`reenact demo`, from an empty folder to next steps that work."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest
from cli_support import STORE, reenact, reenact_json, reenact_process

from reenact.cli import demo


def test_the_demo_from_end_to_end(workspace: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    result = reenact_process("demo", env={"TMPDIR": str(scratch)})
    assert (result.returncode, result.stderr) == (0, "")
    assert "Verification: 13/13 events verified, 0 failures, 0 mismatches - VALID" in result.stdout
    assert "event 8: the content does not match the link" in result.stdout
    assert "Verification: 12/13 events verified, 1 failures, 0 mismatches - INVALID" in result.stdout
    assert result.stdout.index("- VALID") < result.stdout.index("- INVALID") < result.stdout.index("reenact show @last")
    assert "\x1b" not in result.stdout, "plain when piped"
    assert os.listdir(workspace) == [".reenact"]
    assert sorted(os.listdir(".reenact")) == [".gitignore", "reenact.db"]
    assert os.listdir(scratch) == []


def test_the_next_steps_work() -> None:
    steps = re.findall(r"^  reenact (.*?)  +\w", reenact("demo").stdout, re.MULTILINE)
    assert [step.split()[0] for step in steps] == ["show", "show", "show", "export", "verify"]
    for step in steps:
        assert reenact(*step.split()).exit_code == 0, step


def test_the_demo_run_is_the_last_one_and_has_everything() -> None:
    made = reenact_json("demo")
    assert made["valid"] is True
    assert made["altered_copy"]["valid"] is False
    assert [problem["seq"] for problem in made["altered_copy"]["problems"]] == [8]
    shown = reenact_json("show", "@last")
    assert shown["run"] == made["run"]
    kinds = {event["kind"] for event in shown["timeline"]}
    assert kinds == {
        "StateUpdated",
        "ActionRequested",
        "ActionSucceeded",
        "Interrupted",
        "Resumed",
        "Completed",
    }
    assert reenact_json("verify", "@last", "--deep")["nodes"] > 0, "the conversation is shared"


def test_the_demo_can_be_repeated() -> None:
    first, second = reenact_json("demo")["run"], reenact_json("demo")["run"]
    assert [run["run"] for run in reenact_json("ls")["runs"]] == [second, first]


def test_the_demo_fails_when_the_alteration_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "ALTERED_ANSWER", demo.ANSWER)
    before = set(os.listdir(tempfile.gettempdir()))
    result = reenact("demo")
    assert result.exit_code == 70
    assert not {name for name in set(os.listdir(tempfile.gettempdir())) - before if name.startswith("reenact-demo")}


def test_the_demo_goes_into_the_store_that_is_named() -> None:
    assert reenact("demo", "--store", "other.db").exit_code == 0
    assert not os.path.exists(STORE)
    assert len(reenact_json("ls", "--store", "other.db")["runs"]) == 1
