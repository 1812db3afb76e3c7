"""Fixtures of the tests that read the source."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture
def collected() -> None:
    """Collect the garbage of earlier tests: a finaliser that runs while `ast` parses makes it fail (CPython 3.11)."""
    gc.collect()
