"""What a new process is told: whose child it is, where in the parent's run it was begun, and what it is to do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal

import msgspec

from reenact.core.links import ParentRun

VARIABLE = "REENACT_PROCESS"
PATH = "PYTHONPATH"
HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hook")

Mode = Literal["record", "resume", "replay"]
How = Literal["start", "fork", "spawn", "exec", "job", "worker"]


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    parent: str
    """The run that starts it."""
    place: str
    """Lane and ordinal there: the same whenever that run comes back."""
    how: How
    mode: Mode
    store: str | None = None
    namespace: str = "default"
    strict: bool = False
    session: str = ""
    """The folder in which the processes tell what became of them."""
    head: str = ""
    seq: int = 0
    """Where the parent's record stood."""
    concludes: str = ""
    """The run of the first process, if that has become this one: it has the last word."""

    def run(self, number: int = 0) -> str:
        """The id of the run of the first Python below this place, or of a further one."""
        return process_run(self.parent, self.place, number)

    @property
    def link(self) -> ParentRun:
        return ParentRun(head=self.head, relation="child", run=self.parent, seq=self.seq)

    def to_text(self) -> str:
        return msgspec.json.encode(self).decode()


def process_run(parent: str, place: str, number: int = 0) -> str:
    return sha256(f"process\0{parent}\0{place}\0{number}".encode()).hexdigest()[:20]


def ticket_of(text: str) -> Ticket:
    return msgspec.json.decode(text.encode(), type=Ticket)


def with_ticket(environment: Mapping[Any, Any], ticket: Ticket) -> dict[Any, Any]:
    """The environment of a process that is to find the ticket. Its keys may be text or bytes."""
    made = {os.fsdecode(name): value for name, value in environment.items()}
    before = os.fsdecode(made.get(PATH, ""))
    made[PATH] = os.pathsep.join([HOOK, before]) if before else HOOK
    made[VARIABLE] = ticket.to_text()
    return made


def without_ticket(environment: Any, hook: str) -> None:
    """Takes both away again: the program has the environment that it was given."""
    environment.pop(VARIABLE, None)
    first, _, rest = environment.get(PATH, "").partition(os.pathsep)
    if os.path.abspath(first) == os.path.abspath(hook):
        if rest:
            environment[PATH] = rest
        else:
            environment.pop(PATH)
