"""Final output for a program: the summary line of a recording, or the verdict of a replay.

A replay is the same if the program and every process below it did what their records say. A diverged process is
reported before its parent, whose divergence is only the consequence.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from os import _exit as exit_now  # the original: the attribute of `os` is replaced
from time import monotonic, sleep
from typing import Any

from onrecord.capture.processes import process_run, self_signals
from onrecord.capture.processes.process_run import ProcessRun, flush
from onrecord.capture.processes.run_tree import descendants_of
from onrecord.capture.processes.session import Report, Session
from onrecord.capture.processes.ticket import Ticket
from onrecord.capture.program_agent import ProgramAgent
from onrecord.capture.program_task import Program, ProgramTask
from onrecord.capture.replay_options import JsonOutput
from onrecord.capture.summary import Stopwatch, Summary
from onrecord.capture.unrecorded import Unseen
from onrecord.core.events import TERMINAL_KINDS
from onrecord.errors import OnrecordError
from onrecord.runtime.engine.context import inside
from onrecord.runtime.engine.stops import Divergence, RecordEnded
from onrecord.runtime.engine.stores import store_of

FAILED_ITSELF = 125
BLOCKED = 6
WAIT_SECONDS = 60.0
"""How long a replay waits for processes that outlive the first one."""
LOOK_SECONDS = 0.05
NOT_FOUND_CODES = ("no_module", "no_file")
NOTHING_TO_REPLAY = "nothing_to_replay"
_NOTHING_HINT = (
    "It had no effect that an interceptor records, and read no clock and no random numbers. "
    "See docs/guides/programs.md for what is recorded."
)
GRACE_SECONDS = 1.0
"""How long the first process may take to end after another process has diverged."""


class ProgramVerdict:
    def __init__(self, task: ProgramTask, agent: ProgramAgent, session: Session) -> None:
        self.task = task
        self.agent = agent
        self.session = session
        self._watch = Stopwatch()
        self._lock = threading.Lock()
        self._is_concluded, self._status = False, 0
        self._output = JsonOutput.redirect() if task.replaying.json and task.mode == "replay" else None
        self._verdict_data: dict[str, Any] = {}

    def conclude(self, code: int, problem: OnrecordError | None) -> int:
        """Print the summary or the verdict once, and return the exit status."""
        with self._lock:
            if not self._is_concluded:
                self._is_concluded, self._status = True, self._conclude(code, problem)
                if self._output is not None:
                    self._output.write_verdict({"run": self.task.run, "exit": self._status, **self._verdict_data})
            return self._status

    def _conclude(self, code: int, problem: OnrecordError | None) -> int:
        try:
            if self.task.mode == "replay":
                return self._verdict(problem)
            if problem is None:
                summary = self._watch.summary(self.agent, self.task.run, self.task.store, self._other_reports())
                self.print_lines(summary.line)
                return code
            self._print_problem(problem)
            return problem.exit_status if isinstance(problem, Unseen) else _exit_status_for(problem)
        except OnrecordError as failure:
            self._print_problem(failure)
            return FAILED_ITSELF if self.task.mode == "replay" else code
        finally:
            self.session.end()

    def watch(self) -> None:
        """Watch a replay: a diverged process may leave others waiting for ever, and the first process may end itself
        before the verdict is printed."""
        self_signals.install()
        threading.Thread(target=self._watch_processes, daemon=True, name="onrecord-others").start()

    def _watch_processes(self) -> None:
        while not any(report.state == "stopped" for report in self._other_reports()):
            sleep(LOOK_SECONDS * 4)
            if self.session.has_ended:
                return  # the verdict has been printed
        sleep(GRACE_SECONDS)
        if self._is_concluded:
            return
        for report in self._other_reports():
            if report.state == "begun" and _is_alive(report.pid):
                with suppress(OSError):
                    os.kill(report.pid, signal.SIGKILL)
        status = self.conclude(1, None)
        flush()
        exit_now(status)

    def print_lines(self, *lines: str) -> None:
        if not self.task.quiet:
            for line in lines:
                if line:
                    print(line, file=sys.stderr)

    def _print_problem(self, problem: OnrecordError) -> None:
        from onrecord.capture.explain import explain_problem, name_gone_variables, verdict_data  # slow, seldom needed

        if self.agent.live is not None:
            name_gone_variables(problem, self.agent.live.reader)
        self._print_inexact()
        self.print_lines(f"error: {problem.message} [{problem.code}]")
        if self.agent.live is not None:
            self.print_lines(*explain_problem(problem, self.agent.live.reader, self.agent.program))
        self.print_lines(problem.hint)
        if self.agent.live is not None:
            self._verdict_data = verdict_data(problem, self.agent.live, self.agent.program)
        else:
            self._verdict_data = _stopped_data(problem.code, problem.message, problem.hint)

    def _print_inexact(self) -> None:
        matches = self.agent.live.loose.matches if self.agent.live is not None else []
        self.print_lines(*(f"  inexact: {one}" for one in matches))

    def _other_reports(self) -> list[Report]:
        return [report for report in self.session.reports() if report.run != self.task.run]

    # Replays

    def _verdict(self, problem: OnrecordError | None) -> int:
        self._wait_for_processes()
        reports = self._other_reports()
        diverged = next((one for one in reports if one.state == "stopped"), None)
        if diverged is not None:
            name = f"run {diverged.run} ({diverged.name}), a process of run {diverged.parent}"
            self.print_lines(f"error: {name}: {diverged.message} [{diverged.code}]", diverged.hint)
            details = {"code": diverged.code, "message": diverged.message, "hint": diverged.hint, "run": diverged.run}
            self._verdict_data = {"status": "diverged", "inexact": [], "problem": details}
            return diverged.exit_status or 1
        if problem is not None and not isinstance(problem, RecordEnded):
            self._print_problem(problem)
            return problem.exit_status
        if problem is None and (missing := self._find_missing_process(reports)) is not None:
            self._print_problem(missing)
            return missing.exit_status
        summary = self._watch.summary(self.agent, self.task.run, self.task.store, reports)
        if not summary.effects and not summary.has_draws:  # an empty comparison is not a pass
            nothing = f"run {self.task.run} holds nothing that a replay could compare"
            self.print_lines(f"error: {nothing} [{NOTHING_TO_REPLAY}]", _NOTHING_HINT)
            self._verdict_data = _stopped_data(NOTHING_TO_REPLAY, nothing)
            return 1
        if problem is not None:
            self.print_lines(problem.message)
            self._verdict_data = {"status": "unfinished", "inexact": []}
            return 0
        return self._print_pass(summary)

    def _print_pass(self, summary: Summary) -> int:
        """Print the verdict of a replay that did what the record says."""
        of_processes = f" of {summary.processes + 1:,} processes" if summary.processes else ""
        network = "without a network" if self.session.is_isolated else "connections refused by Python"
        self._print_inexact()
        inexact = len(self.agent.live.loose.matches) if self.agent.live is not None else 0
        exceptions = f" but for {inexact:,} inexact {'match' if inexact == 1 else 'matches'}" if inexact else ""
        self.print_lines(
            f"replayed {self.task.run}: the same in all {summary.events:,} events{of_processes}{exceptions}, {network}"
        )
        anew = self.agent.live.kernel.drawn_anew if self.agent.live is not None else 0
        if anew:
            values = "value of the clock or of chance was" if anew == 1 else "values of the clock or of chance were"
            self.print_lines(f"  {anew:,} {values} read that the record does not have")
        if self._output is not None and self.agent.live is not None:
            from onrecord.capture.explain import verdict_data

            self._verdict_data = verdict_data(None, self.agent.live, self.agent.program)
        return 0

    def _wait_for_processes(self) -> None:
        until = monotonic() + WAIT_SECONDS
        while monotonic() < until and (
            any(one.state == "begun" and _is_alive(one.pid) for one in self._other_reports())
            or self._is_process_starting()
        ):
            sleep(LOOK_SECONDS)

    def _is_process_starting(self) -> bool:
        """Return True if a started process has not begun its run yet."""
        started = list(process_run.current.starts.by_pid.values()) if process_run.current is not None else []
        return any(self.session.report(one.ticket.run()) is None and _is_alive(one.pid) for one in started)

    def _find_missing_process(self, reports: list[Report]) -> Divergence | None:
        """Return the divergence of a recorded process that was not started again or did not end, or None."""
        store, namespace = store_of(self.task.store), self.agent.namespace
        found = {report.run: report for report in reports}
        for child in descendants_of(store, namespace, self.task.run):
            last = store.last_event(namespace, child.run)
            has_ended = last is not None and last.kind in TERMINAL_KINDS
            report = found.get(child.run)
            if child.how == "worker":
                continue  # the number of workers of a pool is not deterministic
            if report is None and (has_ended or child.parent == self.task.run):
                return Divergence(
                    f"run {child.run} ({child.how} {child.name}), a process of run {child.parent}, "
                    "was recorded, but was not started again",
                    code="missing_process",
                )
            if report is not None and has_ended and report.state == "begun":
                return Divergence(
                    f"run {child.run} ({report.name}), a process of run {child.parent}, did not end",
                    code="unfinished_process",
                )
        return None


def conclude_for(current: ProcessRun, ticket: Ticket) -> None:
    """Let this process print the verdict, because the first process exec'ed it."""
    program = Program(path=current.name)
    agent = ProgramAgent(program, store=ticket.store, namespace=ticket.namespace)
    task = ProgramTask(
        program=program, run=ticket.concludes, mode=ticket.mode, store=ticket.store, namespace=ticket.namespace
    )
    conclusion = ProgramVerdict(task, agent, current.session)
    current.conclude = conclusion.conclude
    if current.is_replay:
        with inside():
            conclusion.watch()


def _stopped_data(code: str, message: str, hint: str = "") -> dict[str, Any]:
    """Return the verdict as data for a replay that was stopped before a comparison."""
    return {"status": "stopped", "inexact": [], "problem": {"code": code, "message": message, "hint": hint}}


def _exit_status_for(problem: OnrecordError) -> int:
    """Return the exit status for the problem that stopped a recorded or resumed program."""
    if problem.code in NOT_FOUND_CODES:
        return problem.exit_status
    if isinstance(problem, RecordEnded):
        return 0
    return BLOCKED if problem.exit_status in (1, BLOCKED) else FAILED_ITSELF


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False
    except IndexError:
        return os.path.exists(f"/proc/{pid}")
