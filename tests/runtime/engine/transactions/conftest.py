from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from effect.guards import hang_guard_of, own_keys
from reenact.store.opening import open_store

sys.path.insert(0, str(Path(__file__).resolve().parent))
from transaction_steps import creating

__all__ = ["hang_guard", "own_keys"]

hang_guard = hang_guard_of(60.0)


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
