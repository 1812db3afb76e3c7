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

from kit.postgres_server import database_url, postgres_server  # noqa: F401 - fixtures
from kit.soak import SOAK
from onrecord.store.contract import Store
from onrecord.store.factory import open_store
from onrecord.store.memory import MemoryStore

# A test edits a program within a second: its bytecode, if written, would be taken for that of the new text.
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

# A busy machine is slow: no example fails because of the time it took.
settings.register_profile(
    "onrecord",
    max_examples=500 if SOAK else 40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
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
