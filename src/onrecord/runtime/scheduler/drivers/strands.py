"""Strands: what can run code of an agent. An event loop is one strand of many lanes, a thread is one of one lane.

The lane of the running code is found by the running task or thread, never by a context variable: libraries run jobs in
copies of the caller's context.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.runtime.scheduler.drivers.coordinator import Coordinator
    from onrecord.runtime.scheduler.items import Token


class RunEnded(BaseException):
    """Raised by every act of a strand that outlives its agent. Not an `Exception`: handlers of the agent ignore it."""


class RunStopped(BaseException):
    """Raised into the lanes of a run that was stopped. Not an `Exception`: handlers of the agent ignore it."""

    def __init__(self, reason: Any) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Strand:
    """A thread of a run. While it runs an event loop, it is the strand of that loop's lanes."""

    def __init__(self, coordinator: Coordinator, lane: str) -> None:
        self.coordinator = coordinator
        self.lane = lane
        self.gate = allocate_lock()
        """Released to let the thread continue."""
        self.gate.acquire()
        self.thread = 0
        """The thread that is this strand."""
        self.work: Callable[[], tuple[Token, Any] | None] | None = None
        """An effect that the waiting thread is to execute. It returns its token and outcome, unless they arrived."""
        self.is_blocked = False
        """Waits at its gate."""
        self.is_away = False
        self.has_ended = False
        self.is_daemon = False
        """The program may end before it."""
        self.is_left = False
        """The thread has left a block that is a run, and may enter it again."""
        self.since = 0.0
        """When it reached its last act."""
        self.on_end: list[Callable[[], None]] = []
        # While it runs a loop:
        self.loop: Any = None
        self.callbacks: deque[tuple[str, asyncio.Handle]] = deque()
        """Callbacks of the agent, each with the lane that it belongs to."""
        self.is_pumping = False
        self.taken = 0
        """Callbacks that the pump has run since it began."""
        self.rests = 0
        """How often it rested and continued without a round of the real loop."""
        self.owner = lane
        """The lane of the callback that runs now."""
        self.adopted: asyncio.Task[Any] | None = None
        """A task of the surrounding program in which a block of this run began."""

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
        self.is_new = True
        """Its first step is not queued yet."""
        self._number = number  # before anything else: asyncio puts the new task into a set
        super().__init__(coroutine, **options)

    def set_name(self, value: object) -> None:
        """Set the name. `asyncio.create_task` of Python 3.11 does so right after the task was created."""
        super().set_name(value)
        found = find_lane()
        if found is not None and found[1] != self.lane:
            run = self.strand.coordinator
            with run.lock:
                self.lane = run.kernel.rename(self.lane, run.redact_label(str(value)))

    def __hash__(self) -> int:
        return self._number


class LaneFuture(asyncio.Future[Any]):
    """A future that an agent made. Its hash is the same in every process."""

    def __init__(self, number: int, loop: Any) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class InsideTask(asyncio.Task[Any]):
    """A task that executes an effect, or that an effect started. It belongs to no lane."""


class _Inside:
    """Counts how often the thread has entered code that belongs to no lane."""

    def __enter__(self) -> None:
        CURRENT.depth += 1

    def __exit__(self, *_: object) -> None:
        CURRENT.depth -= 1


_INSIDE = _Inside()


def inside() -> _Inside:
    """Execute code that belongs to no lane: an effect, or a wait of the scheduler's own. Never across an `await`."""
    return _INSIDE


def find_lane() -> tuple[Strand, str] | None:
    """Return the strand and the lane of the running code; None inside an effect and outside of runs."""
    strand = CURRENT.strand
    if strand is None or CURRENT.depth:
        return _find_adopted() if ADOPTED and not CURRENT.depth else None
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


class Lane(NamedTuple):
    """The lane of the running code."""

    run: LiveRun
    strand: Strand
    name: str


def current_lane() -> Lane | None:
    """Return the lane of the running code, with its run; None inside an effect and outside of runs."""
    strand = CURRENT.strand
    if strand is not None and strand.loop is None and not CURRENT.depth:
        return Lane(strand.coordinator.owner, strand, strand.lane)
    found = find_lane()
    return None if found is None else Lane(found[0].coordinator.owner, *found)


ADOPTED: dict[asyncio.Task[Any], Strand] = {}
"""Tasks of the surrounding program in which blocks of runs are open."""


def _find_adopted() -> tuple[Strand, str] | None:
    try:
        strand = ADOPTED.get(asyncio.current_task())  # type: ignore[arg-type]
    except RuntimeError:
        return None
    return None if strand is None else (strand, strand.lane)
