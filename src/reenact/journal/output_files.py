"""Files that are written whole: a half-written one never stands under its name, nor in place of something else."""

from __future__ import annotations

from pathlib import Path

from reenact.errors import InvalidInput


def place_for(path: Path) -> Path:
    """Where such a file is to be. A link leads to what it names; a device, a pipe or a folder is not replaced."""
    place = path.resolve()
    if place.exists() and not place.is_file():
        raise InvalidInput(
            f"{str(path)[:200]} is no regular file, and is not replaced by one",
            hint="Name a file; `-o -` writes to stdout where that is offered.",
            code="not_a_file",
        )
    return place
