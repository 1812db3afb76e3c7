"""Stores for the tests. `store` is every kind of store in turn; `memory` is for what does not depend on the kind.

A missing Postgres fails the tests that ask for one: nothing passes silently.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from kit.authority import make_authority
from kit.postgres_server import database_url, postgres_server  # noqa: F401 - fixtures
from kit.soak import SOAK
from onrecord.store.contract import Store
from onrecord.store.factory import open_store
from onrecord.store.memory import MemoryStore

SLOW_FIRST = ("capture", "web/browser", "situations", "examples", "faults", "docs", "cli", "pytest_plugin")
"""Folders whose files take longest. A worker that begins with the longest file does not end with it."""

# A busy machine is slow: no example fails because of the time it took.
settings.register_profile(
    "onrecord", max_examples=500 if SOAK else 40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("onrecord")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: it would examine every module and test again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slow folders first."""
    tests = Path(__file__).parent
    order = {folder: rank for rank, folder in enumerate(SLOW_FIRST)}

    def rank(item: pytest.Item) -> int:
        parts = item.path.relative_to(tests).parts
        return order.get("/".join(parts[:2]), order.get(parts[0], len(order)))

    items.sort(key=rank)


@pytest.fixture(scope="session", autouse=True)
def program_environment(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Set what every program of a test starts with.

    A test edits a program within a second: its bytecode, if written, would be taken for that of the new text. pytest's
    own workers start before this and keep theirs. Clients load the certificates of the system each time they are made;
    no test needs more than one.
    """
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    authority = tmp_path_factory.mktemp("authority") / "authority.pem"
    authority.write_bytes(make_authority())
    os.environ["SSL_CERT_FILE"] = str(authority)


def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    url: str = request.getfixturevalue("database_url")
    return url


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(_url(request, tmp_path))
    yield opened
    opened.close()


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Any]:
    opened = open_store(str(tmp_path / "store.db"))
    yield opened
    opened.close()
