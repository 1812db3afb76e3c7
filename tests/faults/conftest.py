from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

import pytest

from kit.life_server import LifeServer
from onrecord.store.factory import open_store


@pytest.fixture(scope="session")
def life_servers() -> Iterator[Callable[[Path], LifeServer]]:
    with ExitStack() as stack:
        yield cache(lambda module: stack.enter_context(closing(LifeServer(module))))


@pytest.fixture
def server(
    life_servers: Callable[[Path], LifeServer],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[LifeServer]:
    """The server of the lives that the folder of the test has, in `*_lives.py`."""
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys"))
    (module,) = request.path.parent.glob("*_lives.py")
    made = life_servers(module)
    made.serve_in(tmp_path)
    yield made
    made.end_all()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    made = str(tmp_path / "store.db") if request.param == "sqlite" else request.getfixturevalue("database_url")
    open_store(made).close()
    return str(made)
