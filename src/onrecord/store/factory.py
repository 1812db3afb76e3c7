"""How a store is opened. Which one is meant, and how it is named, is told in `locating`."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from reenact.errors import InvalidInput, StoreUnavailable
from reenact.store.contract import DURABILITY_LEVELS, Store
from reenact.store.locating import default_url, named_file

if TYPE_CHECKING:  # not to hide a cycle: apsw and psycopg are loaded only by who needs them
    from reenact.store.memory import MemoryStore

_named: dict[str, MemoryStore] = {}
_naming = threading.Lock()


def open_store(
    url: str | os.PathLike[str] | None = None, *, durability: str | None = None, read_only: bool = False
) -> Store:
    """The store of a URL (`sqlite:///path`, `postgresql://…`, `memory://`) or of a file's path. Without one: that of
    `REENACT_STORE`, of `[tool.reenact]` in `pyproject.toml`, or `.reenact/` in the project. `durability` is `full` or
    `relaxed` (docs/guarantees.md)."""
    level = durability or os.environ.get("REENACT_DURABILITY") or "full"
    if level not in DURABILITY_LEVELS:
        raise InvalidInput(f"unknown durability {level!r}; known: {', '.join(DURABILITY_LEVELS)}")
    if url is None:
        url = default_url(read_only=read_only)
    url = os.fspath(url)
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _sqlite(url, level, read_only)
    if scheme == "sqlite":
        return _sqlite(named_file(url, rest), level, read_only)
    if scheme == "memory":
        return _memory(rest, level)
    if scheme in ("postgresql", "postgres"):
        return _postgres(url, level, read_only)
    raise InvalidInput(
        f"no kind of store is called {scheme!r}",
        hint="Use a file path, sqlite:///…, postgresql://… or memory://.",
    )


def _sqlite(path: str, durability: str, read_only: bool) -> Store:
    from reenact.store.sqlite.store import SqliteStore

    return SqliteStore(path, durability=durability, read_only=read_only)


def _memory(name: str, durability: str) -> Store:
    from reenact.store.memory import MemoryStore

    if not name:
        return MemoryStore(durability=durability)
    with _naming:
        found = _named.get(name)
        if found is None:
            found = _named[name] = MemoryStore(name, durability=durability)
        return found


def _postgres(url: str, durability: str, read_only: bool) -> Store:
    try:
        from reenact.store.postgres.store import PostgresStore
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("psycopg", "psycopg_pool", "psycopg_binary"):
            raise
        raise StoreUnavailable(
            "a PostgreSQL store needs the package psycopg, which is not installed",
            hint='pip install "reenact[postgres]"',
        ) from error
    return PostgresStore(url, durability=durability, read_only=read_only)
