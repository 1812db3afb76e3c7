"""Each test begins with nothing done, its own keys, and nobody about to die."""

from __future__ import annotations

import pytest

from kit.checkpoints import dies_at, done, ticks


@pytest.fixture(autouse=True)
def as_new() -> None:
    done.clear()
    ticks[0] = dies_at[0] = 0
