"""Loops that are none of asyncio's own. In which order they hand things over nobody can tell, or repeat.

uvloop does what asyncio does: asyncio's own loop stands in for it, and the summary says so. trio does not: a program
that runs it is refused before anything of it has happened, instead of being recorded with holes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

from reenact.capture.guard import guard
from reenact.capture.seams.hooks import Replace, lane_here
from reenact.effect.running import trio_refused

REPLACED = "uvloop replaced by asyncio's own loop"


class OwnLoop(asyncio.SelectorEventLoop):
    """In the place of `uvloop.Loop`, from which all that uvloop offers is made."""

    def __init__(self) -> None:
        guard.remark(REPLACED)
        super().__init__()


def put_into(module: ModuleType, replace: Replace) -> None:
    if module.__name__ == "uvloop":
        replace(module, "Loop", OwnLoop)
    else:
        replace(module, "run", _refuse)
        replace(module.lowlevel, "start_guest_run", _refuse)


def _refuse(run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    lane = lane_here()
    if lane is not None and not lane.run.is_stopped:
        lane.run.stop_here(trio_refused())
    return run(*args, **kwargs)
