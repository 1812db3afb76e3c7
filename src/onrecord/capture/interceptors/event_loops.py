"""Interceptors for foreign event loops, whose order of callbacks cannot be recorded or repeated.

uvloop has asyncio's interface: asyncio's own loop replaces it, and the summary says so. trio has not: a program that
runs trio is refused before trio starts, instead of being recorded with holes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

from onrecord.capture.interceptors.import_hooks import Replace
from onrecord.capture.unrecorded import guard
from onrecord.runtime.engine.context import current_lane
from onrecord.runtime.engine.execution import trio_refused

REPLACED = "uvloop replaced by asyncio's own loop"


class AsyncioLoop(asyncio.SelectorEventLoop):
    """asyncio's loop in place of uvloop's."""


def patch(module: ModuleType, replace: Replace) -> None:
    if module.__name__ == "uvloop":
        replace(module, "Loop", _replace_uvloop(module.Loop))
    else:
        replace(module, "run", _refuse_trio)
        replace(module.lowlevel, "start_guest_run", _refuse_trio)


def _replace_uvloop(uvloop: type) -> type:
    """Return a class in place of `uvloop.Loop`, which every function of uvloop uses: in a lane it makes asyncio's."""

    class LoopOfLane(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if current_lane() is None:
                return super().__call__(*args, **kwargs) if cls is not found else uvloop(*args, **kwargs)
            guard.remark(REPLACED)
            return AsyncioLoop()

        def __instancecheck__(cls, instance: Any) -> bool:
            is_loop = cls is found and isinstance(instance, (uvloop, AsyncioLoop))
            return is_loop or super().__instancecheck__(instance)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return (cls is found and issubclass(subclass, uvloop)) or super().__subclasscheck__(subclass)

    found = LoopOfLane("Loop", (uvloop,), {})
    return found


def _refuse_trio(run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    lane = current_lane()
    if lane is not None and not lane.run.is_stopped:
        lane.run.stop_here(trio_refused())
    return run(*args, **kwargs)
