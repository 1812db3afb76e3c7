from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.plugin import ModelServer, Project


@pytest.fixture
def server() -> Iterator[ModelServer]:
    made = ModelServer()
    yield made
    made.stop()


@pytest.fixture
def project(pytester: pytest.Pytester, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name in ("CI", "ONRECORD_STORE", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ONRECORD_KEY_FILE", str(pytester.path / "keys.json"))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    return Project(pytester, server)
