"""Opening the store that a command works on. Reading commands never make one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reenact.cli.output import note
from reenact.cli.settings import Settings
from reenact.cli.text import inert
from reenact.errors import NotFound
from reenact.store.locating import default_url, sqlite_path

if TYPE_CHECKING:  # the store's modules are loaded only when one is opened
    from reenact.store.contract import Store


def store_url(settings: Settings) -> str:
    return settings.store or default_url(read_only=True)


def store_exists(settings: Settings) -> bool:
    path = sqlite_path(store_url(settings))
    return path is None or os.path.lexists(path)


@contextmanager
def reading(settings: Settings) -> Iterator[Store]:
    _check_namespace(settings)
    if not store_exists(settings):
        path = sqlite_path(store_url(settings))
        raise NotFound(
            f"there is no store at {path}",
            hint="`reenact demo` records a small run here; --store or REENACT_STORE names another store.",
            code="no_store",
        )
    with _opened(store_url(settings), read_only=True) as store:
        yield store


@contextmanager
def writing(settings: Settings) -> Iterator[Store]:
    """Makes the store when there is none yet."""
    _check_namespace(settings)
    with _opened(settings.store or None, read_only=False) as store:
        yield store


@contextmanager
def other_store(url: str, *, to_write: bool = False) -> Iterator[Store]:
    """Another one. To read from: nothing is made where there is none."""
    path = sqlite_path(url)
    if not to_write and path is not None and not os.path.lexists(path):
        raise NotFound(f"there is no store at {inert(path)}", hint="Check the path.", code="no_store")
    with _opened(url, read_only=not to_write) as store:
        yield store


@contextmanager
def _opened(url: str | None, *, read_only: bool) -> Iterator[Store]:
    from reenact.store.opening import open_store

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        store = open_store(url, read_only=read_only)
    for warning in caught:
        note(f"warning: {inert(str(warning.message))}")
    try:
        yield store
    finally:
        store.close()


def _check_namespace(settings: Settings) -> None:
    from reenact.core.links import check_namespace

    check_namespace(settings.namespace)
