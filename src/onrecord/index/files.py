"""Find the index file of a store: beside the store's file, else in the user's cache folder, else in memory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from onrecord.errors import OnrecordError
from onrecord.store.contract import Store
from onrecord.store.location import sqlite_path
from onrecord.store.sqlite import file_checks
from onrecord.store.sqlite.index_files import SUFFIX, empty_view

CACHE_FOLDER = "onrecord"


def candidate_paths(store: Store, namespace: str) -> Iterator[str]:
    """Yield the possible paths, the best first. Each namespace has its own file, so queries never mix namespaces."""
    if store.url.startswith("memory:"):
        return
    mark = "" if namespace == "default" else "-" + sha256(namespace.encode()).hexdigest()[:12]
    beside = sqlite_path(store.private_url)
    if beside is not None:
        yield beside + SUFFIX + mark
    digest = sha256(store.url.encode()).hexdigest()[:24]  # `url` has no password
    yield str(_cache_folder() / f"{digest}{SUFFIX}{mark}")


def _cache_folder() -> Path:
    configured = os.environ.get("XDG_CACHE_HOME")
    base = Path(configured) if configured and os.path.isabs(configured) else Path.home() / ".cache"
    return base / CACHE_FOLDER


def is_usable(path: str) -> bool:
    """Return True for a regular file with one link that this user owns. Create it if it does not exist."""
    try:
        file_checks.refuse_network(path)
        found = os.lstat(path) if os.path.lexists(path) else None
        if found is None:
            file_checks.create(path)
            found = os.lstat(path)
        ours = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == os.geteuid()
        if ours and found.st_mode & 0o077:
            os.chmod(path, 0o600)
        return ours
    except (OSError, OnrecordError):
        return False


def file_identity(path: str) -> tuple[int, int] | None:
    """Return the device and inode of a file, or None if there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def empty_indexes(store: Store, namespace: str) -> None:
    """Empty every index file of a namespace on this machine."""
    for path in candidate_paths(store, namespace):
        if os.path.lexists(path) and is_usable(path):
            empty_view(path)
