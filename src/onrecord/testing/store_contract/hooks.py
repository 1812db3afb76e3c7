"""What a store says about itself to be tested, and the fixtures made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from reenact.store.contract import Store
from reenact.store.opening import open_store
from reenact.testing.store_contract.builders import Writer


class StoreHooks:
    race_rounds = 100
    """How often a race is run. Raise it for a store that answers in microseconds."""
    shares_with_children = True
    """False for a store whose data a forked child only has a copy of."""

    def make_store(self) -> Store:
        """An empty store."""
        raise NotImplementedError("say how to make an empty store")

    def reopen(self, store: Store) -> Store | None:
        """A second instance over the same data, with nothing in its caches; None if there can be none."""
        return None

    def open_url(self, url: str) -> Store:
        """What another process does with a `private_url`. Override it where `open_store` does not know the scheme."""
        return open_store(url)

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = self.make_store()
        yield store
        store.close()

    @pytest.fixture
    def cold(self, store: Store) -> Iterator[Callable[[], Store]]:
        """Another instance over what `store` holds; `store` itself where there can be none."""
        opened: list[Store] = []

        def open_again() -> Store:
            other = self.reopen(store)
            if other is None:
                return store
            opened.append(other)
            return other

        yield open_again
        for other in opened:
            other.close()

    @pytest.fixture
    def writer(self, store: Store) -> Writer:
        return Writer(store)
