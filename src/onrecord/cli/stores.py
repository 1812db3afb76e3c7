"""Open the store of a command. Commands that only read never create one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from onrecord.cli.render.output import note
from onrecord.cli.render.text import inert
from onrecord.cli.settings import Settings
from onrecord.errors import Damaged, NotFound
from onrecord.store.location import default_url, sqlite_path

if TYPE_CHECKING:  # the store's modules are loaded only when one is opened
    from onrecord.store.contract import Store


def store_url(settings: Settings) -> str:
    return settings.store or default_url(read_only=True)


def store_exists(settings: Settings) -> bool:
    path = sqlite_path(store_url(settings))
    if path is None:
        return True
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass  # a folder that cannot be entered: opening the store reports it
    return True


@contextmanager
def reading(settings: Settings) -> Iterator[Store]:
    """Open the store read-only. Raise `NotFound` if there is none."""
    _check_namespace(settings)
    if not store_exists(settings):
        path = sqlite_path(store_url(settings))
        raise NotFound(
            f"there is no store at {path}",
            hint="Record a run with `onrecord run agent.py` or `onrecord demo`, or name its store with --store.",
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
    except Damaged as damage:
        if damage.hint == Damaged.default_hint:
            damage.replace_hint(_advise_recovery() or damage.hint)
        raise
    finally:
        store.close()


def _advise_recovery() -> str:
    """Return the commands for the damaged run, if the command is about one run."""
    from onrecord.cli.results import command_for

    context = click.get_current_context(silent=True)
    settings = context.find_object(Settings) if context is not None else None
    if settings is None or settings.selected_run is None:
        return ""
    verify = command_for(settings, "verify", settings.selected_run)
    recover = command_for(settings, "recover", settings.selected_run, "--to", "saved.db")
    return f"`{verify}` locates the damage; `{recover}` copies the events before it."


def _check_namespace(settings: Settings) -> None:
    from onrecord.core.links import check_namespace

    check_namespace(settings.namespace)
