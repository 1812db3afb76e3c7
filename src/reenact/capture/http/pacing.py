"""The gaps between the parts of a stream, given back in a replay on request."""

from __future__ import annotations

from time import perf_counter_ns, sleep
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reenact.effect.live_run import LiveRun

realtime = False
"""True: the parts of a recorded stream come when they came. Otherwise at once."""


class Pace:
    """Of one stream, counted from its request.

    The whole thread sleeps: a replay hands things over in the order in which they came, so nothing else could go on.
    """

    def __init__(self, run: LiveRun) -> None:
        self._is_replay = run.journal is None
        self._began = perf_counter_ns()

    def keep(self, microseconds: int) -> None:
        if realtime and self._is_replay:
            left = microseconds * 1000 - (perf_counter_ns() - self._began)
            if left > 0:
                sleep(left / 1_000_000_000)
