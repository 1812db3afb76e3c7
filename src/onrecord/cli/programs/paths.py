"""Check that the code of a program exists before anything runs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from typing import TYPE_CHECKING

from onrecord.errors import NotFound

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.capture.program_task import Program
    from onrecord.journal.reader import JournalReader

_HINT = "Restore it, or name the command to run instead: onrecord replay {run} -- {instead}"


def refuse_missing_code(reader: JournalReader, program: Program) -> None:
    """Refuse a recorded program without its folder or code: its replay would look like a divergence."""
    refuse_missing_folder(reader, program)
    what = _find_missing(program)
    if what is not None:
        instead = "COMMAND" if program.is_command else "python agent.py"
        raise NotFound(
            f"there is no {what} {_display_name(program, what)}, which run {reader.run} needs",
            hint=_HINT.format(run=reader.run, instead=instead),
            code=f"no_{what}",
        )


def refuse_missing_program(program: Program) -> None:
    """Refuse a named program that does not exist."""
    what = _find_missing(program)
    if what is not None:
        raise NotFound(
            f"there is no {what} {_display_name(program, what)}", hint="Name a script, or -m MODULE.", code=f"no_{what}"
        )


def _find_missing(program: Program) -> str | None:
    """Return the kind of the missing code (file, module, command), or None if it exists."""
    path = os.path.join(program.cwd, program.path)
    if program.is_module:
        return None if _module_exists(program) else "module"
    if program.is_command:
        return None if shutil.which(path if os.path.dirname(program.path) else program.path) else "command"
    return None if os.path.exists(path) else "file"


def _display_name(program: Program, what: str) -> str:
    return (os.path.join(program.cwd, program.path) if what == "file" else program.path)[:200]


def refuse_missing_folder(reader: JournalReader, program: Program) -> None:
    if not os.path.isdir(program.cwd):
        raise NotFound(
            f"the folder of run {reader.run} no longer exists: {program.cwd[:200]}",
            hint=_HINT.format(run=reader.run, instead="python agent.py"),
            code="no_folder",
        )


def _module_exists(program: Program) -> bool:
    """Return True if the top-level package exists. A look inside would import it."""
    old_path = sys.path[:]
    sys.path.insert(0, program.cwd)
    try:
        return importlib.util.find_spec(program.path.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False
    finally:
        sys.path[:] = old_path
