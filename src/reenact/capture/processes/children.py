"""Loaded by the first words of a child of `multiprocessing`, in a fresh interpreter or in the fork server."""

from __future__ import annotations

import sys
from multiprocessing import spawn
from typing import Any

_prepare = spawn.prepare


def prepare(data: Any) -> None:
    """The run begins before the program's main module is loaded again."""
    ticket = data.pop("reenact", None)
    if data.pop("reenact_refuses", False):
        from reenact.effect import boundary

        boundary.strict_outside = True
    if ticket is not None:
        from reenact.capture.processes.arriving import begin
        from reenact.capture.processes.tickets import ticket_of

        begin(ticket_of(ticket), command=sys.orig_argv)
    _prepare(data)


spawn.prepare = prepare
