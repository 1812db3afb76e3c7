"""Start of a process by a lane: its ticket, and what the parent's run records about it.

The start is a draw: a replay must make it at the same position of the same lane, or it has diverged. The child's run id
is recorded at once, so the child is found even if the parent dies right after.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import msgspec

from onrecord.capture.processes.command_lines import CommandLine
from onrecord.capture.processes.run_tree import ended_children
from onrecord.capture.processes.ticket import Mode, StartKind, Ticket
from onrecord.capture.unrecorded import Unseen, guard, own_line
from onrecord.core.events import ProcessAttached
from onrecord.core.hashing import render
from onrecord.runtime.engine.context import Lane, current_lane
from onrecord.runtime.engine.stops import Divergence, RunStopped
from onrecord.runtime.replay.sandbox import asks_the_system

DRAWN = "process"
_COUNTED = "!process"
"""The starts of a lane are counted under this name: no effect has it."""


class Started:
    """Process that was started with a ticket."""

    def __init__(self, ticket: Ticket, what: str, where: str, lane: Lane, *, is_expected: bool) -> None:
        self.ticket = ticket
        self.what = what
        self.where = where
        self.lane = lane
        self.is_expected = is_expected
        """True: it is a Python that records, so its run must appear."""
        self.is_command = False
        """True: it is the command of `onrecord run`. Only the Pythons below it must record."""
        self.pid = 0
        self.status: int | None = None
        """Exit status that this process has seen. It is negative for a signal."""


class Starts:
    """Processes that this process has started."""

    def __init__(self) -> None:
        self.by_pid: dict[int, Started] = {}
        self.unchecked: list[Started] = []
        """Processes not yet checked for whether they began a run."""
        self._lock = threading.Lock()

    def note(self, pid: int, started: Started) -> None:
        started.pid = pid
        with self._lock:
            self.by_pid[pid] = started
            self.unchecked.append(started)

    def ended(self, pid: int, status: int) -> None:
        """Record a child's exit status in the parent's run. In a replay, stop if it differs from the record."""
        started = self.by_pid.get(pid)
        if started is None or started.status is not None:
            return
        started.status = status
        run, child = started.lane.run, started.ticket.run()
        if run.is_stopped or isinstance(sys.exc_info()[1], KeyboardInterrupt):
            return  # the interrupt ends child and parent: both are resumed later
        if run.journal is not None:
            if run.is_live:
                run.note_now(ProcessAttached({"ended": {"run": child, "status": status}}), started.lane.name)
            return
        recorded = ended_children(run.reader).get(child)
        if recorded is not None and recorded.status != status:
            run.stop_here(
                Divergence(
                    f"{started.what} of run {run.name} at {started.where} ended with {status}, "
                    f"where {recorded.status} was recorded",
                    hint=f"See the record of that process: onrecord show {child}",
                    code="other_status",
                    line=started.where,
                    expected=recorded.status,
                    actual=status,
                )
            )


def find_starting_lane() -> Lane | None:
    """Return the lane that starts a process, or None inside an effect and outside any run."""
    lane = current_lane()
    if lane is None or asks_the_system(sys._getframe(2)):
        return None
    if lane.run.is_stopped:
        if lane.run.touches_nothing and lane.run.stopped is not None:
            raise RunStopped(lane.run.stopped)  # a replay that has diverged does nothing more
        return None
    return lane


def start_process(
    lane: Lane, how: StartKind, command: CommandLine, *, strict: bool, session: str, mode: Mode
) -> Started:
    """Return the process that the lane is about to start, with its ticket. In a replay, refuse one without a record."""
    run = lane.run
    line = own_line() or "the command line"
    what = f"a process ({command.name})" if command.name else "a process"
    if strict and command.why_unrecorded is not None and run.journal is not None:
        guard.note(what, line)
        run.stop_here(Unseen(f"{what} at {line} would not be recorded: {command.why_unrecorded}"))
    with run.lock:
        _, place = run.kernel.name_request(lane.name, _COUNTED)
    is_new = False

    def describe_start() -> list[str]:
        nonlocal is_new
        is_new = True
        return [how, command.name]

    recorded = run.draw(lane, DRAWN, describe_start)
    if list(recorded) != [how, command.name]:
        run.stop_here(
            Divergence(
                f"run {run.name} starts {what} at {line}, where {_describe_recorded(recorded)} was recorded",
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
        if command.is_found and how not in ("job", "worker"):  # jobs start no process
            _refuse_unrecorded(lane, ticket, what, line)
    elif is_new:
        words = run.secrets.redact_value(list(command.words))
        note = {"run": ticket.run(), "place": place, "how": how, "command": words}
        run.note_now(ProcessAttached({"started": note}), lane.name)
    if run.journal is not None:
        head = run.journal.known_head
        ticket = msgspec.structs.replace(ticket, head=render(head.hash), seq=head.seq)
    return Started(ticket, what, line, lane, is_expected=command.why_unrecorded is None)


def _refuse_unrecorded(lane: Lane, ticket: Ticket, what: str, line: str) -> None:
    """Stop the replay if the process has no recorded run."""
    run = lane.run
    if run.reader.store.run_row(ticket.namespace, ticket.run()) is not None:
        return
    run.stop_here(
        Divergence(
            f"the replay of run {run.name} starts {what} at {line}, which has no record",
            hint="Only Python processes are recorded with their parent. Start others inside a tool or a step: "
            "their outcome is recorded and served in a replay.",
            code="trapped",
            line=line,
            actual="process",
        )
    )


def _describe_recorded(recorded: Any) -> str:
    how, name = (*recorded, "", "")[:2] if isinstance(recorded, (list, tuple)) else ("", "")
    return f"{how} {name}".strip() or "something else"
