"""docs/fleet.md: what it says to type works, and its tables are those of the code."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from reenact.replays.fleet.results import OUTCOMES, FleetReport

DOCUMENT = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text()


def test_the_commands_work(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REENACT_KEY_FILE", str(tmp_path / "keys.json"))
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    (console,) = re.findall(r"```console\n(.*?)```", DOCUMENT, re.DOTALL)
    Path("agent.py").write_text(program)
    lines = [line.removeprefix("$ ") for line in console.splitlines()]
    assert len(lines) == 5
    for line in lines:
        name, *words = shlex.split(line, comments=True)
        command = [sys.executable, *({"python": [], "reenact": ["-m", "reenact.cli.main"]}[name]), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=dict(os.environ))
        assert done.returncode == 0, (line, done.stdout, done.stderr)
    assert Path("results.xml").exists()


def test_every_verdict_and_every_member_is_told() -> None:
    named = set(re.findall(r"`([a-z_]+)`", DOCUMENT))
    assert OUTCOMES.keys() - {"not_judged"} <= named
    report = FleetReport(command="replay", namespace="", results=[], selected=0, to_judge=0, to_judge_here=0)
    assert report.to_data().keys() <= named


def test_the_matrix_asks_for_every_shard() -> None:
    (shards,) = re.findall(r"shard: \[([\d, ]+)\]", DOCUMENT)
    (total,) = re.findall(r"--shard \$\{\{ matrix\.shard \}\}/(\d+)", DOCUMENT)
    assert [int(one) for one in shards.split(",")] == list(range(1, int(total) + 1))
