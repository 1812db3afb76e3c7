"""Traps of a replay: an agent that starts a process or opens a connection is stopped, with the line and what to use.

The interpreter reports both by audit events, however they are reached. A trapped call does not happen, and the agent
cannot catch the divergence. Not trapped: what this package does to read the record, what a module does while it is
imported, questions to the system such as `uname`, and code outside of the replay's lanes.
"""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any

from onrecord.runtime.engine.context import current_lane
from onrecord.runtime.engine.stops import Divergence
from onrecord.runtime.replay.python_paths import INSTALLED, ONRECORD, PYTHONS, STANDARD_LIBRARY

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun

_SPAWN = "Start it inside of a tool or a step: its outcome is recorded, and served in a replay."
_CONNECT = "Connect inside of a tool or a step: its outcome is recorded, and served in a replay."
_STARTS = (
    *("subprocess.Popen", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn"),
)
_CONNECTS = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname")
_AUDITED = {
    **dict.fromkeys(_STARTS, ("starts a process", _SPAWN)),
    **dict.fromkeys(_CONNECTS, ("uses the network", _CONNECT)),
}
_STARTERS = tuple(f"{os.sep}{name}.py" for name in ("subprocess", "os", "contextlib"))
_QUERIES = frozenset(
    os.path.join(STANDARD_LIBRARY, *place) for place in (("platform.py",), ("uuid.py",), ("ctypes", "util.py"))
)
_READING = (os.path.join(ONRECORD, "store"), os.path.join(ONRECORD, "journal"))
_LIBRARY = tuple(folder + os.sep for folder in PYTHONS)
_PACKAGES = tuple(folder + os.sep for folder in INSTALLED)

_lock = threading.Lock()
_installed = False


def set_traps() -> None:
    """Set the traps, once in a process: the interpreter removes no audit function. They act in replays only."""
    global _installed
    with _lock:
        if not _installed:
            _installed = True
            sys.addaudithook(_audited)
            _watch_other_processes()


def _audited(event: str, _: tuple[Any, ...], audited: Any = _AUDITED) -> None:
    found = audited.get(event)  # as a default: Python clears this module at the end of the process
    if found is None:
        return
    run = _replayed_here()
    if run is not None and not is_reading(sys._getframe(1)) and not asks_the_system(sys._getframe(1)):
        does, hint = found
        _trap(run, event, does, hint, sys._getframe(1))


def _watch_other_processes() -> None:
    """Watch how `multiprocessing` starts a fresh interpreter: no audit event reports it."""
    from multiprocessing import util

    report_spawns(util)


def report_spawns(util: Any) -> None:
    """Let `multiprocessing.util` raise an audit event for a fresh interpreter."""
    original = util.spawnv_passfds

    def spawnv_passfds(path: Any, args: Any, passfds: Any) -> Any:
        sys.audit("os.spawn", path)
        return original(path, args, passfds)

    util.spawnv_passfds = spawnv_passfds


def _replayed_here() -> LiveRun | None:
    """Return the replay whose agent's code is running here."""
    lane = current_lane()
    if lane is None:
        return None
    run = lane.run
    return run if run.touches_nothing and not run.is_stopped else None


def is_reading(frame: FrameType | None) -> bool:
    """Return True if the record is being read, perhaps from a server, or a module is being imported."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith((*_READING, "<frozen importlib")):
            return True
        if file.startswith(ONRECORD):
            return False  # the agent was called from here
        frame = frame.f_back
    return False


def asks_the_system(frame: FrameType | None) -> bool:
    """Return True if the standard library starts `uname`, `ldconfig` or the like to describe this machine. Libraries
    do that wherever they are, and it changes nothing outside."""
    while frame is not None and _only_starts(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename in _QUERIES


def _only_starts(file: str) -> bool:
    """Return True for code that starts processes for its caller: the standard library's, and our interceptors."""
    return file.endswith(_STARTERS) or file.startswith(ONRECORD)


def _trap(run: LiveRun, what: str, does: str, hint: str, frame: FrameType | None) -> None:
    line = _line(frame)
    where = f" at {line}" if line else ""
    run.stop_here(
        Divergence(
            f"the replay of run {run.name} {does}{where}, which is on no record",
            hint=hint,
            code="trapped",
            line=line,
            actual=what,
        )
    )


def _line(frame: FrameType | None) -> str:
    """Return the innermost line that is not the standard library's or ours."""
    while frame is not None:
        file = frame.f_code.co_filename
        is_inside = file.startswith(_LIBRARY) and not file.startswith(_PACKAGES)
        if not is_inside and not file.startswith(("<", ONRECORD)):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
