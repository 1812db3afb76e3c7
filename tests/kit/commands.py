"""Run command lines of documents and examples as a shell does."""

from __future__ import annotations

import subprocess
from pathlib import Path


def run(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run a command line as a shell does; return its exit status and all that it printed."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout
