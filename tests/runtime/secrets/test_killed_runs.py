"""A process that is killed leaves nothing of its secrets behind, and the next one is handed all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit import command_server
from kit.kept_bytes import places_of

PROGRAM = """
import os, signal, sys
import onrecord

step, store = sys.argv[1], sys.argv[2]
TOKEN = "tok-KILLED-" + "1234567890"

def die_at(name):
    if step == name:
        os.kill(os.getpid(), signal.SIGKILL)

@onrecord.tool(idempotent=True)
def login(password: str) -> dict:
    die_at("inside login")
    return {"access_token": TOKEN}

@onrecord.tool(idempotent=True)
def use(text: str) -> str:
    die_at("inside use")
    assert text == f"with {TOKEN}", text
    return f"used {TOKEN}"

@onrecord.agent(redact=True, store=store)
def agent(password: str) -> str:
    token = login(password)["access_token"]
    die_at("after login")
    answer = use(f"with {token}")
    onrecord.set_state({"token": token})
    die_at("after use")
    return answer

if step == "resume":
    assert agent.resume("r1") == f"used {TOKEN}"
    assert agent.replay("r1") == f"used {TOKEN}"
else:
    agent.run("pass-KILLED-word", run_id="r1")
"""


@pytest.mark.parametrize("step", ["inside login", "after login", "inside use", "after use"])
def test_a_killed_run_goes_on_with_its_secrets(step: str, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()

    def process(what: str) -> int:
        return command_server.call([what, str(folder / "store.db")], code=PROGRAM).returncode

    assert process(step) == -9
    assert places_of("KILLED", folder) == []
    assert process("resume") == 0
    assert places_of("KILLED", folder) == []
