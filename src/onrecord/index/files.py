"""Where the index of a store is: beside its file; for a server's store, or where that cannot be written, in the user's
cache folder; in memory where there is no other place."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from reenact.errors import ReenactError
from reenact.store.contract import Store
from reenact.store.locating import sqlite_path
from reenact.store.sqlite import files
from reenact.store.sqlite.views import SUFFIX, empty_view

CACHE_FOLDER = "reenact"


def places(store: Store, namespace: str) -> Iterator[str]:
    """The best one first. One file for each namespace: what is asked in one never reaches into another."""
    if store.url.startswith("memory:"):
        return
    mark = "" if namespace == "default" else "-" + sha256(namespace.encode()).hexdigest()[:12]
    beside = sqlite_path(store.private_url)
    if beside is not None:
        yield beside + SUFFIX + mark
    digest = sha256(store.url.encode()).hexdigest()[:24]  # without its password
    yield str(_cache_folder() / f"{digest}{SUFFIX}{mark}")


def _cache_folder() -> Path:
    named = os.environ.get("XDG_CACHE_HOME")
    base = Path(named) if named and os.path.isabs(named) else Path.home() / ".cache"
    return base / CACHE_FOLDER


def usable(path: str) -> bool:
    """True where our own file is, or could be made: a plain one, of one name, that others cannot read."""
    try:
        files.refuse_network(path)
        found = os.lstat(path) if os.path.lexists(path) else None
        if found is None:
            files.create(path)
            found = os.lstat(path)
        ours = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == os.geteuid()
        if ours and found.st_mode & 0o077:
            os.chmod(path, 0o600)
        return ours
    except (OSError, ReenactError):
        return False


def identity(path: str) -> tuple[int, int] | None:
    """Which file is under that name; None for none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def empty_indexes(store: Store, namespace: str) -> None:
    """Whatever is indexed of that namespace on this machine goes; a store in a file sees to its own."""
    for path in places(store, namespace):
        if os.path.lexists(path) and usable(path):
            empty_view(path)
