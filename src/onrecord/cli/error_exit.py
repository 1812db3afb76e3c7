"""From what went wrong to an exit status and two lines on stderr: what, and what to do.

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
    141  the reader of our output went away

With `--json` the same is on stdout too, as `{"error": {"code", "message", "hint"}}`. A traceback is shown with -v only:
it may hold recorded values.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import click

from reenact.cli.output import json_text
from reenact.cli.text import inert
from reenact.errors import ReenactError

USAGE = 2
UNAVAILABLE = 5
INTERNAL = 70
INTERRUPTED = 130
BROKEN_PIPE = 141

_HINTS = {
    2: "`reenact --help` lists the commands, `reenact COMMAND --help` the options of one.",
    3: "`reenact ls` lists the runs of this store.",
    5: "`reenact doctor` looks at the store and says what is wrong.",
    6: "Nothing was written.",
}


class ReaderGoneError(Exception):
    """Whoever read our output has closed it."""


class Complaint(NamedTuple):
    status: int
    code: str
    message: str
    hint: str


def run_guarded(call: Callable[[], Any], arguments: list[str]) -> int:
    """Calls, and turns whatever comes out into an exit status. A command returns its status, or None for 0."""
    given = arguments[: arguments.index("--")] if "--" in arguments else arguments
    try:
        status = call()
        _flush()
    except (ReaderGoneError, BrokenPipeError):
        # Never 0: whoever pipes `verify` into something must not take a cut-off answer for a pass.
        _stop_writing()
        return BROKEN_PIPE
    except Exception as error:
        if "-v" in given or "--verbose" in given:
            traceback.print_exc()
        return _complain(complaint_of(error), as_json="--json" in given)
    return status if isinstance(status, int) else 0


def complaint_of(error: BaseException) -> Complaint:
    if isinstance(error, ReenactError):
        hint = error.hint or _HINTS.get(error.exit_status, "Run again with -v for details.")
        return Complaint(error.exit_status, error.code, error.message, hint)
    if isinstance(error, click.Abort):
        return Complaint(INTERRUPTED, "interrupted", "interrupted", "Whatever was not finished was not written.")
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx is not None else "reenact"
        hint = getattr(error, "hint", None) or f"`{where} --help` shows how it is used."
        return Complaint(USAGE, "usage", error.format_message(), hint)
    if isinstance(error, click.ClickException):
        return Complaint(USAGE, "usage", error.format_message(), _HINTS[USAGE])
    if isinstance(error, OSError):
        what = f"{error.strerror or type(error).__name__}{f': {error.filename}' if error.filename else ''}"
        return Complaint(UNAVAILABLE, "io_error", what, "Check that the disk has space and the path can be used.")
    return Complaint(
        INTERNAL,
        "internal_error",
        f"internal error: {type(error).__name__} at {_place(error)}",
        "This is a bug in Reenact: report it with the command, its output with -v, and that of `reenact doctor`.",
    )


def _place(error: BaseException) -> str:
    """Where it was raised. Its text is left out: it may quote recorded values."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "an unknown place"


def _complain(complaint: Complaint, *, as_json: bool) -> int:
    message = inert(" ".join(complaint.message.split("\n")))
    hint = inert(" ".join(complaint.hint.split("\n")))
    try:
        behind = "\n" if complaint.status == INTERRUPTED and sys.stderr is not None and sys.stderr.isatty() else ""
        click.echo(f"{behind}error: {message} [{complaint.code}]\n{hint}", err=True)  # the terminal shows ^C first
        if as_json:
            error = {"code": complaint.code, "message": complaint.message, "hint": complaint.hint}
            click.echo(json_text({"error": error}))
        _flush()
    except OSError:
        _stop_writing()  # nobody reads; the status still tells
    return complaint.status


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _stop_writing() -> None:
    """Python flushes stdout when it ends, and would complain there once more."""
    with suppress(OSError, ValueError, AttributeError):  # no real file under stdout: nothing to flush either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
