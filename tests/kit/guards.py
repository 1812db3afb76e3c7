"""What the tests of the effect layer begin with: their own keys, and a limit that makes a hang fail one test only."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


class Hung(BaseException):
    """Not an `Exception`: neither an agent nor a test catches it by accident."""


def hang_guard_of(seconds: float) -> Callable[[], Iterator[None]]:
    """A fixture for a `conftest`: whatever takes longer is a failure of the test that met it, not of the suite."""

    @pytest.fixture(autouse=True)
    def hang_guard() -> Iterator[None]:
        def hung(*_: Any) -> None:
            raise Hung(f"the test did not end within {seconds} seconds")

        before = signal.signal(signal.SIGALRM, hung)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    return hang_guard


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of waits are made where the test is, and nowhere else."""
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(tmp_path / "keys.json"))
