"""The command line, for programs, and the server that they ask."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).with_name("http")))
from numbered_server import Server


def reenact(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """As `python -m`: what is measured is not how fast it starts."""
    command = [sys.executable, "-m", "reenact.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


__all__ = ["Server", "reenact"]
