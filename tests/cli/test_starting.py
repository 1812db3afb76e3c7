"""A program that is started at once is told the same as one that the command starts, and little is loaded for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kit.cli import onrecord, onrecord_process
from kit.paths import ROOT
from onrecord.capture.program_task import VARIABLE, ProgramTask
from onrecord.cli.fast_start import start_at_once

HEAVY = {"click", "rich", "typing", "re", "hashlib", "secrets", "json", "msgspec", "apsw", "asyncio", "pathlib"}


class Became(BaseException):
    """What this process would have become."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.command = command
        self.environment = environment

    def task(self) -> dict[str, Any]:
        task = msgspec.json.decode(self.environment[VARIABLE], type=ProgramTask)
        assert task.program.hash_seed == int(self.environment["PYTHONHASHSEED"])
        told: dict[str, Any] = msgspec.to_builtins(task)
        assert len(told.pop("run")) == 20
        assert 0 < told["program"].pop("hash_seed") < 2**32
        return told


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def become(_: str, command: list[str], environment: dict[str, str]) -> None:
        raise Became(command, environment)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execve", become)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    for name in ("agent.py", "tool", 'odd ☃ "name\\.py'):
        Path(name).write_text("")
    return


@pytest.mark.parametrize(
    "words",
    [
        ["agent.py"],
        ["./agent.py", "--question", "Where is my order?", "--", "-m", "--store"],
        ["tool", "-v", "--json", "--help"],
        ['odd ☃ "name\\.py', "ä", "\n\t\x01", '{"a": "\\u0000"}', ""],
        ["--store", "here.db", "agent.py"],
        ["--store=sqlite:///here.db", "agent.py", "--strict"],
        ["--store", "postgresql://host/name", "agent.py"],
        ["--strict", "--durable-sleeps", "agent.py", "--durable-sleeps"],
        ["-m", "shop.main"],
        ["--strict", "-m", "shop.main", "-m", "--run-id", "x"],
    ],
)
def test_what_starts_at_once_is_told_the_same_as_by_the_command(words: list[str]) -> None:
    with pytest.raises(Became) as at_once:
        start_at_once(["run", *words])
    with pytest.raises(Became) as by_command:
        onrecord("run", *words)
    assert at_once.value.command == by_command.value.command
    assert at_once.value.task() == by_command.value.task()
    assert set(at_once.value.environment) == set(by_command.value.environment)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["run"],
        ["run", "--help"],
        ["run", "--strict"],
        ["run", "missing.py"],
        ["run", "agent.py:support"],
        ["run", "agent.py", "--input", "{}"],
        ["run", "--input", "{}", "agent.py"],
        ["run", "--run-id", "x", "agent.py"],
        ["run", "--json", "agent.py"],
        ["run", "--store"],
        ["run", "--store=", "agent.py"],
        ["run", "--store", "--strict", "agent.py"],
        ["run", "--storey=x", "agent.py"],
        ["run", "-m"],
        ["run", "-m", "shop:main"],
        ["run", "-mshop"],
        ["run", "--", "python", "agent.py"],
        ["run", "agent.py", "\udcff"],
        ["--store", "x", "run", "agent.py"],
        ["resume", "agent.py"],
    ],
)
def test_anything_else_is_left_to_the_command(words: list[str]) -> None:
    try:
        start_at_once(words)
    except Became as became:
        pytest.fail(f"it was started at once: {became.environment[VARIABLE]}")


def test_what_is_wrong_with_the_project_is_told_by_the_command() -> None:
    Path("pyproject.toml").write_text("[tool")
    start_at_once(["run", "agent.py"])
    result = onrecord_process("run", "agent.py")
    assert result.returncode == 2
    assert "pyproject.toml" in result.stderr


def test_a_hash_seed_of_the_users_own_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    with pytest.raises(Became) as at_once:
        start_at_once(["run", "agent.py"])
    assert at_once.value.environment["PYTHONHASHSEED"] == "0"
    assert '"hash_seed":0' in at_once.value.environment[VARIABLE]


def test_a_program_is_started_before_anything_is_loaded() -> None:
    show = "os.execve = lambda *_: (print('|'.join(sys.modules)), sys.stdout.flush(), os._exit(0))"
    code = f"import os, sys; {show}; from onrecord.cli.entry import run; run()"
    command = [sys.executable, "-S", "-c", code, "run", "agent.py", "word"]
    source = str(ROOT / "src")  # without `site`, whose own .pth files may load anything
    environment = {**os.environ, "PYTHONPATH": source}
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=True)
    loaded = set(result.stdout.strip().split("|"))
    assert "onrecord.cli.fast_start" in loaded
    assert not loaded & HEAVY
