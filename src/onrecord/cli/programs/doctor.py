"""`reenact doctor -- python agent.py`: the program twice, recorded and replayed, and what differed between the two.

Everything that a seam sees comes back in the second one. So whatever differs, no seam has seen.
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

from reenact.cli.output import fields, paint, say, say_json
from reenact.cli.program_places import refuse_if_missing
from reenact.cli.programs import python_program
from reenact.cli.settings import Settings
from reenact.cli.starting import hash_seed
from reenact.cli.text import brief, inert

FOUND_SOMETHING = 1
RUN = "examined"
SHOWN_CHARACTERS = 160
_ADVICE = {
    "diverged": "What it depends on has to come through a seam, a tool or a step; the notes say what could be meant.",
    "output": "What it says depends on something that no seam has seen; the notes say what could be meant.",
    "nothing": "It had no effect, and read no clock and no chance: there is nothing to say about it.",
    "cut": "A signal ended it, and a replay of it goes as far as its record.",
}


@dataclass
class Findings:
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
class Done:
    status: int
    output: bytes
    problems: str
    noted: list[dict[str, str]]


def examine(settings: Settings, words: tuple[str, ...]) -> int:
    program = python_program(words, hash_seed())
    refuse_if_missing(program)
    given = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="reenact-doctor-") as folder:
        first = _done(program, "record", folder, given)
        if first.status == 125:
            findings.add("problem", _last_error(first.problems), "", "It could not be recorded at all.")
        else:
            second = _done(program, "replay", folder, given)
            _compare(findings, first, second)
    return _told(settings, findings)


def _done(program: Any, mode: Any, folder: str, given: bytes) -> Done:
    from reenact.capture.terms import Task
    from reenact.capture.witness_terms import VARIABLE

    notes = Path(folder, f"{mode}.jsonl")
    task = Task(program=program, run=RUN, mode=mode, store=f"sqlite:///{folder}/store.db")
    environment = {**os.environ, **task.to_environment(), VARIABLE: str(notes)}
    command = [sys.executable, "-P", "-m", "reenact.capture.entry"]
    done = subprocess.run(command, input=given, capture_output=True, env=environment, cwd=program.cwd, check=False)  # noqa: S603
    noted = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
    return Done(done.returncode, done.stdout, done.stderr.decode(errors="replace"), noted)


def _compare(findings: Findings, first: Done, second: Done) -> None:
    for one in (*first.noted, *second.noted):
        findings.add(one["level"], one["what"], one["where"], one["advice"])
    findings.facts |= {"exit": first.status, "summary": _line(first.problems, "reenact: ")}
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
            "problem", f"a replay parts: {_last_error(second.problems)}", _asked_at(second), _ADVICE["diverged"]
        )
        return
    _compare_output(findings, first.output, second.output)


def _compare_output(findings: Findings, expected: bytes, actual: bytes) -> None:
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


def _asked_at(done: Done) -> str:
    """The program's line, as the explanation of a miss names it."""
    asked = next((line for line in done.problems.splitlines() if line.startswith("  asked ")), "")
    return asked.rpartition(", at ")[2] if ", at " in asked else ""


def _told(settings: Settings, findings: Findings) -> int:
    problems = findings.problems
    status = "problems" if problems else "nothing found"
    if settings.json:
        say_json({"status": status, **findings.facts, "findings": findings.found})
        return FOUND_SOMETHING if problems else 0
    fields([(name, inert(str(value))) for name, value in findings.facts.items()])
    for one in sorted(findings.found, key=lambda one: one["level"] != "problem"):
        title = paint("problem", fg="red", bold=True) if one["level"] == "problem" else "note   "
        place = f" at {inert(one['where'])}" if one["where"] else ""
        say(f"{title}  {inert(one['what'])}{place}")
        say(f"         {inert(one['advice'])}")
    if problems:
        say(f"problems found: {len(problems)}")
    else:
        say(paint("the second time was as the first, as far as could be compared", fg="green"))
    return FOUND_SOMETHING if problems else 0
