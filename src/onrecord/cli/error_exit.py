"""Turn errors into an exit status and two lines on stderr: what happened, and what to do.

    0    ok
    1    the check found something
    2    usage
    3    not found
    4    integrity broken
    5    store unavailable
    6    blocked or refused
    7    not replayable
    70   internal error
    130  interrupted
    141  the reader of the output closed it

With `--json` stdout gets the same as `{"error": {"code", "message", "hint"}}`. Only -v shows a traceback: it
may quote recorded values.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import click

from onrecord.cli.render.output import json_text
from onrecord.cli.render.text import inert
from onrecord.errors import OnrecordError

USAGE = 2
UNAVAILABLE = 5
INTERNAL = 70
INTERRUPTED = 130
BROKEN_PIPE = 141

_NO_NUMBER = re.compile(r"is not a valid integer( range)?")
"""Click's words for a text where a number is needed."""
_HINTS = {
    2: "`onrecord --help` lists the commands, `onrecord COMMAND --help` the options of one.",
    3: "`onrecord ls` lists the runs of this store.",
    5: "`onrecord doctor` checks the store and reports what is wrong.",
    6: "Nothing was written.",
}


class ReaderGoneError(Exception):
    """Report that the reader of stdout closed the pipe."""


class Complaint(NamedTuple):
    status: int
    code: str
    message: str
    hint: str


def run_guarded(call: Callable[[], Any], arguments: list[str]) -> int:
    """Call a command and return its exit status; print what it raises. A command returns its status, or None for 0."""
    own_options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    try:
        status = call()
        _flush()
    except (ReaderGoneError, BrokenPipeError):
        # Never 0: the program that `verify` is piped into must not take a cut-off answer for a pass.
        _stop_writing()
        return BROKEN_PIPE
    except Exception as error:
        if "-v" in own_options or "--verbose" in own_options:
            traceback.print_exc()
        return _complain(complaint_of(error), as_json="--json" in own_options)
    return status if isinstance(status, int) else 0


def complaint_of(error: BaseException) -> Complaint:
    if isinstance(error, OnrecordError):
        hint = error.hint or _HINTS.get(error.exit_status, "Run again with -v for details.")
        return Complaint(error.exit_status, error.code, error.message, hint)
    if isinstance(error, click.Abort):
        return Complaint(INTERRUPTED, "interrupted", "interrupted", "Unfinished work was not written.")
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx is not None else "onrecord"
        hint = getattr(error, "hint", None) or f"`{command} --help` shows the usage."
        return Complaint(USAGE, "usage", _NO_NUMBER.sub("is not a whole number", error.format_message()), hint)
    if isinstance(error, click.ClickException):
        return Complaint(USAGE, "usage", error.format_message(), _HINTS[USAGE])
    if isinstance(error, OSError):
        message = f"{error.strerror or type(error).__name__}{f': {error.filename}' if error.filename else ''}"
        return Complaint(
            UNAVAILABLE, "io_error", message, "Check the path, its permissions and the free space on the disk."
        )
    return Complaint(
        INTERNAL,
        "internal_error",
        f"internal error: {type(error).__name__} at {_source_line(error)}",
        "This is a bug in Onrecord: report it with the command, its output with -v, and that of `onrecord doctor`.",
    )


def _source_line(error: BaseException) -> str:
    """Return the file and line that raised the error. Its text is left out: it may quote recorded values."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "an unknown line"


def _complain(complaint: Complaint, *, as_json: bool) -> int:
    message = inert(" ".join(complaint.message.split("\n")))
    hint = inert(" ".join(complaint.hint.split("\n")))
    try:
        newline = "\n" if complaint.status == INTERRUPTED and sys.stderr is not None and sys.stderr.isatty() else ""
        click.echo(f"{newline}error: {message} [{complaint.code}]\n{hint}", err=True)  # after the terminal's ^C
        if as_json:
            error = {"code": complaint.code, "message": complaint.message, "hint": complaint.hint}
            click.echo(json_text({"error": error}))
        _flush()
    except OSError:
        _stop_writing()  # the reader closed it; the status still reports the error
    return complaint.status


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _stop_writing() -> None:
    """Send stdout to the null device: Python flushes it at exit, and that flush would fail again."""
    with suppress(OSError, ValueError, AttributeError):  # stdout is not a real file: nothing to flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
