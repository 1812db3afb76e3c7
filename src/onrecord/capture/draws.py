"""Draws: values that a lane takes from its surroundings, such as the time. They are recorded with the next commit and
served in a replay. Inside an effect, and outside of runs, nothing is recorded.

A draw is known by its lane and its site: the function that is read, its size, and the calling function. It does not
matter whose code calls: the program's, an installed package's or the standard library's. Not recorded is what the
machinery reads that carries the lanes (event loops, threads, queues), and what this package reads for itself.
"""

from __future__ import annotations

import _frozen_importlib
import gc
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from onrecord.runtime.engine.context import Lane, current_lane
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import Divergence
from onrecord.runtime.replay.python_paths import INSTALLED, ONRECORD, PYTHONS, STANDARD_LIBRARY
from onrecord.runtime.replay.source_lines import line_of

_LIBRARIES = PYTHONS + INSTALLED
_own_files: dict[str, bool] = {}
_IMPORTING = "<frozen importlib._bootstrap>"
modules_are_shared = False
"""True: several runs share the modules of this process. Draws at import are not recorded: any run may import first."""

# Kinds of files, for finding the caller of a function
_CALLER, _LIBRARY, _BETWEEN, _OURS, _CARRIES, _MACHINERY = range(6)
_HERE = os.path.join(ONRECORD, "capture")
_DRIVERS = os.path.join(ONRECORD, "runtime", "scheduler", "drivers", "")
"""The code that calls a lane's own code."""
_INTERCEPTORS = frozenset(
    os.path.join(_HERE, *name)
    for name in (
        ("draws.py",),
        *(("interceptors", f"{one}.py") for one in ("clock", "randomness", "import_hooks", "uuid_utils_ids")),
    )
)
_IMPLEMENTING = frozenset(
    os.path.join(STANDARD_LIBRARY, name)
    for name in ("random.py", "secrets.py", "uuid.py", "datetime.py", "_pydatetime.py")
)
"""Modules that draw for their caller."""
_CARRYING = tuple(
    os.path.join(STANDARD_LIBRARY, name)
    for name in ("asyncio" + os.sep, "threading.py", "queue.py", "concurrent" + os.sep, "selectors.py", "ssl.py")
)
_TEST_RUNNERS = (f"{os.sep}_pytest{os.sep}", f"{os.sep}pluggy{os.sep}")
_kinds: dict[str, int] = {}


def draw(what: str, make: Callable[[], Any]) -> Any:
    """Return a value made by `make`, or the recorded one. `what` is the function that is read, with its size."""
    lane = drawing_lane()
    if lane is None or (site := find_site(what)) is None:
        return make()
    return draw_at(lane, site, make)


def drawing_lane() -> Lane | None:
    """Return the lane whose draws are recorded, if there is one."""
    lane = current_lane()
    if lane is None or lane.run.is_stopped or lane.run.is_being_changed:  # a finaliser may draw at any time
        return None
    return None if modules_are_shared and _is_importing() else lane


def draw_at(lane: Lane, site: str, make: Callable[[], Any]) -> Any:
    run = lane.run
    if run.journal is None and run.is_strict:
        make = _Refusal(run, site)
    return run.draw(lane, site, make)


class _Refusal:
    """Stop a strict replay instead of drawing what the record does not have."""

    def __init__(self, run: LiveRun, site: str) -> None:
        self._run = run
        self._site = site

    def __call__(self) -> Any:
        what, _, where = self._site.partition("@")
        line = find_own_line()
        self._run.stop_here(
            Divergence(
                f"the replay of run {self._run.name} reads {what} in {where or 'the program'}, which is not on record",
                hint="Record the run again, or replay it without --strict: the value is then read anew.",
                code="unrecorded_draw",
                line=line,
                actual=self._site,
            )
        )


def find_site(what: str) -> str | None:
    """Return the name of the calling function, or None if its reading is no draw."""
    frame: FrameType | None = sys._getframe(1)
    kind = _BETWEEN
    while frame is not None and (kind := _kind_of(frame)) == _BETWEEN:
        frame = frame.f_back
    if frame is None or kind in (_OURS, _MACHINERY, _CARRIES) or (kind == _LIBRARY and _is_called_by_us(frame)):
        return None
    if gc.callbacks and _is_collecting(frame):
        return None
    return f"{what}@{frame.f_globals.get('__name__', '')}.{frame.f_code.co_qualname}"


def _is_collecting(frame: FrameType) -> bool:
    """Return True for code that the garbage collector calls, from anywhere: it is none of the lane's."""
    return any(getattr(callback, "__code__", None) is frame.f_code for callback in gc.callbacks)


def _is_called_by_us(frame: FrameType | None) -> bool:
    """Return True if this package uses the standard library."""
    while frame is not None and (kind := _kind_of(frame)) in (_LIBRARY, _BETWEEN, _MACHINERY):
        frame = frame.f_back
    return frame is not None and kind == _OURS


def _kind_of(frame: FrameType) -> int:
    file = frame.f_code.co_filename
    kind = _kinds.get(file)
    if kind is None:
        kind = _find_kind(file)
        if len(_kinds) < 10_000:
            _kinds[file] = kind
    return kind


def _find_kind(file: str) -> int:
    if file in _INTERCEPTORS or file in _IMPLEMENTING:
        return _BETWEEN
    if file.startswith(ONRECORD):
        return _CARRIES if file.startswith(_DRIVERS) else _OURS
    if file.startswith(_CARRYING) or any(name in file for name in _TEST_RUNNERS):
        return _MACHINERY
    if file.startswith(PYTHONS) and not file.startswith(INSTALLED):
        return _LIBRARY
    return _CALLER


def _is_importing() -> bool:
    """Return True if code of the run is importing a module."""
    if not _frozen_importlib._module_locks:  # type: ignore[attr-defined]  # nothing is being imported, in any thread
        return False
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename != _IMPORTING:
        if _kind_of(frame) in (_OURS, _CARRIES):
            return False  # the run began here
        frame = frame.f_back
    return frame is not None


# The program's own code


def find_own_line() -> str:
    """Return the innermost line of the program's own code, or "" if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_own_frame(frame):
            return line_of(frame)
        frame = frame.f_back
    return ""


def is_own_call(depth: int) -> bool:
    """Return True if the code `depth` frames up is the program's own and not a library's."""
    try:
        return is_own_frame(sys._getframe(depth))
    except ValueError:
        return False


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
