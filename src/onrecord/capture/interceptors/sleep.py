"""Sleeps: a replay does not wait, and on request those of the program are durable.

Who sleeps in a library waits between two tries, or for something that is on record: when the run comes back, what came
after it comes at once. Tasks need nothing: their timers are handed over by the record. Nor do threads: that one has
slept is a turn among those of the others, which comes back in the recorded order.

Durable sleeps (`reenact run --durable-sleeps`) are effects with a due time, as `reenact.sleep` is: a process that takes
over sleeps for the rest. Only sleeps of the program's own code are.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

from reenact.capture.draws import is_own_call, is_own_frame
from reenact.effect import primitives
from reenact.effect.lanes import Lane
from reenact.effect.places import HERE, PLACE
from reenact.effect.waking import wait_in_turn

_real: dict[str, Callable[..., Any]] = {}
_is_durable = False
_skipped_seconds = 0.0


def install() -> None:
    if not _real:
        _real["sleep"], _real["asyncio"] = time.sleep, asyncio.sleep
        time.sleep = _sleep


def make_durable() -> None:
    """From here on the program's own sleeps are effects."""
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
    """How far the clock of whoever measures would have gone on while the replay did not wait."""
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
        wait_in_turn(place.run, _has_slept, seconds)
    elif place.run.is_live:
        _real["sleep"](seconds)
    else:
        _skipped_seconds += seconds
        _real["sleep"](0)


def _has_slept(seconds: float) -> bool:
    """A sleep is a wait for nothing: it always takes all of its time."""
    _real["sleep"](seconds)
    return False


def _is_in_loop() -> bool:
    """A blocking sleep in the thread of a loop, where a sleep that is an effect would have to be awaited."""
    return asyncio._get_running_loop() is not None


async def _sleep_in_task(delay: Any, result: Any = None) -> Any:
    place = PLACE.get()
    if type(place) is Lane and not place.run.is_stopped and delay > 0 and _is_the_programs():
        await primitives.sleep(delay)
        return result
    return await _real["asyncio"](delay, result)


def _is_the_programs() -> bool:
    """The program awaits it, by itself or through asyncio (`wait_for` from 3.12 on); or nobody does and the loop goes
    on with it, as in `gather(sleep(1), sleep(2))`."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename == asyncio.tasks.__file__:
        frame = frame.f_back
    return frame is not None and (is_own_frame(frame) or frame.f_code.co_filename == asyncio.events.__file__)
