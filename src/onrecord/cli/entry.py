"""Start the command `onrecord`. Ctrl-C while the rest is loaded ends it without a traceback."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing `typing` for it would slow every start
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130


def run() -> NoReturn:
    try:
        from onrecord.cli.fast_start import start_at_once

        start_at_once(sys.argv[1:])
        from onrecord.cli.main import run as run_command_line
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    run_command_line()
