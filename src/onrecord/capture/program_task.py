"""Task of a process that runs a program. The starting process imports this module, so it imports little."""

from __future__ import annotations

import os
from typing import Any, Literal

import msgspec

from onrecord.errors import InvalidInput, Refused

VARIABLE = "ONRECORD_CAPTURE"


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """Program or command to run."""

    path: str
    """Path of the script, name of the module, or the command."""
    args: tuple[str, ...] = ()
    cwd: str = ""
    is_module: bool = False
    is_command: bool = False
    """True for any other command: each Python process below it is a run of its own."""
    durable_sleeps: bool = False
    """True: the program's own sleeps are effects, whose due time outlives the process."""
    hash_seed: int | None = None
    """Hash seed, so that sets of strings keep their order. None: the interpreter's own."""

    @property
    def name(self) -> str:
        return self.path if self.is_module else os.path.basename(self.path.rstrip("/"))

    def to_fact(self) -> dict[str, Any]:
        """Return the program as data, without the hash seed: it differs between equal runs (`meta` of the facts)."""
        return {name: value for name, value in msgspec.to_builtins(self).items() if name != "hash_seed"}


class ReplayTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a replay."""

    loose: tuple[str, ...] = ()
    """Tolerated differences (`runtime.replay.tolerance`)."""
    break_at: int | None = None
    """Open the debugger at the effect of this event."""
    realtime: bool = False
    """Deliver the parts of streams with their recorded gaps."""
    json: bool = False
    """Print the verdict as JSON on stdout. The program's own output goes to stderr."""
    strict: bool = False
    """Refuse readings of the clock and of chance that are not on record."""


class ProgramTask(msgspec.Struct, frozen=True, kw_only=True):
    """Task of one process: what to run, and how."""

    program: Program
    instead: Program | None = None
    """Program to replay instead of the recorded one."""
    run: str
    mode: Literal["record", "resume", "replay"]
    store: str | None = None
    namespace: str = "default"
    strict: bool = False
    quiet: bool = False
    replaying: ReplayTerms = ReplayTerms()

    def to_environment(self) -> dict[str, str]:
        try:
            variables = {VARIABLE: msgspec.json.encode(self).decode()}
        except UnicodeEncodeError:
            raise InvalidInput(
                "the path of a program, its folder or an argument is not UTF-8, which a record cannot hold",
                hint="Rename the file, or pass the value another way, such as standard input.",
                code="not_utf8",
            ) from None
        if self.program.hash_seed is not None:
            variables["PYTHONHASHSEED"] = str(self.program.hash_seed)
        return variables


def program_of(facts: dict[str, Any] | None) -> Program | None:
    """Return the program of a run, or None if the run is not a program's."""
    found, process = (facts or {}).get("program"), (facts or {}).get("process")
    if isinstance(process, dict) and "parent" in process:
        raise Refused(
            f"this is a process of run {process['parent']}, and is resumed or replayed only with it",
            hint=f"Use that run: {process['parent']}",
            code="process_of_run",
        )
    if found is None:
        return None
    meta = (facts or {}).get("meta")
    if isinstance(found, dict) and isinstance(meta, dict) and "hash_seed" in meta:
        found = {**found, "hash_seed": meta["hash_seed"]}
    try:
        return msgspec.convert(found, Program)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the facts of the run do not name a program: {error}", code="bad_program") from None
