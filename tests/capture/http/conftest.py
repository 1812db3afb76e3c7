"""Fixtures: a store, and the HTTP interceptors during each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onrecord.capture.interceptors import install_http, uninstall_http
from onrecord.store.memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture(autouse=True)
def _interceptors() -> Iterator[None]:
    install_http()
    yield
    uninstall_http()
