"""`reenact run -- command`: any command, below which every Python process is a run of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from reenact.capture.equipment import equip
from reenact.capture.processes import own_run
from reenact.capture.processes.command_lines import CommandLine
from reenact.capture.processes.seams import begun, nowhere, starter
from reenact.capture.processes.tickets import with_ticket
from reenact.capture.terms import Program
from reenact.errors import NotFound

_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)


def run_command(recorded: Program, instead: Program | None) -> dict[str, Any]:
    """Runs it, or another one in its place, to its end, and gives its exit code: negative if a signal ended it."""
    equip()
    lane = starter()
    assert lane is not None
    one = begun(lane, "start", CommandLine((recorded.path, *recorded.args), None))
    wanted = instead or recorded
    with nowhere():
        try:
            process = subprocess.Popen([wanted.path, *wanted.args], env=with_ticket(os.environ, one.ticket))  # noqa: S603
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise NotFound(f"cannot start {wanted.path[:200]}: {reason}", code="no_command") from None
        with _forwarding(process):
            code = process.wait()
    if own_run.own is not None:
        one.is_expected, one.is_command = False, True  # by now every Python below it has begun its run
        own_run.own.starts.note(process.pid, one)
        own_run.own.starts.ended(process.pid, code)
    return {"exit": code}


@contextmanager
def _forwarding(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """What this process is told, the command is told. What a terminal says, it says to both."""

    def forward(number: int, _: Any) -> None:
        if number not in (signal.SIGINT, signal.SIGQUIT) or not _is_in_foreground():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in _FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
