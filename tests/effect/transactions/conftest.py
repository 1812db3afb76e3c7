"""A hang of a transaction is a failure of the test that met it, not of the whole suite."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reenact.store.opening import open_store

sys.path.insert(0, str(Path(__file__).resolve().parent))
from transaction_steps import creating

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


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    url = str(tmp_path / "store.db") if request.param == "sqlite" else request.getfixturevalue("database_url")
    opened: Any = open_store(url)
    creating.run(store=opened)
    yield opened
    opened.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Any]:
    opened: Any = open_store(str(tmp_path / "own.db"))
    creating.run(store=opened)
    yield opened
    opened.close()
