"""Keep the store's files open when the program closes all descriptors.

A process that becomes a daemon closes every descriptor from 3 on, as a range or one by one. Without the store's files
nothing could be recorded afterwards, and SQLite would lose its locks.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from onrecord.runtime.engine.stores import files_of_stores

_real: dict[str, Callable[..., Any]] = {}


def install() -> None:
    if not _real:
        _real["close"], _real["closerange"] = os.close, os.closerange
        os.close, os.closerange = _close, _closerange


def uninstall() -> None:
    if _real:
        os.close, os.closerange = _real["close"], _real["closerange"]
        _real.clear()


def _close(fd: int) -> None:
    if not (type(fd) is int and fd > 2 and _is_store_file(fd)):
        _real["close"](fd)


def _closerange(low: int, high: int, /) -> None:
    store_files = sorted(fd for fd in _list_open_descriptors() if low <= fd < high and fd > 2 and _is_store_file(fd))
    for fd in store_files:
        _real["closerange"](low, fd)
        low = fd + 1
    _real["closerange"](low, high)


def _list_open_descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:  # /proc is not mounted
        return []


def _is_store_file(fd: int) -> bool:
    try:
        target = os.readlink(f"/proc/self/fd/{fd}")
    except (OSError, ValueError):
        return False
    return any(target.startswith(path) for path in files_of_stores())
