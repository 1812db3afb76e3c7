"""What a program is told when it parts from its record: the miss itself, what changed around it, how to record anew."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from reenact.capture.environment import changed_variables
from reenact.capture.terms import Program
from reenact.effect.live_run import LiveRun
from reenact.effect.stopping import Divergence
from reenact.errors import ReenactError
from reenact.journal.reader import JournalReader
from reenact.reports.misses import explained

SHOWN_VARIABLES = 8


def explanation(problem: ReenactError, reader: JournalReader, program: Program) -> Iterator[str]:
    """The lines that go between what happened and what to do. Nothing but a divergence is explained."""
    if not isinstance(problem, Divergence):
        return
    yield from explained(problem, reader).texts()
    changes = changed_variables(reader.facts())
    for what, names in changes.items():
        more = ", …" if len(names) > SHOWN_VARIABLES else ""
        listed = ", ".join(name[:64] if name.isprintable() else ascii(name)[:64] for name in names[:SHOWN_VARIABLES])
        yield f"  environment: {what} since the recording: {listed}{more}"
    yield f"  to record anew: {record_command(program)}"


def verdict_data(problem: ReenactError | None, live: LiveRun, program: Program) -> dict[str, Any]:
    """The verdict on a replay as data."""
    inexact = [one._asdict() for one in live.loose.matches]
    data: dict[str, Any] = {"status": "same" if problem is None else "stopped", "inexact": inexact}
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
    return shlex.join(["reenact", "run", *module, program.path, *program.args])
