"""Which store is meant, and how it is opened.

    memory://                  a new store in memory
    memory://name              the store of that name in this process
    sqlite:///folder/file.db   relative to the working folder (three slashes)
    sqlite:////folder/file.db  absolute (four slashes)
    postgresql://…             a PostgreSQL database
    folder/file.db             any other text without `://` is a path of an SQLite file, taken literally

The path of an SQLite store is never decoded: `?`, `#` and `%` are characters of the name.

Without a URL: REENACT_STORE, then `store` under [tool.reenact] in the pyproject.toml found upwards from the
working folder (a relative path there is relative to that file), then `.reenact/reenact.db` in that project's
folder or, without one, in the working folder.
"""

from __future__ import annotations

import os
import threading
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from reenact.errors import InvalidInput, StoreUnavailable
from reenact.store.contract import DURABILITY_LEVELS, Store

if TYPE_CHECKING:  # not to hide a cycle: apsw and psycopg are loaded only by who needs them
    from reenact.store.memory import MemoryStore

DEFAULT_FOLDER = ".reenact"
DEFAULT_FILE = "reenact.db"

_named: dict[str, MemoryStore] = {}
_naming = threading.Lock()


def open_store(url: str | None = None, *, durability: str | None = None, read_only: bool = False) -> Store:
    level = durability or os.environ.get("REENACT_DURABILITY") or "full"
    if level not in DURABILITY_LEVELS:
        raise InvalidInput(f"unknown durability {level!r}; known: {', '.join(DURABILITY_LEVELS)}")
    if url is None:
        url = default_url(read_only=read_only)
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _sqlite(url, level, read_only)
    if scheme == "sqlite":
        return _sqlite(_sqlite_path(url, rest), level, read_only)
    if scheme == "memory":
        return _memory(rest, level)
    if scheme in ("postgresql", "postgres"):
        return _postgres(url, level, read_only)
    raise InvalidInput(
        f"no kind of store is called {scheme!r}",
        hint="Use a file path, sqlite:///…, postgresql://… or memory://.",
    )


def default_url(*, read_only: bool = False) -> str:
    """The store that is meant when none is named. Makes the default folder unless only reading."""
    named = os.environ.get("REENACT_STORE")
    if named:
        return named
    project = _project_file()
    if project is not None:
        configured = _configured(project)
        if configured is not None:
            return _relative_to(project.parent, configured)
    folder = (Path.cwd() if project is None else project.parent) / DEFAULT_FOLDER
    if not read_only:
        _make_folder(folder)
    return str(folder / DEFAULT_FILE)


def _project_file() -> Path | None:
    here = Path.cwd()
    for folder in (here, *here.parents):
        candidate = folder / "pyproject.toml"
        if candidate.is_file():
            return candidate
    return None


def _configured(project: Path) -> str | None:
    try:
        with project.open("rb") as file:
            settings = tomllib.load(file).get("tool", {}).get("reenact", {})
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{project} cannot be read: {error}") from error
    found = settings.get("store") if isinstance(settings, dict) else None
    if found is not None and (not isinstance(found, str) or not found):
        raise InvalidInput(f"{project}: `store` under [tool.reenact] must be text")
    return found


def _relative_to(folder: Path, url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not separator:
        return str(folder / url)
    if scheme == "sqlite":
        return f"sqlite:///{folder / _sqlite_path(url, rest)}"
    return url


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        ignored = folder / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n")
    except OSError as error:
        raise StoreUnavailable(f"cannot create {folder}: {error.strerror}") from error


def _sqlite_path(url: str, rest: str) -> str:
    if not rest.startswith("/") or rest == "/":
        raise InvalidInput(
            f"{url!r} names no file",
            hint="sqlite:///relative/path.db has three slashes, sqlite:////absolute/path.db four.",
        )
    return rest[1:]


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
