"""Import hook for children of `multiprocessing`, in a fresh interpreter or in the fork server.

The child's command imports this module first.
"""

from __future__ import annotations

import sys
from multiprocessing import spawn
from typing import Any

_prepare = spawn.prepare


def prepare(data: Any) -> None:
    """Begin the run of the child before it imports the program's main module."""
    ticket = data.pop("onrecord", None)
    if data.pop("onrecord_refuses", False):
        from onrecord.runtime.engine import boundary

        boundary.strict_outside = True
    if ticket is not None:
        from onrecord.capture.processes.child_start import begin
        from onrecord.capture.processes.ticket import parse_ticket

        begin(parse_ticket(ticket), command=sys.orig_argv)
    _prepare(data)


spawn.prepare = prepare
