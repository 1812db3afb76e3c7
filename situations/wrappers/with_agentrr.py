"""agentrr."""

import sys
from pathlib import Path

import running
from agentrr_sdk import record, replay

LOG = Path("run.jsonl")
mode, _ = running.arguments()
if mode == "record":
    record("run", running.run_program, log_path=LOG)
elif mode == "replay":
    replay(LOG, running.run_program, entrypoint_spec=None)
else:
    sys.exit("it has nothing to go on with")
