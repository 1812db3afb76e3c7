from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from kit.fleet import ForkedWorker
from onrecord.cli.fleet import pool


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has an empty working folder and no settings from outside."""
    for name in ("ONRECORD_STORE", "ONRECORD_DURABILITY", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the workers of the pools of this process. Starting them takes most of the time of a small fleet."""
    monkeypatch.setattr(pool, "subprocess", SimpleNamespace(Popen=ForkedWorker, DEVNULL=subprocess.DEVNULL))
