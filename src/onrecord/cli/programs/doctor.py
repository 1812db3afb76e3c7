"""`onrecord doctor -- python agent.py`: record the program, replay it, and report what differs.

The replay repeats everything that an interceptor recorded. So a difference comes from something that was not recorded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from onrecord.cli.fast_start import hash_seed
from onrecord.cli.programs.paths import refuse_missing_program
from onrecord.cli.programs.start import python_program
from onrecord.cli.render.output import fields, paint, say, say_json
from onrecord.cli.render.text import brief, inert
from onrecord.cli.settings import Settings

FOUND_SOMETHING = 1
RUN = "examined"
SHOWN_CHARACTERS = 160
_ADVICE = {
    "diverged": "Its inputs have to come through an interceptor, a tool or a step; the notes name possible causes.",
    "output": "Its output depends on something that was not recorded; the notes name possible causes.",
    "nothing": "It had no effects and read no clock and no randomness, so there is nothing to compare.",
    "cut": "A signal ended it, so its replay ends with its record.",
}


@dataclass
class DoctorFindings:
    found: list[dict[str, str]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, level: str, what: str, where: str, advice: str) -> None:
        one = {"level": level, "what": what, "where": where, "advice": advice}
        if one not in self.found:
            self.found.append(one)

    @property
    def problems(self) -> list[dict[str, str]]:
        return [one for one in self.found if one["level"] == "problem"]


@dataclass
class ProgramResult:
    status: int
    output: bytes
    problems: str
    notes_found: list[dict[str, str]]


def examine(settings: Settings, words: tuple[str, ...]) -> int:
    program = python_program(words, hash_seed())
    refuse_missing_program(program)
    input_bytes = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
    findings = DoctorFindings()
    with tempfile.TemporaryDirectory(prefix="onrecord-doctor-") as folder:
        first = _run_program(program, "record", folder, input_bytes)
        if first.status == 125:
            findings.add("problem", _last_error(first.problems), "", "It could not be recorded at all.")
        else:
            second = _run_program(program, "replay", folder, input_bytes)
            _compare(findings, first, second)
    return _print_findings(settings, findings)


def _run_program(program: Any, mode: Any, folder: str, input_bytes: bytes) -> ProgramResult:
    from onrecord.capture.doctor_start import VARIABLE
    from onrecord.capture.program_task import ProgramTask

    notes = Path(folder, f"{mode}.jsonl")
    task = ProgramTask(program=program, run=RUN, mode=mode, store=f"sqlite:///{folder}/store.db")
    environment = {**os.environ, **task.to_environment(), VARIABLE: str(notes)}
    command = [sys.executable, "-P", "-m", "onrecord.capture.entry"]
    done = subprocess.run(  # noqa: S603
        command, input=input_bytes, capture_output=True, env=environment, cwd=program.cwd, check=False
    )
    notes_found = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
    return ProgramResult(done.returncode, done.stdout, done.stderr.decode(errors="replace"), notes_found)


def _compare(findings: DoctorFindings, first: ProgramResult, second: ProgramResult) -> None:
    for one in (*first.notes_found, *second.notes_found):
        findings.add(one["level"], one["what"], one["where"], one["advice"])
    findings.facts |= {"exit": first.status, "summary": _line(first.problems, "onrecord: ")}
    if first.status < 0:
        findings.add("problem", f"it was ended by signal {-first.status}", "", _ADVICE["cut"])
    if "[nothing_to_replay]" in second.problems:
        _compare_output(findings, first.output, second.output)
        findings.facts["compared"] = bool(first.output)
        if not first.output:
            findings.add("problem", "nothing could be compared", "", _ADVICE["nothing"])
        return
    findings.facts["compared"] = True
    if second.status != 0:
        findings.add(
            "problem",
            f"a replay diverges: {_last_error(second.problems)}",
            _find_request_line(second),
            _ADVICE["diverged"],
        )
        return
    _compare_output(findings, first.output, second.output)


def _compare_output(findings: DoctorFindings, expected: bytes, actual: bytes) -> None:
    if expected == actual:
        return
    lines = zip_longest(expected.splitlines(), actual.splitlines())
    for number, (left, right) in enumerate(lines, start=1):
        if left != right:
            shown = [brief((one or b"").decode(errors="replace"), SHOWN_CHARACTERS) for one in (left, right)]
            what = f"its output differs from line {number} on: first {shown[0]}, then {shown[1]}"
            findings.add("problem", what, "", _ADVICE["output"])
            return
    findings.add("problem", "its output differs in how its lines end", "", _ADVICE["output"])


def _last_error(problems: str) -> str:
    return _line(problems, "error: ").removeprefix("error: ") or problems.strip().rpartition("\n")[2]


def _line(text: str, beginning: str) -> str:
    found = [line for line in text.splitlines() if line.startswith(beginning)]
    return found[-1] if found else ""


def _find_request_line(done: ProgramResult) -> str:
    """Return the program's line from the explanation of a divergence."""
    request_line = next((line for line in done.problems.splitlines() if line.startswith("  asked ")), "")
    return request_line.rpartition(", at ")[2] if ", at " in request_line else ""


def _print_findings(settings: Settings, findings: DoctorFindings) -> int:
    problems = findings.problems
    status = "problems" if problems else "nothing found"
    if settings.json:
        say_json({"status": status, **findings.facts, "findings": findings.found})
        return FOUND_SOMETHING if problems else 0
    facts = {**findings.facts, "compared": "yes" if findings.facts.get("compared") else "no"}
    fields([(name, inert(str(value))) for name, value in facts.items()])
    for one in sorted(findings.found, key=lambda one: one["level"] != "problem"):
        title = paint("problem", fg="red", bold=True) if one["level"] == "problem" else "note   "
        place = f" at {inert(one['where'])}" if one["where"] else ""
        say(f"{title}  {inert(one['what'])}{place}")
        say(f"         {inert(one['advice'])}")
    if problems:
        say(f"problems found: {len(problems)}")
    else:
        say(paint("the replay did the same, as far as it could be compared", fg="green"))
    return FOUND_SOMETHING if problems else 0
