"""Environments: each framework has one of its own below `.frameworks`, so that none holds another back."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from frameworks.catalogue import Framework

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".frameworks"
INSTALL_SECONDS = 1200


class NotInstalled(Exception):
    """The last lines that pip wrote."""


def install(framework: Framework) -> Path:
    """Make the environment, unless it is there. Return its folder of commands."""
    folder = FOLDER / framework.name
    stamp = folder / ".done"
    if not stamp.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile"]
        command = [*pip, "--editable", str(ROOT), *framework.packages]
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        if done.returncode:
            raise NotInstalled(done.stderr[-500:])
        stamp.touch()
    return folder / "bin"


def find_version(framework: Framework) -> str:
    package = re.split(r"\[", framework.packages[0])[0]
    code = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
    python = FOLDER / framework.name / "bin" / "python"
    return f"{package} {subprocess.check_output([str(python), '-c', code], text=True).strip()}"
