"""Programs whose code is gone, and stores that nobody can write to."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kit.cli import assert_two_lines, onrecord_process

PROGRAM = "import time\nprint(time.time())\n"
UNFINISHED = "import os, signal, time\ntime.sleep(0)\ntime.time()\nos.kill(os.getpid(), signal.SIGKILL)\n"
PARENT = PROGRAM + "import subprocess, sys\nsubprocess.run([sys.executable, 'program.py'], check=True)\n"


@pytest.fixture(autouse=True)
def folder(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))


def recorded(text: str, *words: str, name: str = "program.py") -> None:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(text)
    done = onrecord_process("run", "--run-id", "one", *(words or (name,)))
    assert done.returncode in (0, -9), done.stderr


@pytest.mark.parametrize("command", [("replay", "one"), ("fork", "one", "--at", "1", "--fork-id", "two")])
def test_a_script_that_is_gone_is_told_before_anything_is_done(command: tuple[str, ...]) -> None:
    recorded(PROGRAM)
    Path("program.py").unlink()
    done = onrecord_process(*command)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[-2].endswith("[no_file]")
    assert "program.py" in done.stderr
    assert "two" not in onrecord_process("ls").stdout, "no fork was begun"


def test_a_run_that_was_cut_off_does_not_go_on_without_its_script() -> None:
    recorded(UNFINISHED)
    Path("program.py").unlink()
    done = onrecord_process("resume", "one")
    assert done.returncode == 3
    assert_two_lines(done.stderr, "no_file")


def test_the_result_of_an_ended_run_needs_no_script() -> None:
    recorded(PROGRAM)
    Path("program.py").unlink()
    assert onrecord_process("resume", "one").returncode == 0


def test_a_module_that_is_gone() -> None:
    recorded(PROGRAM, "-m", "shop.main", name="shop/main.py")
    shutil.rmtree("shop")
    done = onrecord_process("replay", "one")
    assert done.returncode == 3
    assert_two_lines(done.stderr, "no_module")


def test_a_command_that_is_gone() -> None:
    Path("start").write_text(f"#!/bin/sh\nexec {sys.executable} program.py\n")
    Path("start").chmod(0o755)
    recorded(PROGRAM, "--", "./start")
    Path("start").unlink()
    done = onrecord_process("replay", "one")
    assert done.returncode == 3
    assert_two_lines(done.stderr, "no_command")


# A file system that nobody can write to

MOUNTED = 'mount --bind .onrecord .onrecord && mount -o remount,ro,bind .onrecord && exec "$@"'


def with_read_only_store(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["unshare", "-rm", "sh", "-c", MOUNTED, "sh", sys.executable, "-m", "onrecord.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90)


@pytest.fixture
def mounting() -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("no private mount namespaces here (unshare -rm)")


@pytest.mark.usefixtures("mounting")
def test_a_replay_needs_no_store_to_write_to() -> None:
    """Nor do its processes, nor a fleet."""
    Path("program.py").write_text(PROGRAM)
    recorded(PARENT, name="parent.py")
    done = with_read_only_store("replay", "one")
    assert done.returncode == 0, done.stderr
    assert "the same in all" in done.stderr
    done = with_read_only_store("replay", "--all")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("mounting")
def test_what_would_be_recorded_in_a_read_only_store_is_refused_in_words_of_the_command_line() -> None:
    recorded(PROGRAM)
    done = with_read_only_store("run", "program.py")
    assert done.returncode == 125
    assert_two_lines(done.stderr, "read_only")
