"""Open a store by its URL. `location` determines the default URL."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from onrecord.errors import InvalidInput, StoreUnavailable
from onrecord.extras import install_command
from onrecord.store.contract import DURABILITY_LEVELS, Store
from onrecord.store.location import default_url, named_file

if TYPE_CHECKING:  # not to hide a cycle: apsw and psycopg are imported only when needed
    from onrecord.store.memory import MemoryStore

_named: dict[str, MemoryStore] = {}
_named_lock = threading.Lock()


def open_store(
    url: str | os.PathLike[str] | None = None, *, durability: str | None = None, read_only: bool = False
) -> Store:
    """Open the store of a URL (`sqlite:///path`, `postgresql://…`, `memory://`) or of a file path.

    Without one, the URL is that of `ONRECORD_STORE`, of `[tool.onrecord]` in `pyproject.toml`, or `.onrecord/` in the
    project. `durability` is `full` or `relaxed` (docs/guarantees.md).
    """
    level = durability or os.environ.get("ONRECORD_DURABILITY") or "full"
    if level not in DURABILITY_LEVELS:
        raise InvalidInput(f"unknown durability {level!r}; known: {', '.join(DURABILITY_LEVELS)}")
    if url is None:
        url = default_url(read_only=read_only)
    url = os.fspath(url)
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _open_sqlite(url, level, read_only)
    if scheme == "sqlite":
        return _open_sqlite(named_file(url, rest), level, read_only)
    if scheme == "memory":
        return _open_memory(rest, level)
    if scheme in ("postgresql", "postgres"):
        return _open_postgres(url, level, read_only)
    raise InvalidInput(
        f"no kind of store is called {scheme!r}", hint="Use a file path, sqlite:///…, postgresql://… or memory://."
    )


def _open_sqlite(path: str, durability: str, read_only: bool) -> Store:
    from onrecord.store.sqlite.store import SqliteStore

    return SqliteStore(path, durability=durability, read_only=read_only)


def _open_memory(name: str, durability: str) -> Store:
    from onrecord.store.memory import MemoryStore

    if not name:
        return MemoryStore(durability=durability)
    with _named_lock:
        found = _named.get(name)
        if found is None:
            found = _named[name] = MemoryStore(name, durability=durability)
        return found


def _open_postgres(url: str, durability: str, read_only: bool) -> Store:
    try:
        from onrecord.store.postgres.store import PostgresStore
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("psycopg", "psycopg_pool", "psycopg_binary"):
            raise
        raise StoreUnavailable(
            "a PostgreSQL store needs the package psycopg, which is not installed", hint=install_command("postgres")
        ) from error
    return PostgresStore(url, durability=durability, read_only=read_only)
