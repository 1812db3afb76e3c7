"""Stores that are named by their URL: opened once in a process, and closed with it."""

from __future__ import annotations

import atexit
import threading
from contextlib import suppress

from reenact.store.contract import Store
from reenact.store.opening import open_store

_stores: dict[str, Store] = {}
_opening = threading.Lock()


def store_of(store: Store | str | None) -> Store:
    """An open store; one that is named by URL is opened once in a process."""
    if store is not None and not isinstance(store, str):
        return store
    with _opening:
        if not _stores:
            atexit.register(close_all)
        key = store or ""
        if key not in _stores:
            _stores[key] = open_store(store)
        return _stores[key]


def close_all() -> None:
    """A log that was never emptied takes more room than what is in it. What is written is safe without this."""
    while _stores:
        _, store = _stores.popitem()
        with suppress(Exception):  # its files may be gone, and there is nobody left to be told
            store.close()
