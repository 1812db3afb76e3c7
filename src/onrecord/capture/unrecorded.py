"""No silent hole: what a recorded program does to the world beside its seams is noticed, named and counted.

The interpreter tells of every connection and every new process, however it is reached (audit events). Inside an effect
that is what the effect does. In the program's own lanes nobody has recorded it: a replay cannot give it again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from reenact.capture.draws import is_own_frame
from reenact.effect.lanes import Lane
from reenact.effect.places import PLACE
from reenact.effect.source_lines import line_of
from reenact.effect.stopping import RunStopped
from reenact.effect.traps import asks_the_system
from reenact.errors import ReenactError

_CONNECTS = ("socket.connect", "socket.sendto", "socket.sendmsg")
_STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn")
_WATCHED = frozenset(_CONNECTS + _STARTS)
MOST_NAMED = 100


class Unseen(ReenactError):
    """Something left the program unseen, where that is not allowed. It has not happened."""

    code = "unseen"
    exit_status = 1
    default_hint = "Let it go through a seam (an HTTP client), or into a tool or a step; or record without --strict."


class Hole(NamedTuple):
    """Something that was not recorded."""

    what: str
    where: str
    """The program's own line."""


class Guard:
    """One for a process."""

    def __init__(self) -> None:
        self.holes: Counter[Hole] = Counter()
        self.remarks: dict[str, None] = {}
        """What is otherwise than the program would have it, for the summary: each once."""
        self.is_strict = False
        self.is_watching = False
        self._installed = False

    def watch(self, *, strict: bool) -> None:
        self.is_watching, self.is_strict = True, strict
        if not self._installed:
            self._installed = True
            sys.addaudithook(_hook_of(self))

    def note(self, what: str, where: str) -> None:
        """A seam has met something that it cannot record."""
        if self.is_watching:
            self._count(Hole(what, where))

    def remark(self, what: str) -> None:
        if self.is_watching:
            self.remarks[what] = None

    def _count(self, hole: Hole) -> None:
        if len(self.holes) < MOST_NAMED or hole in self.holes:
            self.holes[hole] += 1

    def audited(self, event: str, args: tuple[Any, ...]) -> None:
        """The hook's caller is two frames up."""
        place = PLACE.get()
        if type(place) is not Lane or place.run.is_stopped or place.run.journal is None:
            return  # inside an effect it is the effect's; a replay has traps of its own
        if asks_the_system(sys._getframe(2)):
            return
        where = own_line()
        if where:  # otherwise it is our own
            self._met(place, Hole(_told(event, args), where))

    def met(self, lane: Lane, what: str) -> None:
        """A seam has met something in a lane that it cannot record, and that is refused when strict."""
        if self.is_watching and lane.run.journal is not None and not lane.run.is_stopped:
            self._met(lane, Hole(what, own_line()))

    def _met(self, lane: Lane, hole: Hole) -> None:
        self._count(hole)
        if self.is_strict:
            reason = Unseen(f"{hole.what} at {hole.where} would not be recorded")
            lane.run.stop(reason)
            raise RunStopped(reason)


def _hook_of(guard: Guard) -> Callable[[str, tuple[Any, ...]], None]:
    """A function: of a method the interpreter asks with each event what it does not have, which takes longer than all
    the rest. And there are events in every reading of a clock."""
    watched = _WATCHED  # at hand even when Python has emptied this module, at the end of the process

    def audited(event: str, args: tuple[Any, ...]) -> None:
        if event in watched and guard.is_watching:
            guard.audited(event, args)

    return audited


def _told(event: str, args: tuple[Any, ...]) -> str:
    if event in _CONNECTS:
        return f"a connection to {_address(args[-1])}"
    named = args[0] if args and isinstance(args[0], (str, bytes)) else None
    name = named.decode(errors="replace") if isinstance(named, bytes) else named
    return f"a process ({name})" if name else "a process"


def _address(address: Any) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        return f"{address[0]}:{address[1]}"
    return repr(address)[:100]


def own_line() -> str:
    """The innermost line of the program's own code; empty when there is none, as where we write the record."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if is_own_frame(frame):
            return line_of(frame)
        frame = frame.f_back
    return ""


guard = Guard()
