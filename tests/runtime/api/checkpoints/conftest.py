"""Each test begins with nothing done, its own keys, and nobody about to die."""

from __future__ import annotations

import pytest
from checkpoint_support import dies_at, done, ticks

from effect.guards import hang_guard_of, own_keys

__all__ = ["hang_guard", "own_keys"]

hang_guard = hang_guard_of(120.0)


@pytest.fixture(autouse=True)
def as_new() -> None:
    done.clear()
    ticks[0] = dies_at[0] = 0
