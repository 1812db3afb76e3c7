from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import onrecord
from onrecord.store.contract import Store


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ONRECORD_STORE", "ONRECORD_DURABILITY", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def store() -> Iterator[Store]:
    opened = onrecord.open_store("store.db")
    yield opened
    opened.close()
