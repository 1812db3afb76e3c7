"""Summary at the end of pytest: new recordings, connections that were not recorded, and recordings without a test.

A recording is unused if its module was collected as a whole and has no test for it. Processes of pytest-xdist pass
their findings on. Imported at every start of pytest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onrecord.pytest_plugin.names import FOLDER, SUFFIX, recording_path, recordings_of, relative_path

_USED: pytest.StashKey[UsedRecordings] = pytest.StashKey()
_OUTPUT = "onrecord"
MOST_LISTED = 50


class UsedRecordings:
    """Recordings that the tests of one process use."""

    def __init__(self) -> None:
        self.modules: dict[Path, set[Path]] = {}
        """Collected test modules, with the recordings of their tests."""
        self.owners: dict[str, str] = {}
        """Test of each recording file, by its case-folded path: some file systems ignore case."""
        self.lines_by_kind: dict[str, list[str]] = {"recorded": [], "unseen": [], "unused": []}


def begin(config: pytest.Config) -> None:
    config.stash[_USED] = UsedRecordings()


def note_collected(item: pytest.Item, *, is_recorded: bool) -> None:
    used = item.config.stash[_USED]
    path = getattr(item, "path", None)
    if path is None:
        return
    recordings = used.modules.setdefault(path, set())
    if not is_recorded:
        return
    recording = recording_path(item)
    recordings.add(recording)
    owner = used.owners.setdefault(str(recording).casefold(), item.nodeid)
    if owner != item.nodeid:
        raise pytest.UsageError(f"{item.nodeid} and {owner} would share the recording {recording}: rename one of them")


def note_recorded(config: pytest.Config, path: Path) -> None:
    config.stash[_USED].lines_by_kind["recorded"].append(relative_path(path, config))


def note_unrecorded(config: pytest.Config, what: str) -> None:
    config.stash[_USED].lines_by_kind["unseen"].append(what)


def finish(config: pytest.Config) -> None:
    used = config.stash[_USED]
    if not any("::" in argument for argument in config.args):
        used.lines_by_kind["unused"] += [relative_path(path, config) for path in _find_unused(used)]
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output[_OUTPUT] = used.lines_by_kind


def _find_unused(used: UsedRecordings) -> list[Path]:
    found = []
    for folder in {module.parent / FOLDER for module in used.modules}:
        if folder.is_dir():
            known = {recordings_of(module): recordings for module, recordings in used.modules.items()}
            for inner in sorted(one for one in folder.iterdir() if one.is_dir()):
                expected = known.get(inner)
                if expected is None and (folder.parent / f"{inner.name}.py").exists():
                    continue  # a module that was not collected
                found += sorted(file for file in inner.glob(f"*{SUFFIX}") if file not in (expected or ()))
    return found


def add_worker_output(config: pytest.Config, output: dict[str, Any]) -> None:
    lines_by_kind = config.stash[_USED].lines_by_kind
    for name, lines in output.get(_OUTPUT, {}).items():
        lines_by_kind[name] += [line for line in lines if line not in lines_by_kind[name]]


def print_summary(reporter: Any, config: pytest.Config) -> None:
    lines_by_kind = config.stash[_USED].lines_by_kind
    if not any(lines_by_kind.values()):
        return
    reporter.section("onrecord", sep="=", cyan=True)
    for name, heading in (
        ("recorded", "recorded"),
        ("unseen", "not recorded, so that a replay stops there"),
        ("unused", "recordings without a test"),
    ):
        lines = sorted(lines_by_kind[name])
        if lines:
            reporter.line(f"{heading}:")
            for line in lines[:MOST_LISTED]:
                reporter.line(f"  {line}")
            if len(lines) > MOST_LISTED:
                reporter.line(f"  … and {len(lines) - MOST_LISTED:,} more")
