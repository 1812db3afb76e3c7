from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from crash_scene import ForkServer

from reenact.store.opening import open_store


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with closing(ForkServer()) as made:
        yield made


@pytest.fixture
def server(fork_server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    monkeypatch.setenv("REENACT_KEY_FILE", str(tmp_path / "keys"))
    fork_server.serve_in(tmp_path)
    yield fork_server
    fork_server.end_all()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    made = str(tmp_path / "store.db") if request.param == "sqlite" else request.getfixturevalue("database_url")
    open_store(made).close()
    return str(made)
