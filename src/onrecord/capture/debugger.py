"""`reenact replay RUN --break-at N`: the debugger, in the program's own frame, when it asks for the effect of event N.

The answer is on record and has not been handed over: what the program knows here is what it knew then.
"""

from __future__ import annotations

import pdb
import sys
from types import FrameType
from typing import Any

from reenact.capture.draws import is_own_file
from reenact.effect.live_run import LiveRun
from reenact.effect.past import Past
from reenact.effect.recorded import RecordedRequest
from reenact.errors import InvalidInput, ReenactError

_SKIPPED = ["reenact.*"]


class LeftInDebugger(ReenactError):
    """Nobody wanted to see the rest."""

    code = "left_in_debugger"
    exit_status = 1
    default_hint = "The record is as it was. `c` goes on with the replay."


def break_at(run: LiveRun, seq: int) -> Breakpoint:
    """Stops the replay when it comes there."""
    assert run.past is not None
    return Breakpoint(run, _request_of(run.past, run.name, seq))


def _request_of(past: Past, name: str, seq: int) -> RecordedRequest:
    for request in past.by_key.values():
        answered = request.answer is not None and request.answer.seq == seq
        if request.seq == seq or answered or any(chunk.seq == seq for chunk in request.chunks):
            return request
    raise InvalidInput(
        f"event {seq} of run {name} belongs to no effect",
        hint="`reenact show` lists them: name a request, or its answer.",
        code="no_effect",
    )


class Breakpoint:
    def __init__(self, run: LiveRun, request: RecordedRequest) -> None:
        self._run = run
        self._request = request
        self.was_reached = False
        self._serve, self._find = run.serve_at_once, run.request
        run.serve_at_once = self._served  # type: ignore[method-assign]
        run.request = self._requested  # type: ignore[method-assign]

    def _served(self, *args: Any, **kwargs: Any) -> Any:
        found = self._serve(*args, **kwargs)
        if found is self._request:
            self._stop()
        return found

    def _requested(self, *args: Any, **kwargs: Any) -> Any:
        ticket = self._find(*args, **kwargs)
        if ticket.recorded is self._request:
            self._stop()
        return ticket

    def _stop(self) -> None:
        self.was_reached = True
        frame = _own_frame()
        place = f"seq {self._request.seq}, {self._request.key.partition('/')[2].rpartition('/')[0]}"
        print(f"reenact: run {self._run.name} asks for {place}", file=sys.stderr)
        debugger = pdb.Pdb(skip=_SKIPPED)
        debugger.reset()
        _trace(debugger, frame)
        debugger.interaction(frame, None)
        if debugger.quitting:
            sys.settrace(None)
            self._run.stop_here(LeftInDebugger(f"the replay of run {self._run.name} was left at {place}"))
        if debugger.stopframe is not debugger.botframe or debugger.stoplineno != -1:
            sys.settrace(debugger.trace_dispatch)  # `n`, `s` and their like stop again; `c` does not


def _trace(debugger: pdb.Pdb, frame: FrameType) -> None:
    """As `pdb.set_trace` does it, for the frames from the program's own on: until told otherwise it goes on."""
    frames = [frame]
    while frames[-1].f_back is not None:
        frames.append(frames[-1].f_back)
    debugger.botframe = frames[-1]
    debugger.set_continue()
    for one in frames:
        one.f_trace = debugger.trace_dispatch


def _own_frame() -> FrameType:
    """The program's innermost; whoever asks, if a library asks for itself."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not is_own_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame or sys._getframe(2)
