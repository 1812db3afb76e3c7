"""How a line of somebody's code is named: as it would be from the current folder."""

from __future__ import annotations

import os
from types import FrameType


def line_of(frame: FrameType) -> str:
    """`agent.py:12`, or with the whole path if it is elsewhere."""
    return shown_line(f"{frame.f_code.co_filename}:{frame.f_lineno}")


def shown_line(line: str) -> str:
    try:
        return line.removeprefix(os.path.join(os.getcwd(), ""))
    except OSError:  # the folder is gone
        return line
