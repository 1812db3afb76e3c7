"""Flag made of a bare lock: threads of an agent that wait for their turn do not count as resting."""

from __future__ import annotations

from _thread import allocate_lock


class Signal:
    """Set and cleared with the run's lock held; waited for without."""

    __slots__ = ("_is_set", "_lock")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()
        self._is_set = False

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            self._lock.release()

    def clear(self) -> None:
        if self._is_set:
            self._lock.acquire()
            self._is_set = False

    def wait(self, seconds: float) -> bool:
        if not self._lock.acquire(timeout=seconds):
            return False
        self._lock.release()
        return True
