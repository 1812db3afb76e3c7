"""Processes that tests start and interrupt."""

from __future__ import annotations

import signal


def restore_interrupts() -> None:
    """Let SIGINT end this process. Pass it as `preexec_fn`.

    A shell starts background jobs with SIGINT ignored, and their children inherit that.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
