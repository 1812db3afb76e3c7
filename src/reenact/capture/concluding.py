"""The last word of a program that was recorded, resumed or replayed: one line, or the verdict of a replay.

A replay is the same if the program did what its record says and so did every process below it. What parted first is
named first: a parent that parts because a child has is only the consequence.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from os import _exit as leave_at_once  # the system's own, whatever the program is made to see
from time import monotonic, sleep
from typing import Any

from reenact.capture.guard import Unseen
from reenact.capture.processes import own_run, own_signals
from reenact.capture.processes.family import family_of
from reenact.capture.processes.own_run import OwnRun, flush
from reenact.capture.processes.seams import nowhere
from reenact.capture.processes.session import Report, Session
from reenact.capture.processes.tickets import Ticket
from reenact.capture.programs import ProgramAgent
from reenact.capture.replaying import JsonOutput
from reenact.capture.summing_up import Stopwatch, Summary
from reenact.capture.terms import Program, Task
from reenact.core.events import TERMINAL_KINDS
from reenact.effect.open_stores import store_of
from reenact.effect.stopping import Divergence, RecordEnded
from reenact.errors import ReenactError

FAILED_ITSELF = 125
STANDS = 6
WAIT_SECONDS = 60.0
"""How long a replay waits for processes that outlive the first one."""
LOOK_SECONDS = 0.05
NOT_THERE = ("no_module", "no_file")
NOTHING_TO_REPLAY = "nothing_to_replay"
_NOTHING_HINT = (
    "It had no effect that a seam sees, and read neither clock nor chance: docs/programs.md says what is seen."
)
GRACE_SECONDS = 1.0
"""How long the first process may take to come to its end, once another has parted from its record."""


class Conclusion:
    def __init__(self, task: Task, agent: ProgramAgent, session: Session) -> None:
        self.task = task
        self.agent = agent
        self.session = session
        self._watch = Stopwatch()
        self._saying = threading.Lock()
        self._is_said, self._status = False, 0
        self._output = JsonOutput.taken() if task.replaying.json and task.mode == "replay" else None
        self._verdict_data: dict[str, Any] = {}

    def said(self, code: int, problem: ReenactError | None) -> int:
        """Says it, and gives the exit status."""
        with self._saying:
            if not self._is_said:
                self._is_said, self._status = True, self._said(code, problem)
                if self._output is not None:
                    self._output.write_verdict({"run": self.task.run, "exit": self._status, **self._verdict_data})
            return self._status

    def _said(self, code: int, problem: ReenactError | None) -> int:
        try:
            if self.task.mode == "replay":
                return self._verdict(problem)
            if problem is None:
                summary = self._watch.summary(self.agent, self.task.run, self.task.store, self._others())
                self.say(summary.line)
                return code
            self._complain(problem)
            return problem.exit_status if isinstance(problem, Unseen) else _standing(problem)
        except ReenactError as trouble:
            self._complain(trouble)
            return FAILED_ITSELF if self.task.mode == "replay" else code
        finally:
            self.session.end()

    def watch(self) -> None:
        """Of a replay: a process that has parted from its record may leave others waiting for it for ever, and the
        first one may end itself before the last word is said."""
        own_signals.watch()
        threading.Thread(target=self._watch_others, daemon=True, name="reenact-others").start()

    def _watch_others(self) -> None:
        while not any(report.state == "stopped" for report in self._others()):
            sleep(LOOK_SECONDS * 4)
            if self.session.has_ended:
                return  # the last word has been said
        sleep(GRACE_SECONDS)
        if self._is_said:
            return
        for report in self._others():
            if report.state == "begun" and _lives(report.pid):
                with suppress(OSError):
                    os.kill(report.pid, signal.SIGKILL)
        status = self.said(1, None)
        flush()
        leave_at_once(status)

    def say(self, *lines: str) -> None:
        if not self.task.quiet:
            for line in lines:
                if line:
                    print(line, file=sys.stderr)

    def _complain(self, problem: ReenactError) -> None:
        from reenact.capture.explaining import explanation, verdict_data  # loads much that is seldom needed

        self._tell_inexact()
        self.say(f"error: {problem.message} [{problem.code}]")
        if self.agent.live is not None:
            self.say(*explanation(problem, self.agent.live.reader, self.agent.program))
        self.say(problem.hint)
        if self.agent.live is not None:
            self._verdict_data = verdict_data(problem, self.agent.live, self.agent.program)
        else:
            self._verdict_data = _stopped(problem.code, problem.message, problem.hint)

    def _tell_inexact(self) -> None:
        matches = self.agent.live.loose.matches if self.agent.live is not None else []
        self.say(*(f"  inexact: {one}" for one in matches))

    def _others(self) -> list[Report]:
        return [report for report in self.session.reports() if report.run != self.task.run]

    # Of a replay

    def _verdict(self, problem: ReenactError | None) -> int:
        self._wait_for_others()
        reports = self._others()
        parted = next((one for one in reports if one.state == "stopped"), None)
        if parted is not None:
            name = f"run {parted.run} ({parted.name}), a process of run {parted.parent}"
            self.say(f"error: {name}: {parted.message} [{parted.code}]", parted.hint)
            said = {"code": parted.code, "message": parted.message, "hint": parted.hint, "run": parted.run}
            self._verdict_data = {"status": "diverged", "inexact": [], "problem": said}
            return parted.exit_status or 1
        if problem is not None and not isinstance(problem, RecordEnded):
            self._complain(problem)
            return problem.exit_status
        if problem is None and (missing := self._missing(reports)) is not None:
            self._complain(missing)
            return missing.exit_status
        summary = self._watch.summary(self.agent, self.task.run, self.task.store, reports)
        if not summary.effects and not summary.has_draws:  # nothing of nothing is not a pass
            nothing = f"run {self.task.run} has nothing in it that a replay could compare"
            self.say(f"error: {nothing} [{NOTHING_TO_REPLAY}]", _NOTHING_HINT)
            self._verdict_data = _stopped(NOTHING_TO_REPLAY, nothing)
            return 1
        if problem is not None:
            self.say(problem.message)
            self._verdict_data = {"status": "unfinished", "inexact": []}
            return 0
        return self._passed(summary)

    def _passed(self, summary: Summary) -> int:
        """A replay that comes here has done what the record says."""
        below = f" of {summary.processes + 1:,} processes" if summary.processes else ""
        network = "without a network" if self.session.is_isolated else "connections refused by Python"
        self._tell_inexact()
        inexact = len(self.agent.live.loose.matches) if self.agent.live is not None else 0
        but = f" but for {inexact:,} inexact {'match' if inexact == 1 else 'matches'}" if inexact else ""
        self.say(f"replayed {self.task.run}: the same in all {summary.events:,} events{below}{but}, {network}")
        if self._output is not None and self.agent.live is not None:
            from reenact.capture.explaining import verdict_data

            self._verdict_data = verdict_data(None, self.agent.live, self.agent.program)
        return 0

    def _wait_for_others(self) -> None:
        until = monotonic() + WAIT_SECONDS
        while monotonic() < until and (
            any(one.state == "begun" and _lives(one.pid) for one in self._others()) or self._is_somebody_on_the_way()
        ):
            sleep(LOOK_SECONDS)

    def _is_somebody_on_the_way(self) -> bool:
        """A process was started that has not come to its first line."""
        started = list(own_run.own.starts.by_pid.values()) if own_run.own is not None else []
        return any(self.session.report(one.ticket.run()) is None and _lives(one.pid) for one in started)

    def _missing(self, reports: list[Report]) -> Divergence | None:
        """A process of the record that was not started again, or did not come to its end."""
        store, namespace = store_of(self.task.store), self.agent.namespace
        found = {report.run: report for report in reports}
        for child in family_of(store, namespace, self.task.run):
            last = store.last_event(namespace, child.run)
            has_ended = last is not None and last.kind in TERMINAL_KINDS
            report = found.get(child.run)
            if child.how == "worker":
                continue  # how many a pool has is a matter of chance
            if report is None and (has_ended or child.parent == self.task.run):
                return Divergence(
                    f"run {child.run} ({child.how} {child.name}), a process of run {child.parent}, "
                    "was recorded and is not started again",
                    code="missing_process",
                )
            if report is not None and has_ended and report.state == "begun":
                return Divergence(
                    f"run {child.run} ({report.name}), a process of run {child.parent}, did not come to its end",
                    code="unfinished_process",
                )
        return None


def conclude_for(own: OwnRun, ticket: Ticket) -> None:
    """The first process has become this one, which has the last word now."""
    program = Program(path=own.name)
    agent = ProgramAgent(program, store=ticket.store, namespace=ticket.namespace)
    task = Task(program=program, run=ticket.concludes, mode=ticket.mode, store=ticket.store, namespace=ticket.namespace)
    conclusion = Conclusion(task, agent, own.session)
    own.conclude = conclusion.said
    if own.is_replay:
        with nowhere():
            conclusion.watch()


def _stopped(code: str, message: str, hint: str = "") -> dict[str, Any]:
    """The verdict as data on what came to no comparison."""
    return {"status": "stopped", "inexact": [], "problem": {"code": code, "message": message, "hint": hint}}


def _standing(problem: ReenactError) -> int:
    """Of a program that goes on, only what is no fault of ours is told apart."""
    if problem.code in NOT_THERE:
        return problem.exit_status
    if isinstance(problem, RecordEnded):
        return 0
    return STANDS if problem.exit_status in (1, STANDS) else FAILED_ITSELF


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False
    except IndexError:
        return os.path.exists(f"/proc/{pid}")
