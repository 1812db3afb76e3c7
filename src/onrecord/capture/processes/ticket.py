"""Ticket: what a new process is given. It names the parent's run, the position of the start, and the mode."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal

import msgspec

from onrecord.core.links import ParentRun

VARIABLE = "ONRECORD_PROCESS"
PATH = "PYTHONPATH"
HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook")

Mode = Literal["record", "resume", "replay"]
StartKind = Literal["start", "fork", "spawn", "exec", "job", "worker"]


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    parent: str
    """Run that starts the process."""
    place: str
    """Lane and ordinal in the parent's run: the same in every resume and replay."""
    how: StartKind
    mode: Mode
    store: str | None = None
    namespace: str = "default"
    strict: bool = False
    session: str = ""
    """Folder for the reports of all processes of the program."""
    head: str = ""
    seq: int = 0
    """Head of the parent's journal at the start (hash above, seq here)."""
    concludes: str = ""
    """Run of the first process if that process has exec'ed this one, which then prints the verdict."""

    def run(self, number: int = 0) -> str:
        """Return the run id of the n-th Python process that starts at this position."""
        return child_run_id(self.parent, self.place, number)

    @property
    def link(self) -> ParentRun:
        return ParentRun(head=self.head, relation="child", run=self.parent, seq=self.seq)

    def to_text(self) -> str:
        return msgspec.json.encode(self).decode()


def child_run_id(parent: str, place: str, number: int = 0) -> str:
    return sha256(f"process\0{parent}\0{place}\0{number}".encode()).hexdigest()[:20]


def parse_ticket(text: str) -> Ticket:
    return msgspec.json.decode(text.encode(), type=Ticket)


def with_ticket(environment: Mapping[Any, Any], ticket: Ticket) -> dict[Any, Any]:
    """Return the environment for a process with the ticket and the start hook. Keys may be text or bytes."""
    changed = {os.fsdecode(name): value for name, value in environment.items()}
    path_before = os.fsdecode(changed.get(PATH, ""))
    changed[PATH] = os.pathsep.join([HOOK, path_before]) if path_before else HOOK
    changed[VARIABLE] = ticket.to_text()
    return changed


def without_ticket(environment: Any, hook: str) -> None:
    """Remove ticket and hook, so that the program sees the environment it was given."""
    environment.pop(VARIABLE, None)
    first, _, rest = environment.get(PATH, "").partition(os.pathsep)
    if os.path.abspath(first) == os.path.abspath(hook):
        if rest:
            environment[PATH] = rest
        else:
            environment.pop(PATH)
