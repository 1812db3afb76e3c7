"""One cell of the table, and all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from situations.catalogue import Situation
from situations.checks import Failed, Verdict
from situations.place import Place
from situations.subjects import Subject

Cell = tuple[str, str]
"""A recorder and a situation, by name."""


def verdict_on(subject: Subject, situation: Situation) -> Verdict:
    """Whatever goes wrong in one cell stays in it."""
    with tempfile.TemporaryDirectory(prefix="situation-", ignore_cleanup_errors=True) as folder:
        place = Place(subject, situation.program, Path(folder), situation.settings)
        try:
            return Verdict(True, _anywhere(situation.check(place), subject, folder))
        except Failed as failure:
            return Verdict(False, _anywhere(str(failure), subject, folder))
        except Exception as error:
            return Verdict(False, f"the check itself failed: {type(error).__name__}: {error}"[:200])
        finally:
            place.close()


def _anywhere(note: str, subject: Subject, folder: str) -> str:
    """Where this machine has its folders is nobody's business."""
    return note.replace(folder, "…").replace(str(subject.bin.parent), "…").replace(str(Path.home()), "~")


def verdicts(
    subjects: list[Subject], chosen: dict[str, Situation], jobs: int, tell: Callable[[Subject, str, Verdict], None]
) -> dict[Cell, Verdict]:
    cells = [(subject, name) for name in chosen for subject in subjects]

    def one(cell: tuple[Subject, str]) -> tuple[Cell, Verdict]:
        subject, name = cell
        found = verdict_on(subject, chosen[name])
        tell(subject, name, found)
        return (subject.name, name), found

    with ThreadPoolExecutor(jobs) as pool:
        return dict(pool.map(one, cells))
