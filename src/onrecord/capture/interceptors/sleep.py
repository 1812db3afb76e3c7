"""Sleep interceptor: a replay does not wait, and on request the program's own sleeps are durable.

A library sleeps between two attempts, or until something that is recorded: a replay continues at once. `asyncio.sleep`
is not replaced for this, because the record delivers the timers. The end of a sleep in a thread is a turn, which
replays in the recorded order.

Durable sleeps (`onrecord run --durable-sleeps`) are effects with a due time, like `onrecord.sleep`: a process that
resumes the run sleeps for the rest. Only sleeps in the program's own code are durable.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

from onrecord.capture.draws import is_own_call, is_own_frame
from onrecord.runtime.api import primitives
from onrecord.runtime.engine.context import HERE, PLACE
from onrecord.runtime.scheduler.conditions import wait_in_turn
from onrecord.runtime.scheduler.lanes import Lane

_real: dict[str, Callable[..., Any]] = {}
_is_durable = False
_skipped_seconds = 0.0


def install() -> None:
    if not _real:
        _real["sleep"], _real["asyncio"] = time.sleep, asyncio.sleep
        time.sleep = _sleep


def make_durable() -> None:
    """Turn the program's own sleeps into effects."""
    global _is_durable
    install()
    _is_durable = True
    asyncio.sleep = asyncio.tasks.sleep = _sleep_in_task


def uninstall() -> None:
    global _is_durable, _skipped_seconds
    if _real:
        time.sleep = _real["sleep"]
        asyncio.sleep = asyncio.tasks.sleep = _real["asyncio"]
    _real.clear()
    _is_durable, _skipped_seconds = False, 0.0


def skipped_seconds() -> float:
    """Return the seconds that recorded sleeps took and the replay did not wait."""
    return _skipped_seconds


def _sleep(seconds: Any, /) -> None:
    global _skipped_seconds
    place = PLACE.get()
    if type(place) is not Lane or place.run.is_stopped or not isinstance(seconds, (int, float)) or not seconds > 0:
        _real["sleep"](seconds)
    elif _is_durable and is_own_call(2) and not _is_in_loop():
        primitives.sleep(seconds)
    elif HERE.token is not None and not _is_in_loop():
        if not place.run.is_live:
            _skipped_seconds += seconds
        wait_in_turn(place.run, _sleep_fully, seconds)
    elif place.run.is_live:
        _real["sleep"](seconds)
    else:
        _skipped_seconds += seconds
        _real["sleep"](0)


def _sleep_fully(seconds: float) -> bool:
    """Sleep, and return False: for `wait_in_turn` a sleep is a wait that always times out."""
    _real["sleep"](seconds)
    return False


def _is_in_loop() -> bool:
    """Return True in the thread of a running loop, where a durable sleep would have to be awaited."""
    return asyncio._get_running_loop() is not None


async def _sleep_in_task(delay: Any, result: Any = None) -> Any:
    place = PLACE.get()
    if type(place) is Lane and not place.run.is_stopped and delay > 0 and _is_programs_sleep():
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
