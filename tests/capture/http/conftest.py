"""Fixtures: a store, and the HTTP interceptors during each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onrecord.capture.interceptors.late_install import http_interceptors
from onrecord.store.memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture(autouse=True)
def _interceptors() -> Iterator[None]:
    with http_interceptors():
        yield
