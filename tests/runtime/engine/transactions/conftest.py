from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.transaction_steps import creating
from onrecord.store.factory import open_store


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
