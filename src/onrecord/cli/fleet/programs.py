"""Replay a program's run in its own process, as `onrecord replay RUN` does.

The program prints to the worker's output. The verdict is JSON in a file, because processes that the program leaves
running would keep a pipe open.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Any

import msgspec

from onrecord.analysis.fleet.results import CHECK_FOUND_SOMETHING, INTEGRITY_BROKEN, Finding, skipped
from onrecord.cli.fleet.judges import NOT_REPLAYABLE, NOTHING_COMPARED, OWN_STATUS, bound_value
from onrecord.cli.programs.paths import refuse_missing_code
from onrecord.cli.programs.start import refuse_imported

if TYPE_CHECKING:  # loaded by the judge
    from onrecord.capture.program_task import Program
    from onrecord.journal.reader import JournalReader

MOST_VERDICT_BYTES = 16 * 1024 * 1024
_DETAILS = ("environment", "record_anew", "inexact")


def read_program(reader: JournalReader) -> Program | None:
    """Return the program of a run, or None if it is not one."""
    from onrecord.capture.program_task import program_of
    from onrecord.runtime.secrets.run_secrets import open_facts

    return program_of(open_facts(reader))


def replay_program(reader: JournalReader, program: Program, script: str | None = None) -> Finding:
    """Replay a program and return the finding. `script` is a file of the same name to run in its place."""
    refuse_imported(reader)
    instead = msgspec.structs.replace(program, path=script) if script is not None and not program.is_command else None
    refuse_missing_code(reader, instead or program)
    with tempfile.TemporaryFile() as output:
        status = _run_process(reader, program, instead, output)
        output.seek(0)
        verdict = _parse_verdict(output.read(MOST_VERDICT_BYTES))
    return _make_finding(reader, verdict, status)


def _run_process(reader: JournalReader, program: Program, instead: Program | None, output: IO[bytes]) -> int:
    from onrecord.capture.program_task import ProgramTask, ReplayTerms

    task = ProgramTask(
        program=program,
        instead=instead,
        run=reader.run,
        mode="replay",
        store=reader.store.private_url,
        namespace=reader.namespace,
        quiet=True,  # the verdict reports it
        replaying=ReplayTerms(json=True),
    )
    sys.stdout.flush()
    return subprocess.run(
        [sys.executable, "-P", "-m", "onrecord.capture.entry"],
        env={**os.environ, **task.to_environment()},
        cwd=program.cwd,
        stdin=subprocess.DEVNULL,
        stdout=output,
        check=False,
    ).returncode


def _parse_verdict(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _make_finding(reader: JournalReader, verdict: dict[str, Any], status: int) -> Finding:
    from onrecord.capture.program_verdict import NOTHING_TO_REPLAY

    replay_status, problem, events = verdict.get("status"), verdict.get("problem") or {}, reader.head().seq
    if status == 0 and replay_status in ("same", "unfinished"):
        if replay_status == "unfinished" and not _has_comparable_events(reader):
            return skipped("no_effects", NOTHING_COMPARED, events=events)
        return Finding(verdict=replay_status, events=events)
    if problem.get("code") == NOTHING_TO_REPLAY:
        return skipped("no_effects", NOTHING_COMPARED, events=events)
    name, exit_status = _classify(str(replay_status), status)
    problem_fields = {
        "code": problem.get("code", "no_verdict"),
        "message": problem.get("message", f"its process ended with status {status} and no verdict"),
        "hint": problem.get("hint") or f"`onrecord replay {reader.run}` shows it.",
    }
    details = {**(verdict.get("miss") or {}), **{key: verdict.get(key) for key in _DETAILS}}
    where = {key: bound_value(value) for key, value in details.items() if value and key not in problem_fields}
    return Finding(verdict=name, events=events, where=where, status=exit_status, **problem_fields)


def _classify(replay_status: str, status: int) -> tuple[str, int]:
    """Return the fleet's verdict and exit status for a replay's status."""
    if status == NOT_REPLAYABLE:
        return "not_replayable", NOT_REPLAYABLE
    if status == INTEGRITY_BROKEN:
        return "damaged", INTEGRITY_BROKEN
    if replay_status == "diverged":
        return "diverged", CHECK_FOUND_SOMETHING
    if status < 0:
        return "died", CHECK_FOUND_SOMETHING
    return "error", status if status in OWN_STATUS else CHECK_FOUND_SOMETHING


def _has_comparable_events(reader: JournalReader) -> bool:
    """Return True if the run or one of its process runs has events that a replay compares."""
    from onrecord.capture.processes.run_tree import descendants_of
    from onrecord.core.events import OPENING_KINDS, ValuesDrawn

    store, namespace = reader.store, reader.namespace
    family = [reader.run, *(child.run for child in descendants_of(store, namespace, reader.run))]
    rows = (row for run in family for row in store.scan(namespace, run, contents=False))
    return any(row.kind in OPENING_KINDS or row.kind == ValuesDrawn.kind for row in rows)
