"""The hooks with which a store describes itself to the suite, and fixtures made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from onrecord.store.contract import Store
from onrecord.store.factory import open_store
from onrecord.testing.store_contract.builders import Writer


class StoreHooks:
    race_rounds = 100
    """How often each race runs. Raise it for a store that answers in microseconds."""
    shares_with_children = True
    """False if a forked child has only a copy of the data."""

    def make_store(self) -> Store:
        """Return an empty store."""
        raise NotImplementedError("override make_store")

    def reopen(self, store: Store) -> Store | None:
        """Return a second instance over the same data, with empty caches; None if there can be none."""
        return None

    def open_url(self, url: str) -> Store:
        """Open a `private_url` as another process does. Override it if `open_store` does not know the scheme."""
        return open_store(url)

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = self.make_store()
        yield store
        store.close()

    @pytest.fixture
    def cold(self, store: Store) -> Iterator[Callable[[], Store]]:
        """Yield a function that opens another instance over the data of `store`, or returns `store` itself."""
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
