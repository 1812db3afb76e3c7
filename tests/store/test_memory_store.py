"""The store in memory, by the contract."""

import pytest

from onrecord.errors import InvalidInput
from onrecord.store.contract import Store
from onrecord.store.memory import MemoryStore
from onrecord.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    race_rounds = 300
    shares_with_children = False

    def make_store(self) -> Store:
        return MemoryStore()


def test_unknown_durability_is_refused() -> None:
    with pytest.raises(InvalidInput):
        MemoryStore(durability="some")
