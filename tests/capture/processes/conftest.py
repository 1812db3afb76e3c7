"""A folder with programs in it, and the command line. Effects leave a line in a ledger when they are really done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from kit import command_server
from kit.processes import restore_interrupts

WORK = """
import os, random, time, uuid
import onrecord


@onrecord.step
def work(number):
    with open(os.environ["LEDGER"], "a") as ledger:
        ledger.write(f"{number}\\n")
    return number * 10


def much(number):
    return [work(number), random.random(), uuid.uuid4().hex, time.time()]
"""


class Box:
    """Where the programs are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger_file = folder / "ledger"
        self.environment = {
            **os.environ,
            "LEDGER": str(self.ledger_file),
            "ONRECORD_KEY_FILE": str(folder / "keys.json"),
            "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
        }
        for name in ("ONRECORD_STORE", "PYTHONHASHSEED", "PYTHONPATH"):
            self.environment.pop(name, None)
        self.write("work.py", WORK)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(textwrap.dedent(text))

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "onrecord.cli.main", *arguments]

    def onrecord(self, *arguments: str, input: str | None = None) -> subprocess.CompletedProcess[str]:  # noqa: A002
        return command_server.call(arguments, cwd=self.folder, env=self.environment, input=input)

    def started(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Start the command for real, in a session of its own, which it may kill."""
        process = self.begun(*arguments, start_new_session=True)
        stdout, stderr = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def begun(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            **{
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                "text": True,
                "preexec_fn": restore_interrupts,
                "cwd": self.folder,
                "env": self.environment,
                **options,
            },
        )

    @property
    def ledger(self) -> list[int]:
        return sorted(int(line) for line in self.ledger_file.read_text().split()) if self.ledger_file.exists() else []

    def runs(self, *options: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.onrecord("ls", "--json", *options).stdout)["runs"]
        return found

    def shown(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.onrecord("show", run, "--json").stdout)
        return found


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)
