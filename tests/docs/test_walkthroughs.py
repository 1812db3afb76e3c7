"""Follow the tutorial and the guides from top to bottom, as a reader does.

A code block whose fence names a file (` ```python agent.py `) is written to that file. In a console block each `$ `
line is a command. The lines below it occur in its output, in this order, each once; `…` matches anything. A command
ends with 0, or with the status in its comment (`# ends with 1`). Port 8123 is replaced by a free one.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from kit.command_server import ForkedProcess

ROOT = Path(__file__).parents[2]
WALKTHROUGHS = [ROOT / "docs" / "start" / "tutorial.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)(?: ([\w./-]+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
STATUS = re.compile(r"# ends with (\d+)")
SHELL = re.compile(r"[|&;<>$`*?\\]")
"""Characters that a shell reads, so the command is not forked from the loaded one."""
SECONDS = 120


class Command(NamedTuple):
    line: str
    expected: list[str]

    @property
    def status(self) -> int:
        said = STATUS.search(self.line)
        return int(said[1]) if said is not None else 0


def commands_of(block: str) -> list[Command]:
    found: list[Command] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], []))
        elif line.strip() not in ("", "…"):
            found[-1].expected.append(line.strip())
    return found


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


def pattern_of(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part.strip()) for part in line.split("…")))


class Reader:
    """Runs the commands of a document in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = str(free_port())
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
            "ONRECORD_KEY_FILE": str(folder.parent / "keys.json"),
            "COLUMNS": "160",
            "NO_COLOR": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # a reader has no other plugin
            "PYTEST_PLUGINS": "onrecord.pytest_plugin.plugin",
        }
        self.environment.pop("ONRECORD_STORE", None)
        self.environment.pop("CI", None)
        self.background: list[subprocess.Popen[bytes]] = []

    def follow(self, text: str) -> int:
        done = 0
        for kind, file, block in BLOCK.findall(text.replace("8123", self.port)):
            if file:
                path = self.folder / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block)
            elif kind == "console":
                for command in commands_of(block):
                    self._do(command)
                    done += 1
        return done

    def _do(self, command: Command) -> None:
        line = command.line.partition("  #")[0].strip()
        if line.endswith("&"):
            self._start(line.removesuffix("&").strip())
            return
        status, printed = self._run(line)
        assert status == command.status, f"$ {line}\n{printed}"
        left = [re.sub(r"\s+", " ", one).strip() for one in printed.splitlines()]
        for expected in command.expected:
            wanted = pattern_of(re.sub(r"\s+", " ", expected))
            at = next((number for number, one in enumerate(left) if wanted.search(one)), None)
            assert at is not None, f"$ {line}\ndoes not print {expected!r}:\n{printed}"
            del left[: at + 1]

    def _run(self, line: str) -> tuple[int, str]:
        """Return the status, as a shell reports it, and both streams of a command."""
        with tempfile.TemporaryFile() as printed, open(os.devnull) as nothing:
            streams = {0: nothing.fileno(), 1: printed.fileno(), 2: printed.fileno()}
            if line.startswith("onrecord ") and not SHELL.search(line):
                arguments = shlex.split(line)[1:]
                status = ForkedProcess(arguments, streams, cwd=self.folder, env=self.environment).wait(SECONDS)
            else:
                status = subprocess.run(
                    ["bash", "-c", line],
                    cwd=self.folder,
                    env=self.environment,
                    stdin=nothing,
                    stdout=printed,
                    stderr=printed,
                    timeout=SECONDS,
                ).returncode
            printed.seek(0)
            return (status if status >= 0 else 128 - status), printed.read().decode()

    def _start(self, line: str) -> None:
        process = subprocess.Popen(["bash", "-c", f"exec {line}"], cwd=self.folder, env=self.environment)
        self.background.append(process)
        for _ in range(SECONDS * 10):
            with socket.socket() as asking:
                asking.settimeout(0.1)
                if asking.connect_ex(("127.0.0.1", int(self.port))) == 0:
                    return
            assert process.poll() is None, f"$ {line} has ended"
            time.sleep(0.1)
        raise AssertionError(f"$ {line} serves nothing on port {self.port}")

    def leave(self) -> None:
        for process in self.background:
            process.terminate()
            process.wait(20)


@pytest.mark.parametrize("path", WALKTHROUGHS, ids=lambda path: path.name)
def test_a_document_can_be_followed(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    reader = Reader(folder)
    try:
        assert reader.follow(path.read_text()) > 2
    finally:
        reader.leave()


def test_what_a_document_promises_and_does_not_come_is_seen(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    reader.follow("```console\n$ echo one two three\none … three\n$ false   # ends with 1\n```\n")
    for wrong in ("$ echo one\ntwo", "$ false", "$ echo b; echo a\na\nb"):
        with pytest.raises(AssertionError):
            reader.follow(f"```console\n{wrong}\n```\n")
