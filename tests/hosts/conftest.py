from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from host_subjects import JournalHostSubject, subject_over


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def subject(request: pytest.FixtureRequest) -> Iterator[JournalHostSubject]:
    """The journal-backed host over every kind of store."""
    yield from subject_over(request.param, request)
