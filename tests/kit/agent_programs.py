"""Programs for the tests of `run`, `resume` and their like, written into the test's own folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from kit.cli import onrecord
from kit.processes import restore_interrupts

PROGRAM = """
import os, signal, threading
import onrecord


def happened(what):
    with open("ledger", "a") as ledger:
        ledger.write(what + "\\n")


@onrecord.tool
def mail(to):
    happened(f"mail {to}")
    if os.path.exists("die"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "sent"


@onrecord.step
def add(left, right):
    return left + right


@onrecord.agent
def support(name, times=1):
    print("printed by the agent")
    for _ in range(times):
        mail(name)
    return {"told": name, "sum": add(1, 2)}


@onrecord.agent
async def greeter(name):
    add(1, 2)
    return f"hello {name}"


@onrecord.agent
def failing(message):
    mail("somebody")
    raise ValueError(message)


@onrecord.agent
async def asking():
    add(1, 2)
    return await onrecord.wait_for("approval")


@onrecord.agent
def asking_in_a_thread():
    add(1, 2)
    return onrecord.wait_for("approval")


@onrecord.agent
def threaded():
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(onrecord.wait_for("approval")))
    waiting.start()
    waiting.join()
    return answers


@onrecord.agent
def sleeping():
    add(1, 2)
    onrecord.sleep(60)


@onrecord.agent
def deciding(question):
    return [question, onrecord.interrupt({"question": question})]


@onrecord.agent
def leaving():
    raise SystemExit(9)


def plain(left, right=2):
    return left + right
"""


def write_program(text: str = PROGRAM, name: str = "shop.py") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def change_program(old: str, new: str) -> None:
    path = Path("shop.py")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def ledger() -> list[str]:
    path = Path("ledger")
    return path.read_text().splitlines() if path.exists() else []


def begun(*arguments: str) -> subprocess.Popen[str]:
    """Start a real process, which tests may send signals to."""
    return subprocess.Popen(
        [sys.executable, "-m", "onrecord.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env=dict(os.environ),
        preexec_fn=restore_interrupts,
    )


def until(status: str, *, events: int = 0) -> str:
    """Waits until the last run stands so; its id."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        listed = onrecord("ls", "--limit", "1", "--json")
        runs = json.loads(listed.stdout)["runs"] if listed.exit_code == 0 else []  # the store may be in the making
        if runs and runs[0]["status"] == status and runs[0]["events"] >= events:
            run: str = runs[0]["run"]
            return run
        time.sleep(0.02)
    raise AssertionError(f"no run came to be {status}: {onrecord('ls').output}")
