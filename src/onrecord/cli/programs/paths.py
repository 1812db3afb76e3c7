"""Whether what a record names is still there to be run, asked before anything is."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from typing import TYPE_CHECKING

from reenact.errors import InvalidInput

if TYPE_CHECKING:  # loaded when the command runs
    from reenact.capture.terms import Program
    from reenact.journal.reader import JournalReader

_HINT = "Put it back, or say what is to be run in its place: reenact replay {run} -- {instead}"


def refuse_if_gone(reader: JournalReader, program: Program) -> None:
    """Without its code a program would only seem to do nothing of what it did."""
    refuse_without_folder(reader, program)
    what = _missing(program)
    if what is not None:
        instead = "COMMAND" if program.is_command else "python agent.py"
        raise InvalidInput(
            f"there is no {what} {_name(program, what)}, which run {reader.run} is of",
            hint=_HINT.format(run=reader.run, instead=instead),
            code=f"no_{what}",
        )


def refuse_if_missing(program: Program) -> None:
    """One that is named now, of which there is no record yet."""
    what = _missing(program)
    if what is not None:
        raise InvalidInput(
            f"there is no {what} {_name(program, what)}", hint="Name a script, or -m MODULE.", code=f"no_{what}"
        )


def _missing(program: Program) -> str | None:
    """What kind of thing it is that is not there; None: it is."""
    path = os.path.join(program.cwd, program.path)
    if program.is_module:
        return None if _is_module_there(program) else "module"
    if program.is_command:
        return None if shutil.which(path if os.path.dirname(program.path) else program.path) else "command"
    return None if os.path.exists(path) else "file"


def _name(program: Program, what: str) -> str:
    return (os.path.join(program.cwd, program.path) if what == "file" else program.path)[:200]


def refuse_without_folder(reader: JournalReader, program: Program) -> None:
    if not os.path.isdir(program.cwd):
        raise InvalidInput(
            f"the folder of run {reader.run} is not there any more: {program.cwd[:200]}",
            hint=_HINT.format(run=reader.run, instead="python agent.py"),
            code="no_folder",
        )


def _is_module_there(program: Program) -> bool:
    """As far as it can be told without running anything: to look into a package is to import it."""
    before = sys.path[:]
    sys.path.insert(0, program.cwd)
    try:
        return importlib.util.find_spec(program.path.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False
    finally:
        sys.path[:] = before
