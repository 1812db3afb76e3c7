"""Explain a divergence of a program: the difference, changed variables, and the command to record again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from onrecord.capture.environment import changed_variables
from onrecord.capture.program_task import Program
from onrecord.errors import OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.reports.misses import explained
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import Divergence

SHOWN_VARIABLES = 8


def explain_problem(problem: OnrecordError, reader: JournalReader, program: Program) -> Iterator[str]:
    """Yield the lines between the error message and its hint. Only divergences have any."""
    if not isinstance(problem, Divergence):
        return
    yield from explained(problem, reader).texts()
    for what, names in changed_variables(reader.facts()).items():
        yield f"  environment: {what} since the recording: {_list_names(names)}"
    yield f"  to record again: {record_command(program)}"


def name_gone_variables(problem: OnrecordError, reader: JournalReader) -> None:
    """Add to the hint of a divergence the variables that were set in the recording and are not set now."""
    gone = changed_variables(reader.facts()).get("gone") if isinstance(problem, Divergence) else None
    if gone:
        problem.replace_hint(f"Set what is gone since the recording ({_list_names(gone)}). {problem.hint}")


def _list_names(names: list[str]) -> str:
    more = ", …" if len(names) > SHOWN_VARIABLES else ""
    return ", ".join(name[:64] if name.isprintable() else ascii(name)[:64] for name in names[:SHOWN_VARIABLES]) + more


def verdict_data(problem: OnrecordError | None, live: LiveRun, program: Program) -> dict[str, Any]:
    """Return the verdict on a replay as data."""
    inexact = [one._asdict() for one in live.loose.matches]
    data: dict[str, Any] = {"status": "same" if problem is None else "stopped", "inexact": inexact}
    if live.kernel.drawn_anew:
        data["drawn_anew"] = live.kernel.drawn_anew
    if problem is None:
        return data
    data["problem"] = {"code": problem.code, "message": problem.message, "hint": problem.hint}
    if isinstance(problem, Divergence):
        data["status"] = "diverged"
        data["miss"] = explained(problem, live.reader).data
        data["environment"] = changed_variables(live.reader.facts())
        data["record_anew"] = record_command(program)
    return data


def record_command(program: Program) -> str:
    module = ["--"] if program.is_command else ["-m"] if program.is_module else []
    return shlex.join(["onrecord", "run", *module, program.path, *program.args])
