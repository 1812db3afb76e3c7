"""The store in memory, by the contract."""

import pytest

from reenact.errors import InvalidInput
from reenact.store.contract import Store
from reenact.store.memory import MemoryStore
from reenact.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    race_rounds = 300
    shares_with_children = False

    def make_store(self) -> Store:
        return MemoryStore()


def test_unknown_durability_is_refused() -> None:
    with pytest.raises(InvalidInput):
        MemoryStore(durability="some")
