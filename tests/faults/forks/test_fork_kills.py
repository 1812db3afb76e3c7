"""A fork that is killed at any point of its tail goes on under the policy that it began with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent


def lives(tmp_path: Path, tail: str, *tools: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])]),
        "REENACT_KEY_FILE": str(tmp_path / "keys.json"),
    }
    command = [sys.executable, str(HERE / "fork_life.py"), str(tmp_path / "store.db"), str(tmp_path / "ledger"), tail]
    done = subprocess.run([*command, *tools], capture_output=True, text=True, env=environment, timeout=110, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    recorded, *found = [json.loads(line) for line in done.stdout.splitlines()]
    return recorded, found


def begun(life: dict[str, Any]) -> bool:
    """The fork was on record when it was killed."""
    return "NotFound" not in life.get("error", "")


def test_a_mocked_tail_that_is_killed_anywhere(tmp_path: Path) -> None:
    recorded, found = lives(tmp_path, "mocked")
    assert len(found) > 20
    assert sum(map(begun, found)) > 20
    for life in filter(begun, found):
        assert not life["did"], life
        assert life.get("result") == recorded["recorded"] == life.get("replayed"), life
        assert not life["doubts"], life


def test_a_live_tail_that_is_killed_anywhere_does_nothing_unnamed(tmp_path: Path) -> None:
    recorded, found = lives(tmp_path, "live")
    assert sum(map(begun, found)) > 20
    for life in filter(begun, found):
        assert {name for name, _ in life["did"]} <= {"think"}, life
        assert life.get("result") == recorded["recorded"] == life.get("replayed"), life
        assert not life["doubts"], life


@pytest.mark.parametrize("tools", [("mail",), ("mail", "lot")])
def test_a_named_tool_is_carried_out_once_or_in_doubt(tmp_path: Path, tools: tuple[str, ...]) -> None:
    _, found = lives(tmp_path, "live", *tools)
    assert sum(map(begun, found)) > 20
    doubts = 0
    for life in filter(begun, found):
        counted = Counter((name, what) for name, what in life["did"])
        assert {name for name, _ in counted} <= {"think", *tools}, life
        assert max((count for (name, _), count in counted.items() if name == "mail"), default=0) <= 1, life
        assert counted["lot", "same"] <= 3, life
        assert counted["lot", "child"] <= 1, life
        assert "result" in life, life
        assert life["result"] == life["replayed"], life
        in_doubt = [message for message in life["doubts"] if "mail" in message]
        mailed = sum(count for (name, _), count in counted.items() if name == "mail")
        assert mailed + len(in_doubt) >= 2, life  # each was done, or somebody had to say
        doubts += len(in_doubt)
    assert doubts, "a tool that was begun and has no answer is in doubt, as ever"
