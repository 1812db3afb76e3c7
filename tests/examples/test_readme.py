"""The README is short, and its commands print what it says."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from kit.commands import run
from kit.paths import ROOT

README = (ROOT / "README.md").read_text()
CONSOLE = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
VARYING = [(r"\b[0-9a-f]{20}\b", "ID"), (r"\d+:\d\d:\d\d", "TIME"), (r"127\.0\.0\.1:\d+", "HOST")]
VARYING += [(r"[\d.]+ m?s\b", "SPAN"), (r" · cost [\d.]+|, <?\$[\d.]+$", ""), (r" +", " ")]


def stable(line: str) -> str:
    for pattern, name in VARYING:
        line = re.sub(pattern, name, line)
    return line.strip()


def session(block: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a console block, each with the lines below it."""
    parts = re.split(r"^\$ (.*)$", block, flags=re.MULTILINE)[1:]
    return [(command, lines.strip("\n").splitlines()) for command, lines in zip(parts[::2], parts[1::2], strict=True)]


def assert_prints(lines: list[str], printed: str) -> None:
    """Assert that exactly these lines are printed. A `…` replaces any text, alone on a line any number of lines."""
    parts = ["(?:.*\n)*?" if line == "…" else pattern_of(stable(line)) for line in lines]
    text = "".join(stable(line) + "\n" for line in printed.splitlines())
    assert re.fullmatch("".join(parts), text), printed


def pattern_of(line: str) -> str:
    return ".*".join(map(re.escape, line.split("…"))) + "\n"


def test_it_fits_two_screens() -> None:
    lines = README.splitlines()
    assert len(lines) <= 110
    assert [line for line in lines if len(line) > 100] == []
    assert README.count("![") == 1
    assert "PyPI" in README


def test_the_three_commands_print_what_it_says(tmp_path: Path, environment: dict[str, str]) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    enter, key, *block = next(session(block) for block in CONSOLE if "onrecord run" in block)
    assert (enter, key) == (("cd examples", []), ("export OPENAI_API_KEY=sk-…", []))
    assert [command.split()[1] for command, _ in block] == ["run", "replay", "show"]
    for command, lines in block:
        status, printed = run(command, tmp_path / "examples", {**environment, "COLUMNS": "200"})
        assert status == 0, printed
        assert_prints(lines, printed)


@pytest.mark.parametrize("lines", [["one", "three"], ["one", "two"], ["one", "…"], ["…", "two", "three", "…"]])
def test_a_line_that_is_left_out_needs_an_ellipsis(lines: list[str]) -> None:
    if "…" in lines:
        assert_prints(lines, "one\ntwo\nthree\n")
    else:
        with pytest.raises(AssertionError):
            assert_prints(lines, "one\ntwo\nthree\n")


def test_its_agent_is_killed_and_resumed_as_it_says(tmp_path: Path, environment: dict[str, str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 12
    assert "kill -9 it here, then type: onrecord resume first" in code
    (tmp_path / "support.py").write_text(code)
    (_, first), (resume, second) = next(session(block) for block in CONSOLE if "resume first" in block)
    with subprocess.Popen(
        ["python", "support.py"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == first[0]
        while "ActionSucceeded" not in run("onrecord show first", tmp_path, environment)[1]:
            assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
    status, printed = run(resume, tmp_path, environment)
    assert status == 0, printed
    assert printed.splitlines() == second
    assert run("onrecord verify first", tmp_path, environment)[0] == 0


def test_every_file_that_it_names_exists() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).exists(), target
