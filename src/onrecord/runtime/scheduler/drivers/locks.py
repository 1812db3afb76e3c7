"""Locks of an agent: a free lock is taken at once, a released one goes to the lane that waited first.

Nothing of this is recorded: one strand runs at a time, so who comes first is the same in every replay.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from collections import deque
from collections.abc import Callable
from typing import Any

from onrecord.runtime.scheduler.drivers.strands import find_lane
from onrecord.runtime.scheduler.drivers.waits import wait_inside


class RunLock:
    """A `threading.Lock` that the lanes of runs share."""

    def __init__(self) -> None:
        self._inner = allocate_lock()
        self._waiting: deque[Callable[[], None]] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        found = find_lane()
        if found is None:
            return self._inner.acquire(blocking, timeout)
        strand, lane = found
        run = strand.coordinator
        with run.lock:
            run.act(strand)
            if self._inner.acquire(False):
                return True
            if not blocking:
                return False
            waiting: list[Callable[[], None]] = []

            def register(wake: Callable[[], None]) -> None:
                waiting.append(wake)
                self._waiting.append(wake)
                if self._inner.acquire(False):  # a thread that is no lane has released it meanwhile
                    self._waiting.remove(wake)
                    wake()

            if wait_inside(run, strand, lane, register, None if timeout < 0 else timeout):
                return True
            if waiting[0] in self._waiting:
                self._waiting.remove(waiting[0])
            return False

    def release(self) -> None:
        found = find_lane()
        if found is None:
            self._pass_on()
            return
        strand, _ = found
        run = strand.coordinator
        with run.lock:
            if not run.is_over:
                run.act(strand)
            self._pass_on()

    def _pass_on(self) -> None:
        if self._waiting:
            self._waiting.popleft()()  # it stays locked for the lane that waited first
        else:
            self._inner.release()

    def locked(self) -> bool:
        return self._inner.locked()

    _is_owned = locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]


class RunRLock:
    """A `threading.RLock` that the lanes of runs share."""

    def __init__(self) -> None:
        self._lock = RunLock()
        self._owner: int | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = get_ident()
        if self._owner == me:
            self._count += 1
            return True
        if not self._lock.acquire(blocking, timeout):
            return False
        self._owner, self._count = me, 1
        return True

    def release(self) -> None:
        if self._owner != get_ident():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = None
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    # What `threading.Condition` asks of a lock

    def _is_owned(self) -> bool:
        return self._owner == get_ident()

    def _recursion_count(self) -> int:
        return self._count if self._is_owned() else 0

    def _release_save(self) -> Any:
        count, self._count, self._owner = self._count, 0, None
        self._lock.release()
        return count

    def _acquire_restore(self, count: Any) -> None:
        self._lock.acquire()
        self._owner, self._count = get_ident(), count

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]
