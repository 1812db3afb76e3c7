"""Draws: values that a lane takes from its surroundings, such as the time. They are recorded with the next commit and
served on replay. Inside an effect and outside any run nothing is recorded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from onrecord.runtime.engine.context import PLACE
from onrecord.runtime.replay.python_paths import INSTALLED, ONRECORD, PYTHONS
from onrecord.runtime.scheduler.lanes import Lane

_LIBRARIES = PYTHONS + INSTALLED
_SCHED = "/sched.py"
"""`sched` reads the clock on behalf of its caller, so the caller's frame decides."""
_own_files: dict[str, bool] = {}
_IMPORTING = "<frozen importlib._bootstrap>"
modules_are_shared = False
"""True: several runs share the modules of this process. Draws at import are not recorded: any run may import first."""


def draw(kind: str, make: Callable[[], Any]) -> Any:
    """Return a value made by `make`, or the recorded one."""
    lane = PLACE.get()
    if type(lane) is not Lane or lane.run.is_stopped or (modules_are_shared and _is_importing()):
        return make()
    return lane.run.draw(lane, kind, make)


def _is_importing() -> bool:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename != _IMPORTING:
        frame = frame.f_back
    return frame is not None


def is_own_call(depth: int) -> bool:
    """Return True if the code `depth` frames up is the program's own and not a library's."""
    try:
        frame = sys._getframe(depth)
    except ValueError:
        return False
    file = frame.f_code.co_filename
    own = _own_files.get(file) if file[:1] != "<" else None
    if own is None:
        own = is_own_frame(frame)
    return is_own_call(depth + 2) if not own and file.endswith(_SCHED) and file.startswith(PYTHONS) else own


def is_installed_call(depth: int) -> bool:
    """Return True if the code `depth` frames up is an installed library's and not Python's."""
    return sys._getframe(depth).f_code.co_filename.startswith(INSTALLED)


def is_our_call(depth: int) -> bool:
    """Return True if this package calls, directly or through the standard library. Its draws are not recorded."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and _is_standard_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(ONRECORD)


def _is_standard_library(file: str) -> bool:
    return file.startswith(PYTHONS) and not file.startswith(INSTALLED)


def is_own_frame(frame: FrameType) -> bool:
    """Return True for the program's own code. Generated code, such as a dataclass method, belongs to its module."""
    file = frame.f_code.co_filename
    if file[:1] == "<":
        file = frame.f_globals.get("__file__") or file
    return is_own_file(file)


def is_own_file(file: str) -> bool:
    own = _own_files.get(file)
    if own is None:
        own = _own_files[file] = not file.startswith((*_LIBRARIES, ONRECORD, "<frozen"))
    return own
