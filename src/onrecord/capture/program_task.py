"""What a process is told that is to run a program. Loaded by whoever starts one, so it loads little itself."""

from __future__ import annotations

import os
from typing import Any, Literal

import msgspec

from reenact.errors import InvalidInput, Refused

VARIABLE = "REENACT_CAPTURE"


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What is run."""

    path: str
    """Of the script, or the name of the module, or the command."""
    args: tuple[str, ...] = ()
    cwd: str = ""
    is_module: bool = False
    is_command: bool = False
    """Any command: the Python processes below it are runs of their own."""
    durable_sleeps: bool = False
    """Its own sleeps are effects, whose due time outlives the process."""
    hash_seed: int | None = None
    """With which sets of strings keep their order; None: whatever the interpreter took."""

    @property
    def name(self) -> str:
        return self.path if self.is_module else os.path.basename(self.path.rstrip("/"))


class ReplayTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay is asked for besides its verdict."""

    loose: tuple[str, ...] = ()
    """What is tolerated (`effect.looseness`)."""
    break_at: int | None = None
    """Into the debugger at the effect of this event."""
    realtime: bool = False
    """Parts of streams come when they came."""
    json: bool = False
    """The verdict as JSON on stdout; what the program says goes to stderr."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What the process is to do."""

    program: Program
    instead: Program | None = None
    """Replayed in place of what was recorded."""
    run: str
    mode: Literal["record", "resume", "replay"]
    store: str | None = None
    namespace: str = "default"
    strict: bool = False
    quiet: bool = False
    replaying: ReplayTerms = ReplayTerms()

    def to_environment(self) -> dict[str, str]:
        try:
            made = {VARIABLE: msgspec.json.encode(self).decode()}
        except UnicodeEncodeError:
            raise InvalidInput(
                "the path of a program, its folder or an argument is not UTF-8, which a record cannot hold",
                hint="Rename the file, or hand it over by other means, such as standard input.",
                code="not_utf8",
            ) from None
        if self.program.hash_seed is not None:
            made["PYTHONHASHSEED"] = str(self.program.hash_seed)
        return made


def program_of(facts: dict[str, Any] | None) -> Program | None:
    """The program of a run; None if it is the run of something else."""
    found, process = (facts or {}).get("program"), (facts or {}).get("process")
    if isinstance(process, dict) and "parent" in process:
        raise Refused(
            f"this is a process of run {process['parent']}, and goes on only with it",
            hint=f"Name that one: {process['parent']}",
            code="process_of_run",
        )
    if found is None:
        return None
    try:
        return msgspec.convert(found, Program)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the facts of the run do not name a program: {error}", code="bad_program") from None
