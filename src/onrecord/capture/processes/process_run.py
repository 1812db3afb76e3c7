"""Run of this process: it begins before the program's first line and ends with the process.

The program runs without any of our frames on its stack. So the end is observed through what a process does when it ends
(`exits`). Several of those hooks may call `finish`; only the first call has an effect.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

import msgspec

from onrecord.capture.processes.session import Report, Session
from onrecord.capture.processes.spawn import Started, Starts
from onrecord.capture.processes.ticket import Mode, Ticket
from onrecord.capture.unrecorded import guard
from onrecord.core.events import Completed, Failed
from onrecord.errors import OnrecordError
from onrecord.runtime.api.agent import Agent
from onrecord.runtime.api.policy import Budget, Policy, PolicyGuard
from onrecord.runtime.engine import boundary
from onrecord.runtime.engine.context import inside
from onrecord.runtime.engine.execution import end_run
from onrecord.runtime.engine.lease_keeper import keeper
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import RecordEnded, RunStopped
from onrecord.runtime.replay import sandbox
from onrecord.runtime.scheduler.drivers import threads
from onrecord.runtime.scheduler.drivers.strands import CURRENT, Strand

LOOK_SECONDS = 0.2
GRACE_SECONDS = 2.0
"""Extra time in a replay before a process that was killed while recording is ended, too."""


class ProcessAgent(Agent[..., Any]):
    """Agent of a process that a program started. It is never called: the process itself is its function."""

    redacts_by_default = True

    def __init__(self, name: str, facts: dict[str, Any], **options: Any) -> None:
        super().__init__(_never_called, name=f"process {name}", policy=Policy(budget=Budget()), **options)
        self._process_facts = facts
        self.spending: PolicyGuard | None = None

    def make_guard(self, parent: PolicyGuard | None = None) -> PolicyGuard | None:
        self.spending = super().make_guard(parent)
        return self.spending

    def code(self) -> dict[str, str]:
        return {"function": self.name, "digest": ""}

    def own_facts(self) -> dict[str, Any]:
        return {**super().own_facts(), "process": self._process_facts}


def _never_called() -> None: ...


class ProcessRun:
    """Run that the code of this process belongs to."""

    def __init__(
        self,
        live: LiveRun | None,
        session: Session,
        *,
        mode: Mode,
        strict: bool = False,
        agent: ProcessAgent | None = None,
        ticket: Ticket | None = None,
        name: str = "",
    ) -> None:
        self.live = live
        self.session = session
        self.mode: Mode = mode
        self.strict = strict
        self.agent = agent
        self.ticket = ticket
        self.name = name
        self.pid = os.getpid()
        self.starts = Starts()
        self.is_over = False
        self.exit_code: int | None = None
        """Exit code, if it is known here: `SystemExit` passes it to the system only."""
        self.conclude: Callable[[int, OnrecordError | None], int] | None = None
        """Print the verdict and return the exit status. Set in the process that concludes the program."""
        self.recorded_status: int | None = None
        """Recorded exit status of a process that was killed while recording."""

    @property
    def is_replay(self) -> bool:
        return self.live is not None and self.live.journal is None

    # Begin

    def enter(self, forked: Strand | None = None) -> None:
        """Make the running code part of the run, as its first lane. After a fork its strand becomes that of the run."""
        live = self.live
        assert live is not None
        if forked is not None:
            _adopt_strand(live, forked)
        threads.install()
        CURRENT.strand = None
        if live.journal is not None and self.agent is not None:
            keeper.keep(live, self.agent.lease_seconds)
        if live.secrets.redacts and self.agent is not None and self.agent.redaction is not None:
            live.secrets.learn(self.agent.redaction.values, [sys.argv])
        live.is_strict = self.strict
        if live.touches_nothing:
            sandbox.set_traps()
            boundary.strict_outside = True  # effects outside any run are refused, too
        else:
            guard.watch()
        with live.lock:
            live.cancellation.listen()
            live.coordinator.start()
        CURRENT.strand, CURRENT.depth = live.coordinator.main, 0

    # End

    def finish(self, code: int | None, error: BaseException | None = None) -> int:
        """End the run, report its outcome and return the exit status for the process."""
        if self.is_over or os.getpid() != self.pid or self.live is None:
            return code or 0
        self.is_over = True
        problem = self._record_end(code, error)
        self._release_lease()
        self.report(problem)
        if isinstance(problem, RecordEnded):
            self.end_as_recorded()
        if self.conclude is not None:
            return self.conclude(code or 0, problem)
        return code or 0 if problem is None or isinstance(problem, RecordEnded) else problem.exit_status or 1

    def end_before_exec(self, started: Started) -> Ticket:
        """End the run before `exec` and return the new program's ticket. The task to conclude passes on with it."""
        assert self.live is not None
        ticket, conclude, self.conclude = started.ticket, self.conclude, None
        if conclude is not None and started.is_expected:
            ticket = msgspec.structs.replace(ticket, concludes=self.live.name)
        problem = self.finish(0)
        if conclude is not None and not started.is_expected:
            self.session.write(Report(run=ticket.run(), state="unrecorded", holes=((started.what, started.where, 1),)))
            conclude(problem, None)
        return ticket

    def _record_end(self, code: int | None, error: BaseException | None) -> OnrecordError | None:
        """Record the end of the run. Return None, or the error that stopped the run."""
        live = self.live
        assert live is not None
        CURRENT.strand = None
        try:
            if live.stopped is not None:
                return live.stopped
            if error is not None and not isinstance(error, (Exception, SystemExit)):
                live.interrupt(error)
                return live.stopped
            end_run(live, Failed(error) if isinstance(error, Exception) else Completed({"exit": code}))
        except OnrecordError as stopped:
            return stopped
        except RunStopped as stopped:
            return live.stopped or OnrecordError(str(stopped))
        except Exception as failure:  # an error of this package, not of the program
            return OnrecordError(f"run {live.name} could not be ended: {type(failure).__name__}", code="internal")
        return None

    def _release_lease(self) -> None:
        live = self.live
        if live is None or live.journal is None or live.is_released:
            return
        live.is_released = True
        keeper.let_go(live)
        try:
            live.journal.release()
        except OnrecordError:
            return  # the lease expires
        finally:
            keeper.give_back(live.journal)

    def report(self, problem: OnrecordError | None) -> None:
        assert self.live is not None
        spent = self.agent.spending.spent() if self.agent is not None and self.agent.spending is not None else {}
        self.note_unrecorded()
        state = "record_ended" if isinstance(problem, RecordEnded) else "stopped" if problem is not None else "ended"
        self.session.write(
            Report(
                run=self.live.name,
                name=self.name,
                parent=self.ticket.parent if self.ticket is not None else "",
                state=state,  # type: ignore[arg-type]
                code=problem.code if problem is not None else "",
                message=problem.message if problem is not None else "",
                hint=problem.hint if problem is not None else "",
                exit_status=problem.exit_status if problem is not None else 0,
                tokens=spent.get("tokens", 0.0),
                cost=spent.get("cost", 0.0),
                redacted=getattr(self.live.secrets, "redacted", 0),
                holes=tuple((hole.what, hole.where, count) for hole, count in guard.holes.items()),
                pid=self.pid,
            )
        )
        guard.holes.clear()  # reported once: a worker has several runs, one after another

    def note_unrecorded(self) -> None:
        """Note every started process that has begun no run as unrecorded."""
        if self.live is None or self.live.journal is None:
            return
        unchecked, self.starts.unchecked = self.starts.unchecked, []
        for started in unchecked:
            report = self.session.report(started.ticket.run())
            if started.is_expected:
                is_recorded = report is not None or started.status is None  # its run may begin later
            else:
                is_recorded = report is not None and (started.is_command or report.pid == started.pid)
            if not is_recorded:
                guard.note(started.what, started.where)

    # End as recorded

    def watch_for_recorded_end(self, seconds: float) -> None:
        """End a process that was killed while recording by the same signal, once its record is used up and `seconds`
        have passed. In a replay the sender of the signal is missing."""
        if self.recorded_status is None or self.live is None:
            return
        self.live.on_stop.append(self._end_at_record_end)
        with inside():
            watch = threading.Thread(target=self._wait_for_recorded_end, args=(seconds,), daemon=True)
            watch.name = "onrecord-end"
            watch.start()

    def _end_at_record_end(self) -> None:
        """End at once where the record ends: the program could catch an exception."""
        if self.live is not None and isinstance(self.live.stopped, RecordEnded):
            self.end_as_recorded()

    def _wait_for_recorded_end(self, seconds: float) -> None:
        live, since = self.live, monotonic()
        assert live is not None
        while not self.is_over:
            sleep(LOOK_SECONDS)
            if self._has_record_left(live):
                since = monotonic()
            elif monotonic() - since > seconds + GRACE_SECONDS:
                self.end_as_recorded()
                return

    @staticmethod
    def _has_record_left(live: LiveRun) -> bool:
        with live.lock:
            return live.history is not None and live.kernel.history.first_unmade() is not None

    def end_as_recorded(self) -> None:
        """End this process by the recorded signal. Return only if none was recorded."""
        if self.recorded_status is None:
            return
        with inside():  # each act of a lane would be refused
            if not self.is_over:
                self.is_over = True
                self.report(RecordEnded("", code="record_ended"))
            flush()
            number = -self.recorded_status
            if number != signal.SIGKILL and threading.current_thread() is threading.main_thread():
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            sleep(LOOK_SECONDS)
            os._exit(128 + number)


def _adopt_strand(live: LiveRun, strand: Strand) -> None:
    """Let a forked thread continue as the main strand of the run: the code below it on the stack knows that strand."""
    coordinator, parent = live.coordinator, strand.coordinator
    strand.coordinator, strand.lane, strand.owner = coordinator, live.kernel.root, live.kernel.root
    strand.is_away = strand.is_daemon = False
    coordinator.main, coordinator.strands = strand, [strand]
    if strand.loop is not None:
        strand.loop.strands = {coordinator: strand}
        strand.loop.early = {coordinator: strand.loop.early.pop(parent, deque())}


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue


current: ProcessRun | None = None
"""Run of this process, if it is recorded."""


def set_current(run: ProcessRun | None) -> None:
    global current
    current = run
