"""Where the command `reenact` begins. Loading the rest takes a moment, in which Ctrl-C is no reason for a traceback."""

from __future__ import annotations

import os
from typing import NoReturn

INTERRUPTED = 130


def run() -> NoReturn:
    try:
        from reenact.cli.main import run as begin
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    begin()
