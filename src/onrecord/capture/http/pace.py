"""Gaps between the parts of a stream, repeated in a replay on request."""

from __future__ import annotations

from time import perf_counter_ns, sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun

realtime = False
"""True: a replay delivers the parts of a stream with their recorded gaps. Otherwise at once."""


class Pace:
    """Timing of one stream, counted from its request.

    The whole thread sleeps: a replay delivers in recorded order, so nothing else could continue.
    """

    def __init__(self, run: LiveRun) -> None:
        self._is_replay = run.journal is None
        self._began = perf_counter_ns()

    def wait_until(self, microseconds: int) -> None:
        if realtime and self._is_replay:
            nanoseconds_left = microseconds * 1000 - (perf_counter_ns() - self._began)
            if nanoseconds_left > 0:
                sleep(nanoseconds_left / 1_000_000_000)
