"""Let the timers of all runs arrive when they are due, in one thread."""

from __future__ import annotations

import heapq
import queue
import threading
from time import monotonic
from typing import TYPE_CHECKING

from onrecord.runtime.scheduler.drivers.strands import CURRENT, inside
from onrecord.runtime.scheduler.items import Token

if TYPE_CHECKING:
    from onrecord.runtime.scheduler.drivers.coordinator import Coordinator


class Timers:
    def __init__(self) -> None:
        self._new: queue.SimpleQueue[tuple[float, Coordinator, Token]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def add(self, delay: float, run: Coordinator, token: Token) -> None:
        """Let the token arrive after so many seconds."""
        if self._thread is None or not self._thread.is_alive():
            with inside():
                self._thread = threading.Thread(target=self._serve, name="onrecord-timers", daemon=True)
                self._thread.start()
        self._new.put((monotonic() + max(0.0, delay), run, token))

    def _serve(self) -> None:
        CURRENT.depth = 1
        due: list[tuple[float, int, Coordinator, Token]] = []
        number = 0
        while True:
            seconds = max(0.0, due[0][0] - monotonic()) if due else None
            try:
                number += 1
                _push(due, number, self._new.get(timeout=seconds))
            except queue.Empty:
                pass
            while due and due[0][0] <= monotonic():
                _arrive(heapq.heappop(due))


def _push(due: list[tuple[float, int, Coordinator, Token]], number: int, new: tuple[float, Coordinator, Token]) -> None:
    heapq.heappush(due, (new[0], number, *new[1:]))


def _arrive(timer: tuple[float, int, Coordinator, Token]) -> None:
    """Let a timer arrive. The frame of the thread itself keeps no run alive."""
    _, _, run, token = timer
    run.arrived(token)


TIMERS = Timers()
