"""What was measured before: a table of two hundred cells is filled in more than one go.

A verdict counts for the version of the recorder that it was measured with, and for no other.
"""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

from situations.checks import Verdict
from situations.measuring import Cell
from situations.subjects import Subject


class Kept:
    def __init__(self, path: Path) -> None:
        self._path = path

    def keep(self, subject: Subject, situation: str, verdict: Verdict) -> None:
        """Others may be measuring other cells at the same time."""
        with self._path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            found = self._read()
            found[_key(subject, situation)] = [verdict.holds, verdict.note]
            file.truncate(0)
            file.write(json.dumps(found, indent=1))

    def _read(self) -> dict[str, list[object]]:
        text = self._path.read_text() if self._path.exists() else ""
        found: dict[str, list[object]] = json.loads(text) if text else {}
        return found

    def of(self, subjects: list[Subject], situations: list[str]) -> dict[Cell, Verdict]:
        """What there is of them."""
        found: dict[Cell, Verdict] = {}
        kept_before = self._read()
        for subject in subjects:
            for situation in situations:
                if (kept := kept_before.get(_key(subject, situation))) is not None:
                    found[subject.name, situation] = Verdict(bool(kept[0]), str(kept[1]))
        return found


def _key(subject: Subject, situation: str) -> str:
    return f"{subject.name} {subject.version} {situation}"
