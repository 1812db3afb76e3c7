"""A lane starts a process: the ticket that it is given, and what of it is on the parent's record.

The start is drawn like a value: a replay meets it again in the same place of the same lane, or it has diverged. Which
run it is to be is told beside it, at once: if the parent dies now, the child is found all the same.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import msgspec

from reenact.capture.guard import Unseen, guard, own_line
from reenact.capture.processes.command_lines import CommandLine
from reenact.capture.processes.family import ended_children
from reenact.capture.processes.tickets import How, Mode, Ticket
from reenact.core.events import ProcessAttached
from reenact.core.hashing import render
from reenact.effect.lanes import Lane
from reenact.effect.places import PLACE
from reenact.effect.stopping import Divergence, RunStopped
from reenact.effect.traps import asks_the_system

DRAWN = "process"


class Started:
    """A process that was given a ticket."""

    def __init__(self, ticket: Ticket, what: str, where: str, lane: Lane, *, is_expected: bool) -> None:
        self.ticket = ticket
        self.what = what
        self.where = where
        self.lane = lane
        self.is_expected = is_expected
        """A Python like this one: its run is there, or will be in a moment."""
        self.is_command = False
        """The command that was asked for: only what is below it has to be seen."""
        self.pid = 0
        self.status: int | None = None
        """With which it ended, if this process has seen it: that of a signal is negative."""


class Starts:
    """What this process has started, by pid."""

    def __init__(self) -> None:
        self.by_pid: dict[int, Started] = {}
        self.unasked: list[Started] = []
        """Of which nobody can tell whether a Python came of them."""
        self._lock = threading.Lock()

    def note(self, pid: int, started: Started) -> None:
        started.pid = pid
        started.lane.run.turns.away.add(started)  # as long as it is at work, nobody who waits for it stands still
        with self._lock:
            self.by_pid[pid] = started
            self.unasked.append(started)

    def ended(self, pid: int, status: int) -> None:
        """How a child ends, its parent sees: that is on the parent's record, and in a replay it is the same again."""
        started = self.by_pid.get(pid)
        if started is None or started.status is not None:
            return
        started.status = status
        started.lane.run.turns.away.discard(started)
        run, child = started.lane.run, started.ticket.run()
        if run.is_stopped or isinstance(sys.exc_info()[1], KeyboardInterrupt):
            return  # whoever ended the child ends its parent as well: both go on when they are resumed
        if run.journal is not None:
            if run.is_live:
                run.note_now(ProcessAttached({"ended": {"run": child, "status": status}}), started.lane)
            return
        recorded = ended_children(run.reader).get(child)
        if recorded is not None and recorded.status != status:
            run.stop_here(
                Divergence(
                    f"{started.what} of run {run.name} at {started.where} ended with {status}, "
                    f"where {recorded.status} was recorded",
                    hint=f"Its own record: reenact show {child}",
                    code="other_status",
                    line=started.where,
                    expected=recorded.status,
                    actual=status,
                )
            )


def lane_here() -> Lane | None:
    """The lane that starts something. None: it is inside an effect, or in no run."""
    place = PLACE.get()
    if type(place) is not Lane or asks_the_system(sys._getframe(2)):
        return None
    if place.run.is_stopped:
        if place.run.touches_nothing and place.run.stopped is not None:
            raise RunStopped(place.run.stopped)  # a replay that has parted does nothing more
        return None
    return place


def started(lane: Lane, how: How, command: CommandLine, *, strict: bool, session: str, mode: Mode) -> Started:
    """The ticket for what the lane is about to start. In a replay it is refused unless it is on record."""
    run = lane.run
    line = own_line() or "the command line"
    what = f"a process ({command.name})" if command.name else "a process"
    if strict and command.why_unseen is not None and run.journal is not None:
        guard.note(what, line)
        run.stop_here(Unseen(f"{what} at {line} would not be recorded: {command.why_unseen}"))
    identity = lane.identity
    place = f"{identity}/{lane.next_ordinal(f'{DRAWN}:{identity}')}"
    is_new = False

    def begin() -> list[str]:
        nonlocal is_new
        is_new = True
        return [how, command.name]

    recorded = run.draw(lane, DRAWN, begin)
    if list(recorded) != [how, command.name]:
        run.stop_here(
            Divergence(
                f"run {run.name} starts {what} at {line}, where {_told(recorded)} was recorded",
                code="other_process",
                line=line,
                expected=list(recorded),
                actual=[how, command.name],
            )
        )
    ticket = Ticket(
        parent=run.name,
        place=place,
        how=how,
        mode=mode if run.journal is not None else "replay",
        store=run.reader.store.private_url,
        namespace=run.reader.namespace,
        strict=strict,
        session=session,
    )
    if run.journal is None:
        if command.is_there and how not in ("job", "worker"):  # these start nothing
            _refuse_unrecorded(lane, ticket, what, line)
    elif is_new:
        words = run.secrets.value_without(list(command.words))
        said = {"run": ticket.run(), "place": place, "how": how, "command": words}
        run.note_now(ProcessAttached({"started": said}), lane)
    if run.journal is not None:
        head = run.journal.known_head
        ticket = msgspec.structs.replace(ticket, head=render(head.hash), seq=head.seq)
    return Started(ticket, what, line, lane, is_expected=command.why_unseen is None)


def _refuse_unrecorded(lane: Lane, ticket: Ticket, what: str, line: str) -> None:
    """No process starts in a replay whose doings are on no record."""
    run = lane.run
    if run.reader.store.run_row(ticket.namespace, ticket.run()) is not None:
        return
    run.stop_here(
        Divergence(
            f"the replay of run {run.name} starts {what} at {line}, and what that did is on no record",
            hint="Only Python processes are recorded with their parent. Start others inside of a tool or a step: "
            "their outcome is recorded, and served in a replay.",
            code="trapped",
            line=line,
            actual="process",
        )
    )


def _told(recorded: Any) -> str:
    how, name = (*recorded, "", "")[:2] if isinstance(recorded, (list, tuple)) else ("", "")
    return f"{how} {name}".strip() or "something else"
