from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reenact.effect.keys import KeyRing
from reenact.effect.waits import WaitDesk
from reenact.store.contract import Store
from reenact.store.opening import open_store


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "keys.json"


@pytest.fixture
def ring(key_file: Path) -> KeyRing:
    return KeyRing(key_file)


@pytest.fixture
def desk(store: Store, ring: KeyRing) -> WaitDesk:
    return WaitDesk(store, keyring=ring)


@pytest.fixture
def cold_desk(store: Store, key_file: Path) -> Iterator[Callable[[], WaitDesk]]:
    """A second desk over the same data that shares nothing with the first (in memory: nothing but the store)."""
    opened: list[Store] = []

    def make() -> WaitDesk:
        other = store if store.url.startswith("memory") else open_store(store.private_url)
        opened.append(other)
        return WaitDesk(other, keyring=KeyRing(key_file))

    yield make
    for other in opened:
        other.close()
