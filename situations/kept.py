"""What was measured before: a table of two hundred cells is filled in more than one go.

A verdict counts for the version of the recorder that it was measured with, and for no other.
"""

from __future__ import annotations

import json
from pathlib import Path

from situations.checks import Verdict
from situations.measuring import Cell
from situations.subjects import Subject


class Kept:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, list[object]] = json.loads(path.read_text()) if path.exists() else {}

    def keep(self, subject: Subject, situation: str, verdict: Verdict) -> None:
        self._found[_key(subject, situation)] = [verdict.holds, verdict.note]
        self._path.write_text(json.dumps(self._found, indent=1))

    def of(self, subjects: list[Subject], situations: list[str]) -> dict[Cell, Verdict]:
        """What there is of them."""
        found: dict[Cell, Verdict] = {}
        for subject in subjects:
            for situation in situations:
                if (kept := self._found.get(_key(subject, situation))) is not None:
                    found[subject.name, situation] = Verdict(bool(kept[0]), str(kept[1]))
        return found


def _key(subject: Subject, situation: str) -> str:
    return f"{subject.name} {subject.version} {situation}"
