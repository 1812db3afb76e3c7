"""Waits inside a program: for a lock, a notification, the end of a thread. Only their time-outs are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onrecord.runtime.scheduler.drivers.coordinator import Coordinator
from onrecord.runtime.scheduler.drivers.strands import Strand, find_lane
from onrecord.runtime.scheduler.drivers.timers import TIMERS
from onrecord.runtime.scheduler.items import Token

Register = Callable[[Callable[[], None]], Any]


def wait_inside(run: Coordinator, strand: Strand, lane: str, register: Register, timeout: float | None) -> bool:
    """Wait until the registered callback is called (True) or the time is up (False).

    Called with the run's lock held once. The callback is called with the lock held.
    """
    wait = _InsideWait(run, strand, lane, timeout)
    register(wait.wake)
    run.wait(strand)
    return wait.ok is True


class _InsideWait:
    def __init__(self, run: Coordinator, strand: Strand, lane: str, timeout: float | None) -> None:
        self.ok: bool | None = None
        self._run = run
        self._strand = strand
        self._stray = run.turn(lane, "wake", _Turn(self, True))
        self._timer: Token | None = None
        if timeout is not None:
            deadline = _Turn(self, False, run, timeout)
            self._timer = run.turn(lane, "timer", deadline, deadline.when)

    def wake(self) -> None:
        """End the wait: at once if a lane does it, in a turn of its own if a thread does that is no lane."""
        if self.ok is not None:
            return
        found = find_lane()
        if found is not None and found[0].coordinator is self._run:
            self.end(True)
        else:
            self._run.arrived(self._stray)

    def end(self, ok: bool) -> None:
        if self.ok is None:
            self.ok = ok
            for token in (self._timer, self._stray):
                if token is not None:
                    self._run.kernel.cancel(token)
            self._run.kernel.wake(self._strand)


class _Turn:
    """The end of a wait from outside: its time-out, or a thread that is no lane."""

    def __init__(self, wait: _InsideWait, ok: bool, run: Coordinator | None = None, timeout: float = 0.0) -> None:
        self._wait = wait
        self._ok = ok
        self._run = run
        self._timeout = timeout
        self.when = run.time() + timeout if run is not None else 0.0

    def begin(self, token: Token) -> None:
        if self._run is not None:
            TIMERS.add(self._timeout, self._run, token)

    def stop(self, token: Token) -> None: ...

    def deliver(self, value: Any, last: bool) -> None:
        if self._run is not None:
            self._run.reach(self.when)
        self._wait.end(self._ok)
