"""Run any command (`onrecord run -- command`): each Python process below it is a run of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from onrecord.capture.processes import process_run
from onrecord.capture.processes.command_lines import CommandLine
from onrecord.capture.processes.start_patches import begin_start, starting_lane
from onrecord.capture.processes.ticket import with_ticket
from onrecord.capture.program_task import Program
from onrecord.errors import NotFound
from onrecord.runtime.engine.context import inside

_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)


def run_command(recorded: Program, instead: Program | None) -> dict[str, Any]:
    """Run the command, or `instead`, and return its exit code, which is negative if a signal ended it."""
    lane = starting_lane()
    assert lane is not None
    started = begin_start(lane, "start", CommandLine((recorded.path, *recorded.args), None))
    wanted = instead or recorded
    with inside():
        try:
            process = subprocess.Popen([wanted.path, *wanted.args], env=with_ticket(os.environ, started.ticket))  # noqa: S603
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise NotFound(f"cannot start {wanted.path[:200]}: {reason}", code="no_command") from None
        with _forward_signals(process):
            code = process.wait()
    if process_run.current is not None:
        started.is_expected, started.is_command = False, True  # every Python below it has begun its run by now
        process_run.current.starts.note(process.pid, started)
        process_run.current.starts.ended(process.pid, code)
    return {"exit": code}


@contextmanager
def _forward_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forward signals of this process to the command. A terminal sends its own signals to both."""

    def forward(number: int, _: Any) -> None:
        if number not in (signal.SIGINT, signal.SIGQUIT) or not _is_in_foreground():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    handlers = {number: signal.signal(number, forward) for number in _FORWARDED}
    try:
        yield
    finally:
        for number, handler in handlers.items():
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
