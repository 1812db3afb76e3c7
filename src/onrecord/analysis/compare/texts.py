"""Compare two texts and return stretches of equal, removed and added text.

Texts are compared by words or by lines. Blanks and punctuation are words of their own; scripts without blanks are
compared by character. The stretches without the added ones are exactly the expected text, those without the removed
ones exactly the actual text. A lone equal blank between two changes is shown as part of the change.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from itertools import count
from typing import Any, Literal, NamedTuple

from onrecord.analysis.compare.sequence_alignment import align, find_hunks

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORDS = re.compile(rf"[^\W{_UNSPACED}]+|\s+|.", re.DOTALL)


class TextRun(NamedTuple):
    kind: Literal["equal", "removed", "added"]
    text: str

    def to_data(self) -> dict[str, Any]:
        return {"kind": self.kind, "text": self.text}


@dataclasses.dataclass(frozen=True, slots=True)
class TextDiff:
    by: str
    runs: tuple[TextRun, ...]

    @property
    def equal(self) -> bool:
        return all(run.kind == "equal" for run in self.runs)

    @property
    def expected(self) -> str:
        return "".join(run.text for run in self.runs if run.kind != "added")

    @property
    def actual(self) -> str:
        return "".join(run.text for run in self.runs if run.kind != "removed")

    def to_data(self) -> dict[str, Any]:
        return {"by": self.by, "equal": self.equal, "runs": [run.to_data() for run in self.runs]}


def diff_texts(expected: str, actual: str, *, by: Literal["words", "lines"] = "words") -> TextDiff:
    if expected == actual:
        return TextDiff(by, (TextRun("equal", expected),) if expected else ())
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    left = [numbers[token] for token in _split_tokens(expected, by)]
    right = [numbers[token] for token in _split_tokens(actual, by)]
    tokens = list(numbers)

    def text(side: list[int], start: int, stop: int) -> str:
        return "".join([tokens[number] for number in side[start:stop]])

    changes: list[_Change] = []
    i = 0
    for hunk in find_hunks(align(left, right), len(left), len(right)):
        change = _Change(
            before=text(left, i, hunk.start),
            removed=[text(left, hunk.start, hunk.stop)],
            added=[text(right, hunk.other_start, hunk.other_stop)],
        )
        _append_change(changes, change, fold=by == "words")
        i = hunk.stop
    return TextDiff(by, _runs(changes, text(left, i, len(left))))


def _split_tokens(text: str, by: str) -> list[str]:
    return text.splitlines(keepends=True) if by == "lines" else _WORDS.findall(text)


class _Change(NamedTuple):
    before: str
    """The equal text since the previous change."""
    removed: list[str]
    added: list[str]


def _append_change(changes: list[_Change], change: _Change, *, fold: bool) -> None:
    blank = change.before
    if fold and changes and blank.isspace() and "\n" not in blank:
        last = changes[-1]
        last.removed.extend((blank, *change.removed))
        last.added.extend((blank, *change.added))
    else:
        changes.append(change)


def _runs(changes: list[_Change], rest: str) -> tuple[TextRun, ...]:
    runs: list[TextRun] = []
    for change in changes:
        runs.append(TextRun("equal", change.before))
        runs.append(TextRun("removed", "".join(change.removed)))
        runs.append(TextRun("added", "".join(change.added)))
    runs.append(TextRun("equal", rest))
    return tuple(run for run in runs if run.text)
