"""An operator's word on an effect is redacted like the answer that it stands for, and the run goes on with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.command_server import call
from kit.kept_bytes import places_of

PROGRAM = """
import os, signal, sys
import onrecord

@onrecord.tool
def login() -> dict:
    os.kill(os.getpid(), signal.SIGKILL)

@onrecord.tool(idempotent=True)
def use(token: str) -> str:
    return f"{len(token)} {token[-4:]}"

@onrecord.agent(redact=True, store=sys.argv[2])
def agent() -> str:
    try:
        return use(login()["access_token"])
    except onrecord.OnrecordError as error:
        return str(error)[-4:]

if sys.argv[1] == "run":
    agent.run(run_id="r1")
print(agent.resume("r1"), agent.replay("r1"))
"""
TOKEN = "sk-proj-SETTLED-1234567890abcd"


@pytest.mark.parametrize("decision", ["done", "fail"])
def test_what_an_operator_says_is_kept_out_and_the_run_has_it(decision: str, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    url = str(folder / "store.db")
    assert call(["run", url], code=PROGRAM).returncode < 0
    word = json.dumps({"access_token": TOKEN}) if decision == "done" else f"it said {TOKEN}"
    settled = call(["--store", url, "settle", "r1", f"--{decision}", word])
    assert settled.returncode == 0, settled.stderr
    assert places_of("SETTLED", folder) == []
    resumed = call(["resume", url], code=PROGRAM)
    outcome = f"{len(TOKEN)} abcd" if decision == "done" else "abcd"
    assert resumed.stdout == f"{outcome} {outcome}\n", resumed.stderr
    assert places_of("SETTLED", folder) == []
    assert call(["--store", url, "scan", "--all"]).returncode == 0
