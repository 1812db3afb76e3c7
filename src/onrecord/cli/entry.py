"""Where the command `reenact` begins. Loading the rest takes a moment, in which Ctrl-C is no reason for a traceback."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # the name of `typing`, which is not loaded for it
if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130


def run() -> NoReturn:
    try:
        from reenact.cli.starting import start_at_once

        start_at_once(sys.argv[1:])
        from reenact.cli.main import run as begin
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    begin()
