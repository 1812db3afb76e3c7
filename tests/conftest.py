"""Stores for the tests. `store` is every kind of store in turn; `memory` is for what does not depend on the kind.

A missing Postgres fails the tests that ask for one: nothing passes silently.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from postgres_server import database_url, postgres_server  # noqa: F401 - fixtures
from reenact.store.contract import Store
from reenact.store.memory import MemoryStore
from reenact.store.opening import open_store


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
