"""Traps: what an agent must not do by itself in a replay is stopped, with the line that did it and what to use instead.

1. In every replay, starting a process and opening a network connection are trapped: nothing outside is touched. The
   interpreter tells of both (audit events), however they are reached.
2. In a strict replay, reading a clock and drawing chance are trapped too. They are recognised when they are called, by
   a profile function of the threads of that replay, so `from time import time` and `datetime.now` are found as well,
   and code outside of the replay is not touched: no module is changed.
3. A trapped call does not happen. The replay stops with a divergence that the agent cannot catch.
4. Not trapped: what the standard library and we do for ourselves (an event loop's clock, a log record's time), what a
   module does while it is imported, a seeded `random.Random(7)`, and whatever runs in another place than a lane.

What is not seen: `time.localtime`, `time.strftime` and their like, which read the clock only when they are not given a
time, and libraries written in C that ask the system themselves.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import date
from types import BuiltinMethodType, FrameType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from onrecord.errors import InvalidInput
from onrecord.runtime.engine.context import current_lane
from onrecord.runtime.engine.stops import Divergence, RunStopped
from onrecord.runtime.replay.python_paths import INSTALLED, ONRECORD, PYTHONS, STANDARD_LIBRARY

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun

_SPAWN = "Start it inside of a tool or a step: its outcome is recorded, and served in a replay."
_CONNECT = "Connect inside of a tool or a step: its outcome is recorded, and served in a replay."
_CLOCK = "Use onrecord.now(), which gives the recorded time again, or read the clock inside of a step."
_CHANCE = "Use onrecord.random() or onrecord.uuid(), which give the recorded values again, or draw inside of a step."
_SEED = "Give it a seed, such as random.Random(onrecord.random())."

_AUDITED = {
    **dict.fromkeys(
        (
            "subprocess.Popen",
            "os.fork",
            "os.forkpty",
            "os.exec",
            "os.posix_spawn",
            "os.spawn",
            "os.system",
            "pty.spawn",
        ),
        ("starts a process", _SPAWN),
    ),
    **dict.fromkeys(
        ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"),
        ("uses the network", _CONNECT),
    ),
}
_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
_CALLED: dict[Any, tuple[str, str]] = {
    **{getattr(time, name): (f"reads the clock (time.{name})", _CLOCK) for name in _CLOCKS},
    os.urandom: ("draws chance (os.urandom)", _CHANCE),
}
_NAMES = frozenset(called.__name__ for called in _CALLED) | {"now", "utcnow", "today", "random", "getrandbits", "seed"}
_STARTERS = tuple(f"{os.sep}{name}.py" for name in ("subprocess", "os", "contextlib"))
_QUERIES = frozenset(
    os.path.join(STANDARD_LIBRARY, *place) for place in (("platform.py",), ("uuid.py",), ("ctypes", "util.py"))
)
_CARRIERS = tuple(f"{os.sep}{name}.py" for name in ("random", "secrets", "uuid"))
"""Modules of the standard library that draw chance for whoever calls them."""
_READING = (os.path.join(ONRECORD, "store"), os.path.join(ONRECORD, "journal"))
_LIBRARY = tuple(folder + os.sep for folder in PYTHONS)
_OTHERS = tuple(folder + os.sep for folder in INSTALLED)

_lock = threading.Lock()
_installed = False
_strict: set[int] = set()
"""The strict replays that go on, by identity."""
_refusing: WeakSet[LiveRun] = WeakSet()
"""Strict replays in which clocks and randomness are intercepted."""


def guarded(run: LiveRun, call: Callable[[], Any], *, is_async: bool, strict: bool) -> Callable[[], Any]:
    """The call of an agent's function in a replay, with the traps set as long as it goes on."""
    _install()
    if strict and sys.getprofile() not in (None, _profiled):
        raise InvalidInput(
            "a strict replay cannot be profiled: both need the interpreter's profile function",
            hint="Profile a replay that is not strict.",
            code="profiler_active",
        )

    def plain() -> Any:
        with _watched(run, strict):
            return call()

    async def awaited() -> Any:
        with _watched(run, strict):
            made: Awaitable[Any] = call()
            return await made

    return awaited if is_async else plain


def set_traps() -> None:
    """Set the traps of a replay that is not strict, for the rest of the process."""
    _install()


def refuse_new_draws(run: LiveRun) -> None:
    """Refuse draws that are not on record, in a replay whose clocks and randomness are intercepted."""
    with _lock:
        _refusing.add(run)


def is_strict(run: LiveRun) -> bool:
    """Return True if the replay refuses draws that the record does not have."""
    return run in _refusing


def _install() -> None:
    """Once in a process: the interpreter forgets no audit function."""
    global _installed
    with _lock:
        if not _installed:
            _installed = True
            sys.addaudithook(_audited)
            _watch_other_processes()


# Processes and connections


