"""The command line, for programs, and the server that they ask."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kit import command_server
from kit.numbered_server import Server

BARE_INSTALLATION = Path(__file__).parent / "bare_installation"


def onrecord(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return command_server.call(arguments, **options)


def hide_optional_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start programs as in an installation of their client alone.

    `httpx` loads `rich` and `trio` where they are installed, and the summary of a run loads `genai_prices`. Here they
    are installed for a few tests. Loading them takes half the time of a program.
    """
    monkeypatch.setenv("PYTHONPATH", str(BARE_INSTALLATION), prepend=os.pathsep)


def show_optional_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start programs with every package that is installed here."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path != str(BARE_INSTALLATION)))


__all__ = ["Server", "hide_optional_packages", "onrecord", "show_optional_packages"]
