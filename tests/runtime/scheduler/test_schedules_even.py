"""The kernel under random programs, latencies, deaths, settlements, forks and edits: even chunks of seeds.

Even and odd chunks have files of their own, so that two processes share them.
"""

from __future__ import annotations

import pytest

from kit.simulation.sweep import sweep
from kit.soak import seeds


@pytest.mark.parametrize("chunk", seeds(50, 1_000)[0::2])
def test_schedules(chunk: int) -> None:
    sweep(chunk)
