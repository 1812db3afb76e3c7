"""Report where each strand of a run is that makes no progress in its history."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from onrecord.core.lane_names import shown_lane
from onrecord.runtime.replay.divergence import is_between
from onrecord.runtime.replay.source_lines import shown_line
from onrecord.runtime.scheduler.drivers.coordinator import PATIENCE_SECONDS

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun


def report_silence(run: LiveRun) -> None:
    """Print the file and line of each strand to stderr."""
    frames = sys._current_frames()
    print(f"onrecord: run {run.name} makes no progress for {PATIENCE_SECONDS:g} seconds", file=sys.stderr)
    for strand in list(run.coordinator.strands):
        frame = frames.get(strand.thread)
        while frame is not None and is_between(frame.f_code.co_filename):
            frame = frame.f_back
        line = "an unknown line" if frame is None else shown_line(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        does = "runs" if strand is run.coordinator.running else "is away" if strand.is_away else "waits"
        print(f"  {shown_lane(strand.lane)} {does} at {line}", file=sys.stderr)
