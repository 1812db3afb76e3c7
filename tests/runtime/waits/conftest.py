from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onrecord.runtime.secrets.keys import KeyRing
from onrecord.runtime.waits import WaitRegistry
from onrecord.store.contract import Store
from onrecord.store.factory import open_store


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "keys.json"


@pytest.fixture
def ring(key_file: Path) -> KeyRing:
    return KeyRing(key_file)


@pytest.fixture
def desk(store: Store, ring: KeyRing) -> WaitRegistry:
    return WaitRegistry(store, keyring=ring)


@pytest.fixture
def cold_desk(store: Store, key_file: Path) -> Iterator[Callable[[], WaitRegistry]]:
    """A second desk over the same data that shares nothing with the first (in memory: nothing but the store)."""
    opened: list[Store] = []

    def make() -> WaitRegistry:
        other = store if store.url.startswith("memory") else open_store(store.private_url)
        opened.append(other)
        return WaitRegistry(other, keyring=KeyRing(key_file))

    yield make
    for other in opened:
        other.close()
