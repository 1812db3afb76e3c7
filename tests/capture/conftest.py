"""For programs: a folder of their own, and a server whose answers are numbered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.programs import Server, hide_optional_packages


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.gate.set()
    made.stop()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    for name in ("ONRECORD_STORE", "PYTHONHASHSEED"):
        monkeypatch.delenv(name, raising=False)
    hide_optional_packages(monkeypatch)
    return tmp_path
