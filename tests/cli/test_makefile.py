"""`make` lists its targets, and ends in one sentence where Python is too old."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kit.paths import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    command = ["make", "-C", str(ROOT), "--no-print-directory", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)


def test_make_alone_prints_every_target() -> None:
    done = make()
    assert done.returncode == 0, done.stderr
    listed = re.findall(r"^  make (\w+) +\w", done.stdout, re.MULTILINE)
    phony = re.findall(r"\.PHONY: (.*)", MAKEFILE)[0].split()
    assert sorted(listed) == sorted(set(phony) - {"browser"})


@pytest.mark.parametrize("target", ["help", "demo", "test", "docs", "check"])
@pytest.mark.parametrize("answer", ["echo 3.10.13 0", "exit 1"])
def test_an_old_python_ends_in_one_sentence(target: str, answer: str, tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\n{answer}\n")
    python.chmod(0o755)
    done = make(target, f"PYTHON={python}")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "Onrecord needs Python 3.11 or newer" in line
