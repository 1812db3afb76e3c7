from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.host_subjects import JournalHostSubject, subject_over


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def subject(request: pytest.FixtureRequest) -> Iterator[JournalHostSubject]:
    """The journal-backed host over every kind of store."""
    yield from subject_over(request.param, request)
