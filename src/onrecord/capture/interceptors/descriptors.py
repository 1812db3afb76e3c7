"""Descriptors that the program cannot mean when it closes everything that is open: those of the store's own files.

Whoever becomes a daemon closes all of them from 3 on, as a range or one by one. Without the store's nothing that the
program does afterwards could be recorded, and SQLite would find its locks gone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from reenact.effect.open_stores import files_of_stores

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
    if not (type(fd) is int and fd > 2 and _is_ours(fd)):
        _real["close"](fd)


def _closerange(low: int, high: int, /) -> None:
    ours = sorted(fd for fd in _open_ones() if low <= fd < high and fd > 2 and _is_ours(fd))
    for fd in ours:
        _real["closerange"](low, fd)
        low = fd + 1
    _real["closerange"](low, high)


def _open_ones() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:  # no such file system is mounted here: nobody can tell
        return []


def _is_ours(fd: int) -> bool:
    try:
        target = os.readlink(f"/proc/self/fd/{fd}")
    except (OSError, ValueError):
        return False
    return any(target.startswith(path) for path in files_of_stores())
