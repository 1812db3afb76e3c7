"""Durable sleeps (`onrecord run --durable-sleeps`): effects with a due time, like `onrecord.sleep`.

A process that resumes the run sleeps for the rest. Only sleeps in the program's own code are durable. All others are
timers, which the scheduler records and a replay does not wait for (`scheduler.drivers`).
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

from onrecord.capture.draws import is_own_call, is_own_frame
from onrecord.runtime.api import primitives
from onrecord.runtime.engine.context import current_lane

_real: dict[str, Callable[..., Any]] = {}


def make_durable() -> None:
    """Turn the program's own sleeps into effects."""
    if not _real:
        _real["sleep"], _real["asyncio"] = time.sleep, asyncio.sleep
        time.sleep = _sleep
        asyncio.sleep = asyncio.tasks.sleep = _sleep_in_task


def uninstall() -> None:
    if _real:
        time.sleep = _real["sleep"]
        asyncio.sleep = asyncio.tasks.sleep = _real["asyncio"]
    _real.clear()


def _sleep(seconds: Any, /) -> None:
    lane = current_lane()
    is_valid = isinstance(seconds, (int, float)) and seconds > 0
    if lane is None or lane.run.is_stopped or not is_valid or not is_own_call(2) or _is_in_loop():
        _real["sleep"](seconds)
    else:
        primitives.sleep(seconds)


def _is_in_loop() -> bool:
    """Return True in the thread of a running loop, where a durable sleep would have to be awaited."""
    return asyncio._get_running_loop() is not None


async def _sleep_in_task(delay: Any, result: Any = None) -> Any:
    lane = current_lane()
    if lane is not None and not lane.run.is_stopped and delay > 0 and _is_programs_sleep():
        await primitives.sleep(delay)
        return result
    return await _real["asyncio"](delay, result)


def _is_programs_sleep() -> bool:
    """Return True if the program awaits the sleep itself or through asyncio (`wait_for` since 3.12), or if the loop
    runs the sleep as a task of its own, as in `gather(sleep(1), sleep(2))`."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename == asyncio.tasks.__file__:
        frame = frame.f_back
    return frame is not None and (is_own_frame(frame) or frame.f_code.co_filename == asyncio.events.__file__)
