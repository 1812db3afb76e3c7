from __future__ import annotations

import pytest

from onrecord.store.memory import MemoryStore


@pytest.fixture
def store(memory: MemoryStore) -> MemoryStore:
    return memory
