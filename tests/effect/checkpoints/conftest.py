"""Each test begins with nothing done, its own keys, and nobody about to die. A hang is a failure of the one test."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoint_support import dies_at, done, ticks

GUARD_SECONDS = 120.0


class Hung(BaseException):
    """Not an `Exception`: neither an agent nor a test catches it by accident."""


@pytest.fixture(autouse=True)
def hang_guard() -> Iterator[None]:
    def hung(*_: Any) -> None:
        raise Hung(f"the test did not end within {GUARD_SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, hung)
    signal.setitimer(signal.ITIMER_REAL, GUARD_SECONDS)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def as_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REENACT_KEY_FILE", str(tmp_path / "keys.json"))
    done.clear()
    ticks[0] = dies_at[0] = 0
