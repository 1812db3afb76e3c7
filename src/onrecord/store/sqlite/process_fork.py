"""Close and reopen stores around a fork of the process.

SQLite must not be used across a fork: its table of open files and locks is copied, the locks themselves (POSIX advisory
locks) are not. A child that opens the file again finds the parent's entry in that table, assumes that it holds the
parent's locks, and may lose the write-ahead log when the parent closes. Closing the inherited connection in the child
is just as wrong.

So before a fork every store of the process waits until its threads are between two calls, and closes its connections
without a checkpoint; parent and child open new ones at their next call. Python runs these hooks for os.fork() and
multiprocessing. A fork by C code is detected by the process id: the inherited connections are leaked, and the store is
refused in that child.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import Protocol

WAIT_SECONDS = 30.0


class Forkable(Protocol):
    def before_fork(self, timeout_seconds: float) -> None: ...
    def after_fork(self, *, child: bool) -> None: ...


_stores: weakref.WeakSet[Forkable] = weakref.WeakSet()
_guard = threading.Lock()
_waiting: list[Forkable] = []


def register(store: Forkable) -> None:
    with _guard:
        _stores.add(store)


def leak(objects: list[object]) -> None:
    """Keep objects from ever being finalised, even at the end of the interpreter."""
    for item in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))


def _before() -> None:
    _guard.acquire()
    for store in list(_stores):
        _waiting.append(store)
        store.before_fork(WAIT_SECONDS)


def _after(child: bool) -> None:
    while _waiting:
        _waiting.pop().after_fork(child=child)


def _after_in_parent() -> None:
    _after(False)
    _guard.release()


def _after_in_child() -> None:
    global _guard
    _after(True)
    _guard = threading.Lock()


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
