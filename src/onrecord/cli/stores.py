"""Open the store of a command. Commands that only read never create one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from onrecord.cli.render.output import note
from onrecord.cli.render.text import inert
from onrecord.cli.settings import Settings
from onrecord.errors import NotFound
from onrecord.store.location import default_url, sqlite_path

if TYPE_CHECKING:  # the store's modules are loaded only when one is opened
    from onrecord.store.contract import Store


def store_url(settings: Settings) -> str:
    return settings.store or default_url(read_only=True)


def store_exists(settings: Settings) -> bool:
    path = sqlite_path(store_url(settings))
    return path is None or os.path.lexists(path)


@contextmanager
def reading(settings: Settings) -> Iterator[Store]:
    """Open the store read-only. Raise `NotFound` if there is none."""
    _check_namespace(settings)
    if not store_exists(settings):
        path = sqlite_path(store_url(settings))
        raise NotFound(
            f"there is no store at {path}",
            hint="Record a run with `onrecord demo`, or name another store with --store or ONRECORD_STORE.",
            code="no_store",
        )
    with _open(store_url(settings), read_only=True) as store:
        yield store


@contextmanager
def writing(settings: Settings) -> Iterator[Store]:
    """Open the store for writing, and create it if there is none."""
    _check_namespace(settings)
    with _open(settings.store or None, read_only=False) as store:
        yield store


@contextmanager
def other_store(url: str, *, to_write: bool = False) -> Iterator[Store]:
    """Open the store at a URL. Only `to_write` creates one that does not exist."""
    path = sqlite_path(url)
    if not to_write and path is not None and not os.path.lexists(path):
        raise NotFound(f"there is no store at {inert(path)}", hint="Check the path.", code="no_store")
    with _open(url, read_only=not to_write) as store:
        yield store


@contextmanager
def _open(url: str | None, *, read_only: bool) -> Iterator[Store]:
    from onrecord.store.factory import open_store

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
    from onrecord.core.links import check_namespace

    check_namespace(settings.namespace)
