"""Start `onrecord run` or `onrecord replay` of the measured program, at a durability level.

python -m bench.capture_recorded STORE LEVEL run|replay ARGUMENT…
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    store, os.environ["ONRECORD_DURABILITY"], what, *arguments = sys.argv[1:]
    program = ["-m", "bench.capture_calls", *arguments] if what == "run" else ["@last"]
    os.execv(sys.executable, [sys.executable, "-m", "onrecord.cli.main", what, "--store", store, *program])
