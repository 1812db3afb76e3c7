"""An operator's word on an effect is redacted like the answer that it stands for, and the run goes on with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kept_bytes import places_of

PROGRAM = """
import os, signal, sys
import reenact

@reenact.tool
def login() -> dict:
    os.kill(os.getpid(), signal.SIGKILL)

@reenact.tool(idempotent=True)
def use(token: str) -> str:
    return f"{len(token)} {token[-4:]}"

@reenact.agent(redact=True, store=sys.argv[2])
def agent() -> str:
    try:
        return use(login()["access_token"])
    except reenact.ReenactError as error:
        return str(error)[-4:]

if sys.argv[1] == "run":
    agent.run(run_id="r1")
print(agent.resume("r1"), agent.replay("r1"))
"""
TOKEN = "sk-proj-SETTLED-1234567890abcd"


def _python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=dict(os.environ), capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("decision", ["done", "fail"])
def test_what_an_operator_says_is_kept_out_and_the_run_has_it(decision: str, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    (tmp_path / "agent.py").write_text(PROGRAM)
    url = str(folder / "store.db")
    assert _python(tmp_path, "agent.py", "run", url).returncode < 0
    word = json.dumps({"access_token": TOKEN}) if decision == "done" else f"it said {TOKEN}"
    settled = _python(tmp_path, "-m", "reenact.cli.main", "--store", url, "settle", "r1", f"--{decision}", word)
    assert settled.returncode == 0, settled.stderr
    assert places_of("SETTLED", folder) == []
    resumed = _python(tmp_path, "agent.py", "resume", url)
    outcome = f"{len(TOKEN)} abcd" if decision == "done" else "abcd"
    assert resumed.stdout == f"{outcome} {outcome}\n", resumed.stderr
    assert places_of("SETTLED", folder) == []
    assert _python(tmp_path, "-m", "reenact.cli.main", "--store", url, "scan", "--all").returncode == 0
