"""The command line, for programs, and the server that they ask."""

from __future__ import annotations

import subprocess
from typing import Any

from kit import command_server
from kit.numbered_server import Server


def onrecord(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return command_server.call(arguments, **options)


__all__ = ["Server", "onrecord"]
