"""What is told at the end: what was recorded, what left unseen, and recordings that no test has any more.

A recording is unused when its module was collected as a whole and has no test for it. Processes of pytest-xdist hand
over what they have seen. Loaded with pytest itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact.pytest_plugin.naming import FOLDER, SUFFIX, recording_path, recordings_of, shown

_SEEN: pytest.StashKey[Seen] = pytest.StashKey()
_OUTPUT = "reenact"
MOST_TOLD = 50


class Seen:
    """In one process."""

    def __init__(self) -> None:
        self.modules: dict[Path, set[Path]] = {}
        """Test modules that were collected, and the recordings that their tests have."""
        self.owners: dict[str, str] = {}
        """Whose recording a file is, whatever the file system makes of large and small letters."""
        self.told: dict[str, list[str]] = {"recorded": [], "unseen": [], "unused": []}


def begin(config: pytest.Config) -> None:
    config.stash[_SEEN] = Seen()


def collected(item: pytest.Item, *, is_recorded: bool) -> None:
    seen = item.config.stash[_SEEN]
    path = getattr(item, "path", None)
    if path is None:
        return
    recordings = seen.modules.setdefault(path, set())
    if not is_recorded:
        return
    recording = recording_path(item)
    recordings.add(recording)
    owner = seen.owners.setdefault(str(recording).casefold(), item.nodeid)
    if owner != item.nodeid:
        raise pytest.UsageError(f"{item.nodeid} and {owner} would share the recording {recording}: rename one of them")


def recorded(config: pytest.Config, path: Path) -> None:
    config.stash[_SEEN].told["recorded"].append(shown(path, config))


def unseen(config: pytest.Config, what: str) -> None:
    config.stash[_SEEN].told["unseen"].append(what)


def finish(config: pytest.Config) -> None:
    seen = config.stash[_SEEN]
    if not any("::" in argument for argument in config.args):
        seen.told["unused"] += [shown(path, config) for path in _unused(seen)]
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output[_OUTPUT] = seen.told


def _unused(seen: Seen) -> list[Path]:
    found = []
    for folder in {module.parent / FOLDER for module in seen.modules}:
        if folder.is_dir():
            known = {recordings_of(module): recordings for module, recordings in seen.modules.items()}
            for inner in sorted(one for one in folder.iterdir() if one.is_dir()):
                expected = known.get(inner)
                if expected is None and (folder.parent / f"{inner.name}.py").exists():
                    continue  # a module that was not collected
                found += sorted(file for file in inner.glob(f"*{SUFFIX}") if file not in (expected or ()))
    return found


def heard(config: pytest.Config, output: dict[str, Any]) -> None:
    told = config.stash[_SEEN].told
    for name, lines in output.get(_OUTPUT, {}).items():
        told[name] += [line for line in lines if line not in told[name]]


def tell(reporter: Any, config: pytest.Config) -> None:
    told = config.stash[_SEEN].told
    if not any(told.values()):
        return
    reporter.section("reenact", sep="=", cyan=True)
    for name, heading in (
        ("recorded", "recorded"),
        ("unseen", "left unseen while recording, so that a replay stops there"),
        ("unused", "recordings that no test has any more"),
    ):
        lines = sorted(told[name])
        if lines:
            reporter.line(f"{heading}:")
            for line in lines[:MOST_TOLD]:
                reporter.line(f"  {line}")
            if len(lines) > MOST_TOLD:
                reporter.line(f"  … and {len(lines) - MOST_TOLD:,} more")
