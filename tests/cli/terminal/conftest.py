from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.numbered_server import Server


@pytest.fixture(autouse=True)
def terminal_settings(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove terminal settings of the environment, and use a key file of the test."""
    for name in ("LINES", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.gate.set()
    started.stop()
