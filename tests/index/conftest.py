from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onrecord.index.index import Index
from onrecord.store.contract import Store
from onrecord.store.factory import open_store


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ONRECORD_STORE", "ONRECORD_DURABILITY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture
def store(path: str) -> Iterator[Store]:
    opened = open_store(path, durability="relaxed")
    yield opened
    opened.close()


@pytest.fixture
def index(store: Store) -> Iterator[Index]:
    opened = Index(store)
    yield opened
    opened.close()
