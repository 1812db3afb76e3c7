"""A hang of an attempt is a failure of the test that met it, not of the whole suite."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

GUARD_SECONDS = 60.0


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
def own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REENACT_KEY_FILE", str(tmp_path / "keys.json"))
