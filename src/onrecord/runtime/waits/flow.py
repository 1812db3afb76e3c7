"""Wait for a resolution: one generator that decides, and two drivers, for a thread and for an asyncio task.

The generator does no I/O. It yields `Work` (a store call, which may block) and `Pause` (until woken, or for a number of
seconds), and returns how the wait ended. A driver that is cancelled or interrupted writes nothing: only this process
stops waiting, and another process may wait for the same key.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias, TypeVar

from onrecord.runtime.waits.notifier import WaitNotifier

CLOCK_CHECK_SECONDS = 60.0
"""The interval of deadline checks. A deadline is a wall-clock time: clocks are set and machines sleep."""
CANCEL_CHECK_SECONDS = 0.05

T = TypeVar("T")


class Work(NamedTuple):
    call: Callable[[], Any]


class Pause(NamedTuple):
    seconds: float | None


Flow: TypeAlias = Generator[Work | Pause, Any, T]


def wait_flow(
    look: Callable[[], T | None],
    end_cancelled: Callable[[], T],
    end_timed_out: Callable[[], T],
    seconds_left: Callable[[], float | None],
    is_cancelled: Callable[[], bool],
) -> Flow[T]:
    """Yield the steps of a wait. A resolution takes precedence over a cancellation, and that over a deadline."""
    while True:
        found: T | None = yield Work(look)
        if found is not None:
            return found
        left = seconds_left()
        if is_cancelled():
            ended: T = yield Work(end_cancelled)
            return ended
        if left is not None and left <= 0:
            timed_out: T = yield Work(end_timed_out)
            return timed_out
        yield Pause(None if left is None else min(left, CLOCK_CHECK_SECONDS))


class ThreadWaiter:
    """The driver for a thread."""

    def __init__(self) -> None:
        self._woken = threading.Event()
        self._failure: BaseException | None = None

    def wake(self, failure: BaseException | None = None) -> None:
        self._failure = failure or self._failure
        self._woken.set()

    def drive(self, flow: Flow[T], cancel: threading.Event | None) -> T:
        answer: Any = None
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Work):
                answer = step.call()
            else:
                answer = None
                self._pause(step.seconds, cancel)

    def _pause(self, seconds: float | None, cancel: threading.Event | None) -> None:
        # A thread cannot wait for two events at once, so it checks `cancel` at intervals.
        end = None if seconds is None else time.monotonic() + seconds
        while cancel is None or not cancel.is_set():
            left = None if end is None else end - time.monotonic()
            longest = (
                left if cancel is None else min(CANCEL_CHECK_SECONDS, CANCEL_CHECK_SECONDS if left is None else left)
            )
            if self._woken.wait(longest) or (left is not None and left <= 0):
                break
        self._woken.clear()
        if self._failure is not None:
            raise self._failure


class TaskWaiter:
    """The driver for a task. It uses one event and at most one timer, so that a thousand waits stay cheap."""

    def __init__(self, notifier: WaitNotifier) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._failure: BaseException | None = None
        self._notifier = notifier

    def wake(self, failure: BaseException | None = None) -> None:
        self._failure = failure or self._failure
        with suppress(RuntimeError):  # the loop is closed, so no task waits
            self._loop.call_soon_threadsafe(self._woken.set)

    async def drive(self, flow: Flow[T], cancel: asyncio.Event | None) -> T:
        watching = None
        if cancel is not None:
            watching = self._loop.create_task(cancel.wait())
            watching.add_done_callback(lambda _: self._woken.set())
        answer: Any = None
        try:
            while True:
                try:
                    step = flow.send(answer)
                except StopIteration as end:
                    result: T = end.value
                    return result
                if isinstance(step, Work):
                    answer = await asyncio.wrap_future(self._notifier.lookup_threads().submit(step.call))
                else:
                    answer = None
                    await self._pause(step.seconds)
        finally:
            if watching is not None:
                watching.cancel()

    async def _pause(self, seconds: float | None) -> None:
        timer = None if seconds is None else self._loop.call_later(seconds, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self._woken.clear()
        if self._failure is not None:
            raise self._failure
