"""Install interceptors late, for code that is already imported: for one test, or for the rest of the process.

They act inside a run only. Elsewhere the originals are called.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from onrecord.capture import draws
from onrecord.capture.interceptors import (
    clock,
    install_http,
    install_ids,
    install_loops,
    install_mcp,
    randomness,
    uninstall_http,
    uninstall_ids,
    uninstall_mcp,
)
from onrecord.capture.interceptors.import_hooks import on_import, restore_interceptors
from onrecord.capture.interceptors.replacements import Binding, Replacement, replace_all
from onrecord.capture.unrecorded import guard
from onrecord.runtime.engine.context import inside
from onrecord.runtime.replay.python_paths import INSTALLED, ONRECORD, PYTHONS
from onrecord.runtime.replay.sandbox import report_spawns

_LIBRARY = tuple(folder + os.sep for folder in PYTHONS)
_PACKAGES = tuple(folder + os.sep for folder in INSTALLED)
_lock = threading.RLock()
_for_good = False


def install_for_good() -> None:
    """Install the interceptors of runs in a process that does not belong to one program, such as a web server.

    Called at the beginning of each run. Only the first call costs anything, unless a test had replaced a clock.
    """
    global _for_good
    if not _for_good:
        with _lock, inside():  # locks made by imports here are not the agent's
            if not _for_good:
                install_loops()
                install_http()
                install_mcp()
                install_ids()
                on_import("multiprocessing.util", report_spawns)
                guard.watch(warns=True)
                _for_good = True
    restore_interceptors()
    _install_draws()


@contextmanager
def http_interceptors() -> Iterator[None]:
    install_http()
    try:
        yield
    finally:
        if not _for_good:
            uninstall_http()


@contextmanager
def mcp_interceptors() -> Iterator[None]:
    install_mcp()
    try:
        yield
    finally:
        if not _for_good:
            uninstall_mcp()


@contextmanager
def draw_interceptors() -> Iterator[None]:
    """Record clock readings and random draws inside the block."""
    changed = _install_draws()
    install_ids()
    try:
        yield
    finally:
        if not _for_good:
            _restore(changed)
            clock.uninstall_methods()
            uninstall_ids()


def _install_draws() -> list[Binding]:
    draws.modules_are_shared = True
    with _lock:
        clock.install_methods()
        return replace_all(_draws(), _is_user_module)


_replacements: list[Replacement] = []


def _draws() -> list[Replacement]:
    if not _replacements:
        _replacements.extend([*clock.replacements(), *randomness.replacements()])
    return _replacements


def _restore(changed: list[Binding]) -> None:
    for one in reversed(changed):
        one.restore()


def _is_user_module(module: ModuleType) -> bool:
    """Return True for the program's modules and installed packages: not the standard library's, and not ours."""
    file: Any = getattr(module, "__file__", None)
    if not isinstance(file, str) or file.startswith(ONRECORD):
        return False
    return file.startswith(_PACKAGES) or not file.startswith(_LIBRARY)
