"""A store, and the seams as long as a test goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reenact.capture.seams import install_http, uninstall_http
from reenact.store.memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture(autouse=True)
def _seams() -> Iterator[None]:
    install_http()
    yield
    uninstall_http()
