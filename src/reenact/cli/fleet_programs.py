"""A program's run in a fleet: replayed by a process of its own, as `reenact replay RUN` does it.

What the program prints goes where the worker's output goes. The verdict comes as JSON, in a file: the program may leave
processes behind that would keep a pipe open.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Any

import msgspec

from reenact.cli.fleet_judges import NOT_REPLAYABLE, NOTHING_COMPARED, OWN_STATUS, bounded
from reenact.cli.program_places import refuse_if_gone
from reenact.cli.programs import refuse_elsewhere
from reenact.replays.fleet.results import CHECK_FOUND_SOMETHING, INTEGRITY_BROKEN, Finding, skipped

if TYPE_CHECKING:  # loaded by the judge
    from reenact.capture.terms import Program
    from reenact.journal.reader import JournalReader

MOST_VERDICT_BYTES = 16 * 1024 * 1024
_PLACE = ("environment", "record_anew", "inexact")


def program_in(reader: JournalReader) -> Program | None:
    """The program that a run is of."""
    from reenact.capture.terms import program_of
    from reenact.effect.secrets import facts_as_given

    return program_of(facts_as_given(reader))


def replayed_program(reader: JournalReader, program: Program, script: str | None = None) -> Finding:
    """What came of it. Script: a file of the same name, which is run in its place."""
    refuse_elsewhere(reader)
    instead = msgspec.structs.replace(program, path=script) if script is not None and not program.is_command else None
    refuse_if_gone(reader, instead or program)
    with tempfile.TemporaryFile() as said:
        status = _run(reader, program, instead, said)
        said.seek(0)
        verdict = _verdict(said.read(MOST_VERDICT_BYTES))
    return _finding(reader, verdict, status)


def _run(reader: JournalReader, program: Program, instead: Program | None, said: IO[bytes]) -> int:
    from reenact.capture.terms import ReplayTerms, Task

    task = Task(
        program=program,
        instead=instead,
        run=reader.run,
        mode="replay",
        store=reader.store.private_url,
        namespace=reader.namespace,
        quiet=True,  # the verdict says it
        replaying=ReplayTerms(json=True),
    )
    sys.stdout.flush()
    return subprocess.run(
        [sys.executable, "-P", "-m", "reenact.capture.entry"],
        env={**os.environ, **task.to_environment()},
        cwd=program.cwd,
        stdin=subprocess.DEVNULL,
        stdout=said,
        check=False,
    ).returncode


def _verdict(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _finding(reader: JournalReader, verdict: dict[str, Any], status: int) -> Finding:
    from reenact.capture.concluding import NOTHING_TO_REPLAY

    word, problem, events = verdict.get("status"), verdict.get("problem") or {}, reader.head().seq
    if status == 0 and word in ("same", "unfinished"):
        if word == "unfinished" and not _has_anything(reader):
            return skipped("no_effects", NOTHING_COMPARED, events=events)
        return Finding(verdict=word, events=events)
    if problem.get("code") == NOTHING_TO_REPLAY:
        return skipped("no_effects", NOTHING_COMPARED, events=events)
    name, means = _meaning(str(word), status)
    told = {
        "code": problem.get("code", "no_verdict"),
        "message": problem.get("message", f"its process ended with status {status} and no verdict"),
        "hint": problem.get("hint") or f"`reenact replay {reader.run}` shows it.",
    }
    place = {**(verdict.get("miss") or {}), **{key: verdict.get(key) for key in _PLACE}}
    where = {key: bounded(value) for key, value in place.items() if value and key not in told}
    return Finding(verdict=name, events=events, where=where, status=means, **told)


def _meaning(word: str, status: int) -> tuple[str, int]:
    """What it is called in a fleet, and the exit status it means there."""
    if status == NOT_REPLAYABLE:
        return "not_replayable", NOT_REPLAYABLE
    if status == INTEGRITY_BROKEN:
        return "damaged", INTEGRITY_BROKEN
    if word == "diverged":
        return "diverged", CHECK_FOUND_SOMETHING
    if status < 0:
        return "died", CHECK_FOUND_SOMETHING
    return "error", status if status in OWN_STATUS else CHECK_FOUND_SOMETHING


def _has_anything(reader: JournalReader) -> bool:
    """That a replay compares, in the run or in those of its processes."""
    from reenact.capture.processes.family import family_of
    from reenact.core.events import OPENING_KINDS, ValuesDrawn

    store, namespace = reader.store, reader.namespace
    family = [reader.run, *(child.run for child in family_of(store, namespace, reader.run))]
    rows = (row for run in family for row in store.scan(namespace, run, contents=False))
    return any(row.kind in OPENING_KINDS or row.kind == ValuesDrawn.kind for row in rows)
