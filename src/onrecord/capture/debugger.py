"""`onrecord replay RUN --break-at N`: open the debugger in the program's frame when it requests the effect of event N.

The recorded answer is not yet delivered: the program knows what it knew at this point of the recording.
"""

from __future__ import annotations

import pdb
import sys
from types import FrameType
from typing import Any

from onrecord.capture.draws import is_own_file
from onrecord.core.events import OPENING_KINDS
from onrecord.errors import InvalidInput, OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.open_effect import OpenEffect
from onrecord.runtime.engine.run import LiveRun

_SKIPPED = ["onrecord.*"]


class LeftInDebugger(OnrecordError):
    """The user quit the debugger, so the replay stopped."""

    code = "left_in_debugger"
    exit_status = 1
    default_hint = "The record is unchanged. In the debugger, `c` continues the replay."


def break_at(run: LiveRun, seq: int) -> Breakpoint:
    """Stop the replay at the effect that event `seq` belongs to."""
    return Breakpoint(run, _find_request(run.reader, seq))


def _find_request(reader: JournalReader, seq: int) -> int:
    """Return the seq of the request that an event belongs to: the request itself, a chunk or the outcome."""
    if 0 < seq <= reader.head().seq:
        entry = reader.event(seq)
        request = entry if entry.parent is None else reader.event(entry.parent)
        if request.event.kind in OPENING_KINDS:
            return request.seq
    raise InvalidInput(
        f"event {seq} of run {reader.run} belongs to no effect",
        hint=f"Name a request or its answer: `onrecord show {reader.run}` lists them.",
        code="no_effect",
    )


class Breakpoint:
    def __init__(self, run: LiveRun, seq: int) -> None:
        self._run = run
        self._seq = seq
        self.was_reached = False
        self._ask = run.ask
        run.ask = self._ask_or_stop  # type: ignore[method-assign]

    def _ask_or_stop(self, *args: Any, **kwargs: Any) -> OpenEffect:
        effect = self._ask(*args, **kwargs)
        if effect.recorded is not None and effect.recorded.seq == self._seq:
            self._stop(effect)
        return effect

    def _stop(self, effect: OpenEffect) -> None:
        self.was_reached = True
        frame = _find_own_frame()
        position = f"seq {self._seq}, {effect.spec.name}"
        print(f"onrecord: run {self._run.name} asks for {position}", file=sys.stderr)
        debugger = pdb.Pdb(skip=_SKIPPED)
        debugger.reset()
        _trace_frames(debugger, frame)
        debugger.interaction(frame, None)
        if debugger.quitting:
            sys.settrace(None)
            self._run.stop_here(LeftInDebugger(f"the replay of run {self._run.name} was left at {position}"))
        if debugger.stopframe is not debugger.botframe or debugger.stoplineno != -1:
            sys.settrace(debugger.trace_dispatch)  # `n` and `s` stop again; `c` does not


def _trace_frames(debugger: pdb.Pdb, frame: FrameType) -> None:
    """Trace the frames from the program's own outwards, as `pdb.set_trace` does, and continue until a command stops."""
    frames = [frame]
    while frames[-1].f_back is not None:
        frames.append(frames[-1].f_back)
    debugger.botframe = frames[-1]
    debugger.set_continue()
    for one in frames:
        one.f_trace = debugger.trace_dispatch


def _find_own_frame() -> FrameType:
    """Return the program's innermost frame, or the caller's if only libraries are on the stack."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not is_own_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame or sys._getframe(2)
