from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.web import Served, record, serving


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has an empty working folder, secrets of its own, and no settings from outside."""
    for name in ("ONRECORD_STORE", "ONRECORD_DURABILITY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of each kind that outlives a process."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    found: str = request.getfixturevalue("database_url")
    return found


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A store for what does not depend on its kind."""
    return str(tmp_path / "store.db")


@pytest.fixture
def served(path: str) -> Iterator[Served]:
    """One whole run, `first`, served from a file."""
    record(path, "first")
    with serving(path) as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One whole run, `first`, served to the tests of a module that change neither the store nor the server."""
    folder = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONRECORD_KEY_FILE", str(folder / "keys.json"))
        path = str(folder / "store.db")
        record(path, "first")
        with serving(path) as running:
            yield running
