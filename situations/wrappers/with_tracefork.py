"""tracefork. Its guard, which refuses what it cannot record, is on where a situation is about that."""

import contextlib
import os
import sys

import running
import tracefork_taping as taping
from tracefork import BoundaryGuard

mode, _ = running.arguments()
taping.begin(mode)
try:
    with BoundaryGuard() if "SITUATIONS_STRICT" in os.environ else contextlib.nullcontext():
        running.run_program()
except Exception as error:
    taping.explain(error)  # as its verifier does
    raise
sys.exit(taping.end())
