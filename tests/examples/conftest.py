from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.chat_server import ModelServer, serving


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with serving() as server:
        yield server


@pytest.fixture
def environment(tmp_path: Path, model: ModelServer) -> dict[str, str]:
    """An environment as a user has it, also in CI: commands on the PATH, a key, a configuration folder of its own."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "CI" and not name.startswith(("ONRECORD_", "PYTEST_"))
    }
    return {
        **kept,
        "PATH": path,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "OPENAI_BASE_URL": model.url,
        "OPENAI_API_KEY": "sk-" + "a1b2c3d4" * 6,
    }
