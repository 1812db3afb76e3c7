"""Stores that are named by their URL: opened once in a process, and closed with it."""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import suppress

from onrecord.errors import InvalidInput, StoreUnavailable
from onrecord.store.contract import Store
from onrecord.store.factory import open_store

_stores: dict[str, Store] = {}
_opening = threading.Lock()


def store_of(store: Store | str | os.PathLike[str] | None, *, to_read: bool = False) -> Store:
    """An open store; one that is named by URL is opened once in a process. To read: where nobody can write, too."""
    if isinstance(store, os.PathLike):
        store = os.fspath(store)
    if store is not None and not isinstance(store, str):
        if not hasattr(store, "append"):
            raise InvalidInput(
                f"a store is an open one, or named by its path or URL; {type(store).__name__} is neither",
                hint='Such as store="runs.db", or store=onrecord.open_store("runs.db").',
                code="bad_store",
            )
        return store
    with _opening:
        key = store or ""
        if key not in _stores:
            _stores[key] = _opened(store, to_read)
        return _stores[key]


def _opened(url: str | None, to_read: bool) -> Store:
    try:
        return open_store(url)
    except StoreUnavailable as unavailable:
        if not to_read or unavailable.code != "read_only":
            raise
        return open_store(url, read_only=True)


def files_of_stores() -> list[str]:
    """What the names of their files begin with, of those that have any."""
    paths = [getattr(store, "path", None) for store in list(_stores.values())]
    return [os.path.realpath(path) for path in paths if isinstance(path, str)]


def close_all() -> None:
    """A log that was never emptied takes more room than what is in it. What is written is safe without this."""
    while _stores:
        _, store = _stores.popitem()
        with suppress(Exception):  # its files may be gone, and there is nobody left to be told
            store.close()


atexit.register(close_all)  # before whatever else is registered, and so behind it: ends of runs are still written
