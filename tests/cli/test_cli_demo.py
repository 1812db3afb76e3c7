"""`onrecord demo`, from an empty folder to next steps that work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from kit.cli import STORE, assert_two_lines, onrecord, onrecord_json, onrecord_process
from onrecord.cli.commands import demo


def test_the_demo_from_end_to_end(workspace: Path, tmp_path: Path) -> None:
    scratch, home = tmp_path / "scratch", tmp_path / "home"
    scratch.mkdir()
    home.mkdir()
    outside = {"TMPDIR": str(scratch), "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}
    result = onrecord_process("demo", env=outside)
    assert (result.returncode, result.stderr) == (0, "")
    assert "\n2 mails without Onrecord, 1 with\n" in result.stdout
    assert "Paid with R-0881, mailed once, approved by dana." in result.stdout
    assert "Verification: 19/19 events verified, 0 failures, 0 mismatches - VALID" in result.stdout
    assert "event 7: the content does not match the link" in result.stdout
    assert "Verification: 18/19 events verified, 1 failures, 0 mismatches - INVALID" in result.stdout
    assert result.stdout.index("- VALID") < result.stdout.index("- INVALID") < result.stdout.index(" show @last ")
    assert "Only the run in the store is left of the demo" in result.stdout
    assert "\x1b" not in result.stdout, "plain when piped"
    assert os.listdir(workspace) == [".onrecord"]
    assert sorted(os.listdir(".onrecord")) == [".gitignore", "onrecord.db"]
    assert (os.listdir(scratch), os.listdir(home)) == ([], [])
    first = onrecord_json("ls")["runs"][0]["run"]
    assert_demo_run(onrecord_json("demo"))
    assert [run["run"] for run in onrecord_json("ls")["runs"]][1:] == [first], "it can be repeated"


@pytest.mark.parametrize("where", [[], ["--store", "other.db", "--namespace", "shop"]])
def test_the_next_steps_work_as_printed(where: list[str], tmp_path: Path) -> None:
    """From a folder beside an environment that is not on the PATH, as after `make demo`."""
    script = Path("env/bin/onrecord")
    script.parent.mkdir(parents=True)
    script.write_text(f"#!{sys.executable}\nfrom onrecord.cli.entry import run\nrun()\n")
    script.chmod(0o755)
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    shown = subprocess.run([str(script), "demo", *where], capture_output=True, text=True, env=environment, check=True)
    steps = re.findall(r"^  (env/bin/onrecord .*?)  +\w", shown.stdout, re.MULTILINE)
    assert [step.split()[1] for step in steps] == ["show", "show", "show", "replay", "export", "verify"]
    for step in steps:
        done = subprocess.run(["/bin/sh", "-c", step], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, (step, done.stderr)
    assert os.path.exists(STORE) == (not where)
    assert len(onrecord_json("ls", *where)["runs"]) == 1


@pytest.mark.parametrize(
    ("script", "path", "typed"),
    [
        ("/env/bin/onrecord", "/env/bin", "onrecord"),
        ("/env/bin/onrecord", "/usr/bin", "/env/bin/onrecord"),
        ("/some env/bin/onrecord", "/usr/bin", "'/some env/bin/onrecord'"),
        ("/site-packages/onrecord/cli/main.py", "/env/bin", f"{sys.executable} -m onrecord.cli.main"),
    ],
)
def test_what_the_user_types_for_the_command(
    script: str, path: str, typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [script])
    monkeypatch.setattr("shutil.which", lambda name: f"{path}/{name}" if path == "/env/bin" else None)
    assert demo.own_command() == typed


def assert_demo_run(made: dict[str, Any]) -> None:
    """Fail unless the run of the demo is the last one and has everything."""
    assert made["valid"] is True
    assert (made["with"], made["without"]) == ({"mails": 1, "payments": 1}, {"mails": 2, "payments": 2})
    assert made["altered_copy"]["valid"] is False
    assert [problem["seq"] for problem in made["altered_copy"]["problems"]] == [7]
    shown = onrecord_json("show", "@last")
    assert (shown["run"], shown["status"]) == (made["run"], "completed")
    assert shown["facts"]["origin"]["module"] == "onrecord.cli.commands.demo_agent"
    kinds = {event["kind"] for event in shown["timeline"]}
    assert kinds == {"StateUpdated", "ActionRequested", "ActionSucceeded", "WaitCreated", "WaitResolved", "Completed"}
    assert onrecord_json("verify", "@last", "--deep")["nodes"] > 0, "the conversation is shared"
    asked = [event for event in shown["timeline"] if "ask_for_approval" in str(event["key"])]
    assert asked[0]["content"]["payload"]["key"].startswith("<wait key "), "the key is not on record"


@pytest.mark.parametrize("broken", ["alteration", "counting"])
def test_the_demo_fails_when_it_does_not_show_what_it_says(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken == "alteration":
        monkeypatch.setattr(demo, "ALTERED_PRICE", demo.PRICE)
    else:
        monkeypatch.setattr("onrecord.cli.commands.demo_agent.World.count", lambda *_: 1)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    result = onrecord("demo")
    assert result.exit_code == 70
    assert_two_lines(result.stderr, "demo_failed")
    assert os.listdir(scratch) == []


def test_a_store_that_dies_with_the_process_is_refused() -> None:
    result = onrecord("demo", "--store", "memory://")
    assert result.exit_code == 2
    assert_two_lines(result.stderr, "usage")