def _audited(event: str, _: tuple[Any, ...]) -> None:
    found = _AUDITED.get(event)
    if found is None:
        return
    run = _replayed_here()
    if run is not None and not _is_reading(sys._getframe(1)) and not asks_the_system(sys._getframe(1)):
        _trap(run, event, *found, sys._getframe(1))


def _watch_other_processes() -> None:
    """`multiprocessing` starts a fresh interpreter by a way of its own that no event tells of."""
    from multiprocessing import util

    original = util.spawnv_passfds

    def spawnv_passfds(path: Any, args: Any, passfds: Any) -> Any:
        _audited("os.spawn", ())
        return original(path, args, passfds)

    util.spawnv_passfds = spawnv_passfds


def _replayed_here() -> LiveRun | None:
    """The replay whose agent's code is running here."""
    lane = current_lane()
    if lane is None:
        return None
    run = lane.run
    return run if run.touches_nothing and not run.is_stopped else None


def _is_reading(frame: FrameType | None) -> bool:
    """The record itself is being read, perhaps from a server; or a module is being imported."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_READING) or _imports(file):
            return True
        if file.startswith(ONRECORD):
            return False  # the agent was called from here
        frame = frame.f_back
    return False


def asks_the_system(frame: FrameType | None) -> bool:
    """The standard library has a program tell it what machine this is: `uname`, `ldconfig` and their like. Libraries do
    that wherever they are; nothing outside is changed by it."""
    while frame is not None and _only_starts(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename in _QUERIES


def _only_starts(file: str) -> bool:
    """It starts processes for whoever calls it: the standard library's ways, and our seams in them."""
    return file.endswith(_STARTERS) or file.startswith(ONRECORD)


# Clock and chance


@contextmanager
def _watched(run: LiveRun, strict: bool) -> Iterator[None]:
    if not strict:
        yield
        return
    with _lock:
        _strict.add(id(run))
    before, before_of_threads = sys.getprofile(), threading.getprofile()
    threading.setprofile(_profiled)
    sys.setprofile(_profiled)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(before_of_threads)
        with _lock:
            _strict.discard(id(run))


def _profiled(frame: FrameType, event: str, called: Any) -> None:
    if event != "c_call" or called.__name__ not in _NAMES:
        return
    run = _replayed_here()
    if run is None or id(run) not in _strict:
        return
    found = _CALLED.get(called) or _drawn(called, frame)
    caller = _caller(frame) if found is not None else None
    if found is not None and caller is not None:
        _trap(run, "clock_or_chance", *found, caller)


def _drawn(called: Any, frame: FrameType) -> tuple[str, str] | None:
    """Methods of C classes: `datetime.now`, and those of the generator that the functions of `random` share."""
    name, owner = called.__name__, getattr(called, "__self__", None)
    if not isinstance(called, BuiltinMethodType):
        return None
    if isinstance(owner, type) and issubclass(owner, date):
        return f"reads the clock ({owner.__name__}.{name})", _CLOCK
    if owner is random._inst and name != "seed":
        return "draws chance (the random module)", _CHANCE
    if isinstance(owner, random.Random) and name == "seed" and frame.f_locals.get("a", 0) is None:
        return "draws chance (a generator without a seed)", _SEED
    return None


def _caller(frame: FrameType | None) -> FrameType | None:
    """Whose call it is; None: that of the standard library, of ours, or of a module that is being imported."""
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        if not frame.f_code.co_filename.endswith(_CARRIERS):
            break
        frame = frame.f_back
    if frame is None:
        return None
    file = frame.f_code.co_filename
    if file.startswith(ONRECORD) or (file.startswith(_LIBRARY) and not file.startswith(_OTHERS)):
        return None
    return None if _is_imported(frame) or _is_collecting(frame) else frame


def _is_collecting(frame: FrameType | None) -> bool:
    """What the garbage collector calls, it calls from anywhere: that is nothing the agent does."""
    collecting = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None and collecting:
        if frame.f_code in collecting:
            return True
        frame = frame.f_back
    return False


def _is_imported(frame: FrameType | None) -> bool:
    while frame is not None:
        file = frame.f_code.co_filename
        if _imports(file):
            return True
        if file.startswith(ONRECORD):
            return False
        frame = frame.f_back
    return False


def _imports(file: str) -> bool:
    return file.startswith("<frozen importlib")


# Telling


def _trap(run: LiveRun, what: str, does: str, hint: str, frame: FrameType | None) -> None:
    line = _line(frame)
    where = f" at {line}" if line else ""
    run.stop(
        Divergence(
            f"the replay of run {run.name} {does}{where}, which is on no record",
            hint=hint,
            code="trapped",
            line=line,
            actual=what,
        )
    )
    assert run.stopped is not None
    raise RunStopped(run.stopped)


def _line(frame: FrameType | None) -> str:
    """The innermost line that is not the standard library's."""
    while frame is not None:
        file = frame.f_code.co_filename
        inside = file.startswith(_LIBRARY) and not file.startswith(_OTHERS)
        if not inside and not file.startswith(("<", ONRECORD)):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
