from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
for folder in (TESTS / "cli", TESTS / "capture" / "http"):  # runs to look at; a server that answers as models do
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

from numbered_server import Server  # noqa: E402 (it is found by then)


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has an empty working folder and no settings from outside."""
    for name in ("REENACT_STORE", "REENACT_DURABILITY", "NO_COLOR", "COLUMNS", "LINES", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("REENACT_KEY_FILE", str(tmp_path / "keys.json"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.gate.set()
    made.stop()
