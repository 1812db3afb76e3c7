"""Values that a program draws from its surroundings, in a lane of its run: on record with the next commit, and given
again when it comes back. Inside an effect, and outside of any run, they are what they are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from reenact.effect.folders import INSTALLED, PYTHONS
from reenact.effect.lanes import Lane
from reenact.effect.places import PLACE

_LIBRARIES = PYTHONS + INSTALLED
_OURS = __file__.rpartition("capture")[0]
_SCHED = "/sched.py"
"""Reads no clock but the one that it is given, and what is done next depends on nothing else: who calls it reads."""
_own: dict[str, bool] = {}
_IMPORTING = "<frozen importlib._bootstrap>"
modules_are_shared = False
"""By several runs of this process: which of them is the first to import one is no behaviour of any."""


def drawn(kind: str, make: Callable[[], Any]) -> Any:
    """The value, or the recorded one."""
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
    """Whether the code that many frames up is the program's own, and not a library's."""
    try:
        frame = sys._getframe(depth)
    except ValueError:
        return False
    file = frame.f_code.co_filename
    own = _own.get(file) if file[:1] != "<" else None
    if own is None:
        own = is_own_frame(frame)
    return is_own_call(depth + 2) if not own and file.endswith(_SCHED) and file.startswith(PYTHONS) else own


def is_installed_call(depth: int) -> bool:
    """Whether it is that of a library that was installed, and not of Python's own."""
    return sys._getframe(depth).f_code.co_filename.startswith(INSTALLED)


def is_our_call(depth: int) -> bool:
    """Whether we ask ourselves, through whatever of Python's own: what we draw is not the program's."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and _is_pythons(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_OURS)


def _is_pythons(file: str) -> bool:
    return file.startswith(PYTHONS) and not file.startswith(INSTALLED)


def is_own_frame(frame: FrameType) -> bool:
    """Code that was made on the way, such as the methods of a dataclass, belongs to the module that it was made for."""
    file = frame.f_code.co_filename
    if file[:1] == "<":
        file = frame.f_globals.get("__file__") or file
    return is_own_file(file)


def is_own_file(file: str) -> bool:
    own = _own.get(file)
    if own is None:
        own = _own[file] = not file.startswith((*_LIBRARIES, _OURS, "<frozen"))
    return own
