"""What the wrappers share: the program is run as `__main__`, and its exit status is told."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def arguments() -> tuple[str, Path]:
    return sys.argv[1], Path(sys.argv[2])


def run_program() -> None:
    _, program = arguments()
    sys.argv = [str(program)]
    sys.path.insert(0, str(program.parent))
    try:
        runpy.run_path(str(program), run_name="__main__")
    except SystemExit as leaving:
        if leaving.code not in (0, None):
            raise
