"""Strands: what can run code of an agent. An event loop is one strand of many lanes, a thread is one of one lane.

The lane of the running code is found by the running task or thread, never by a context variable: libraries run jobs in
copies of the caller's context.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onrecord.runtime.scheduler.drivers.coordinator import Coordinator


class RunEnded(BaseException):
    """Raised by every act of a strand that outlives its agent. Not an `Exception`: handlers of the agent ignore it."""


class Strand:
    """A thread of a run. While it runs an event loop, it is the strand of that loop's lanes."""

    def __init__(self, coordinator: Coordinator, lane: str) -> None:
        self.coordinator = coordinator
        self.lane = lane
        self.gate = allocate_lock()
        """Released to let the thread continue."""
        self.gate.acquire()
        self.work: Callable[[], None] | None = None
        """An effect that the waiting thread is to execute."""
        self.is_blocked = False
        """Waits at its gate."""
        self.is_away = False
        self.has_ended = False
        self.since = 0.0
        """When it reached its last act."""
        self.on_end: list[Callable[[], None]] = []
        # While it runs a loop:
        self.loop: Any = None
        self.callbacks: deque[tuple[str, asyncio.Handle]] = deque()
        """Callbacks of the agent, each with the lane that it belongs to."""
        self.is_pumping = False
        self.owner = lane
        """The lane of the callback that runs now."""

    def __repr__(self) -> str:
        return f"<strand {self.lane}>"


class _Current(threading.local):
    strand: Strand | None = None
    depth = 0
    """Above 0 the thread executes an effect, or code of the scheduler: it belongs to no lane."""


CURRENT = _Current()


class LaneTask(asyncio.Task[Any]):
    """A task of an agent. Its hash is the same in every process, so sets of tasks have one order."""

    def __init__(self, coroutine: Any, strand: Strand, lane: str, number: int, **options: Any) -> None:
        self.strand = strand
        self.lane = lane
        self._number = number  # before anything else: asyncio puts the new task into a set
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class InsideTask(asyncio.Task[Any]):
    """A task that executes an effect, or that an effect started. It belongs to no lane."""


@contextmanager
def inside() -> Iterator[None]:
    """Execute code that belongs to no lane: an effect, or a wait of the scheduler's own."""
    CURRENT.depth += 1
    try:
        yield
    finally:
        CURRENT.depth -= 1


def find_lane() -> tuple[Strand, str] | None:
    """Return the strand and the lane of the running code; None inside an effect and outside of runs."""
    strand = CURRENT.strand
    if strand is None or CURRENT.depth:
        return None
    if strand.loop is not None:
        if not strand.is_pumping:
            return None
        try:
            task = asyncio.current_task(strand.loop.loop)
        except RuntimeError:
            task = None
        if task is not None:
            return (strand, task.lane) if isinstance(task, LaneTask) else None
        return strand, strand.owner
    return strand, strand.lane
