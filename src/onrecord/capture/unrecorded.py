"""Notice, name and count what a recorded program does outside without an interceptor: no silent hole.

The interpreter reports every connection and every new process by audit events. Inside an effect they are part of the
effect. In the program's own lanes they are not recorded, so a replay cannot repeat them.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from onrecord.capture.draws import is_own_frame
from onrecord.core.lane_names import shown_lane
from onrecord.errors import OnrecordError
from onrecord.runtime.engine.context import Lane, current_lane
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.replay.sandbox import asks_the_system, is_reading
from onrecord.runtime.replay.source_lines import line_of

_CONNECTS = ("socket.connect", "socket.sendto", "socket.sendmsg")
_STARTS = (
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn", "os.fork", "os.forkpty"),
)
_WATCHED = frozenset(_CONNECTS + _STARTS)
MOST_NAMED = 100


class Unseen(OnrecordError):
    """A strict recording refused an action that would not be recorded. The action has not happened."""

    code = "unseen"
    exit_status = 1
    default_hint = "Use a recorded HTTP client, a tool or a step; or record without --strict."


class UnrecordedWarning(RuntimeWarning):
    """An agent did something outside that is not recorded. Do it in a tool or a step, or use a recorded client."""


class Hole(NamedTuple):
    """Action that was not recorded."""

    what: str
    where: str
    """Line of the program's own code."""


class UnrecordedWatch:
    """Watch of one process for unrecorded actions."""

    def __init__(self) -> None:
        self.holes: Counter[Hole] = Counter()
        self.remarks: dict[str, None] = {}
        """Changes to the program's set-up, such as another event loop, for the summary."""
        self.is_watching = False
        self._warns = False
        self._named: WeakKeyDictionary[LiveRun, set[Hole]] = WeakKeyDictionary()
        """Places that a warning has named, by run."""
        self._installed = False

    def watch(self, *, warns: bool = False) -> None:
        """Watch from here on. With `warns`, a Python warning names each place: this process prints no summary."""
        self.is_watching, self._warns = True, warns
        if not self._installed:
            self._installed = True
            sys.addaudithook(_make_audit_hook(self))

    def note(self, what: str, where: str) -> None:
        """Count an action that an interceptor cannot record."""
        if self.is_watching:
            self._count(Hole(what, where))

    def remark(self, what: str) -> None:
        if self.is_watching:
            self.remarks[what] = None

    def _count(self, hole: Hole) -> None:
        if len(self.holes) < MOST_NAMED or hole in self.holes:
            self.holes[hole] += 1

    def check_event(self, event: str, args: tuple[Any, ...]) -> None:
        """Check an audit event. The caller of the hook must be two frames up."""
        lane = current_lane()
        if lane is None or lane.run.is_stopped or lane.run.journal is None:
            return  # an effect may do it; a replay has its own traps
        if asks_the_system(sys._getframe(2)):
            return
        where = own_line()
        if not where and is_reading(sys._getframe(2)):
            return  # this package does it
        # A thread may have a library's function as its target: then there is no line.
        self._refuse_or_count(lane, Hole(_describe_event(event, args), where or f"lane {shown_lane(lane.name)}"))

    def refuse_or_count(self, lane: Lane, what: str) -> None:
        """Count an action in a lane that an interceptor cannot record. If strict, stop the run instead."""
        if self.is_watching and lane.run.journal is not None and not lane.run.is_stopped:
            self._refuse_or_count(lane, Hole(what, own_line()))

    def _refuse_or_count(self, lane: Lane, hole: Hole) -> None:
        self._count(hole)
        if lane.run.is_strict:
            lane.run.stop_here(Unseen(f"{hole.what} at {hole.where} would not be recorded"))
        named = self._named.setdefault(lane.run, set())
        if self._warns and hole not in named:
            named.add(hole)
            text = f"run {lane.run.name} does not record {hole.what} at {hole.where}: a replay cannot repeat it"
            file, _, line = hole.where.rpartition(":")
            warnings.warn_explicit(text, UnrecordedWarning, file or hole.where, int(line) if line.isdigit() else 0)


def _make_audit_hook(guard: UnrecordedWatch) -> Callable[[str, tuple[Any, ...]], None]:
    """Return the audit hook as a plain function. For a bound method the interpreter looks up a missing attribute with
    each event, which costs more than the rest, and even clock readings cause events."""
    watched = _WATCHED  # still there when Python clears this module at the end of the process

    def check_event(event: str, args: tuple[Any, ...]) -> None:
        if event in watched and guard.is_watching:
            guard.check_event(event, args)

    return check_event


def _describe_event(event: str, args: tuple[Any, ...]) -> str:
    if event in _CONNECTS:
        return f"a connection to {_format_address(args[-1])}"
    named = args[0] if args and isinstance(args[0], (str, bytes)) else None
    name = named.decode(errors="replace") if isinstance(named, bytes) else named
    return f"a process ({name})" if name else "a process"


def _format_address(address: Any) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        return f"{address[0]}:{address[1]}"
    return repr(address)[:100]


def own_line() -> str:
    """Return the innermost line of the program's own code, or "" if this package acts on its own."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if is_own_frame(frame):
            return line_of(frame)
        frame = frame.f_back
    return ""


guard = UnrecordedWatch()
