"""Results of process pools: each reaches the program in a turn, in a lane of its call.

A pool receives results in a thread that is no lane, in any order. A thread of this module delivers them: it is the lane
in which callbacks run. The order within one call is drawn, so a replay waits for the recorded result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from onrecord.runtime.engine.context import Lane, inside
from onrecord.runtime.scheduler.drivers.strands import CURRENT, RunEnded, RunStopped
from onrecord.runtime.scheduler.drivers.waits import wait_inside
from onrecord.runtime.scheduler.items import Token

TURN = "result"
Deliver = Callable[[], bool]
"""Gives a result to the program. Returns True if it is the last one of its call."""


class ResultLane:
    """The lane of the results of one call."""

    def __init__(self, lane: Lane, label: str, *, is_awaited: bool) -> None:
        """Begin the lane. `is_awaited`: Python waits for the call before the process ends."""
        self._run = run = lane.strand.coordinator
        with run.lock:
            run.act(lane.strand)
            self.strand = run.new_strand(lane.name, label)
            self.strand.is_daemon = not is_awaited
            self._token = run.turn(self.strand.lane, TURN, self)
        self._here: dict[Any, Deliver] = {}
        with inside():
            self._changed = threading.Condition(threading.Lock())
        self._thread: threading.Thread | None = None

    def accept(self, key: Any, deliver: Deliver) -> None:
        """Take a result. Called by a thread of the pool."""
        if self._run.is_over:
            deliver()
            return
        with inside():
            with self._changed:
                self._here[key] = deliver
                self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="onrecord-results", daemon=True)
                self._thread.start()
        self._run.arrived(self._token)

    def give_up(self) -> None:
        """Wait no longer for results."""
        self.strand.is_daemon = True
        self.accept("", lambda: True)

    def wait(self, lane: Lane) -> None:
        """Let another lane wait for the last result."""
        run = self._run
        with run.lock:
            run.act(lane.strand)
            if not self.strand.has_ended:
                wait_inside(run, lane.strand, lane.name, self.strand.on_end.append, None)

    # The turn, as the scheduler sees it

    def begin(self, token: Token) -> None: ...

    def stop(self, token: Token) -> None: ...

    def deliver(self, value: Any, last: bool) -> None:
        self._run.kernel.wake(self.strand)

    # The thread of the lane

    def _serve(self) -> None:
        strand, run = self.strand, self._run
        strand.is_blocked = True
        strand.gate.acquire()
        strand.is_blocked = False
        CURRENT.strand = strand
        try:
            while not run.is_over and not self._take_next()():
                with run.lock:
                    run.act(strand)
                    self._token = run.turn(strand.lane, TURN, self)
                    if self._here:
                        run.take(self._token)
                    run.wait(strand)
        except (RunEnded, RunStopped):
            pass
        finally:
            run.end_strand(strand)
            for deliver in [*self._here.values()]:
                deliver()

    def _take_next(self) -> Deliver:
        lane = Lane(self._run.owner, self.strand, self.strand.lane)
        key = lane.run.draw(lane, TURN, self._first)
        with inside(), self._changed:
            self._changed.wait_for(lambda: key in self._here)
            return self._here.pop(key)

    def _first(self) -> Any:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._here))
            return next(iter(self._here))
