"""Begin the run of a new process, as its ticket says: record, resume or replay.

In a replay a process that cannot begin its run ends: nothing without a record may execute. While recording it continues
without a record, unless the mode is strict, and its parent reports it as unrecorded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from time import monotonic, sleep
from typing import Any, NamedTuple

from onrecord.capture.install import install_interceptors
from onrecord.capture.processes import exits, process_run
from onrecord.capture.processes.process_run import ProcessAgent, ProcessRun
from onrecord.capture.processes.run_tree import ended_children
from onrecord.capture.processes.session import Report, Session
from onrecord.capture.processes.ticket import VARIABLE, Ticket, parse_ticket, without_ticket
from onrecord.capture.program_task import VARIABLE as ENTRY
from onrecord.capture.unrecorded import guard
from onrecord.core.events import TERMINAL_KINDS
from onrecord.errors import OnrecordError, Refused, RunExists
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import Divergence
from onrecord.runtime.engine.stores import store_of
from onrecord.runtime.replay.history import History
from onrecord.runtime.scheduler.drivers.strands import CURRENT, Strand
from onrecord.runtime.secrets.run_secrets import load_secrets
from onrecord.store.contract import Store

FAILED_ITSELF = 125
MOST_BELOW = 10_000
"""Limit of Python processes below one command."""
BUSY_SECONDS = 30.0
"""How long a resumed process waits for its predecessor, which may outlive its parent."""
LOOK_SECONDS = 0.1
_SHARED_STARTS = ("start", "worker")
"""Kinds of starts at which more than one run may begin."""


def begin_fresh(hook: str) -> None:
    """Begin the run in a fresh interpreter. The start hook calls this before the program's first line."""
    text = os.environ.get(VARIABLE, "")
    without_ticket(os.environ, hook)
    if ENTRY in os.environ or _is_onrecord_command():
        return
    try:
        ticket = parse_ticket(text)
    except ValueError:
        return  # not a ticket of ours
    begin(ticket, command=sys.orig_argv)


def _is_onrecord_command() -> bool:
    """Return True for an `onrecord` command, which records by itself."""
    names = [os.path.basename(word) for word in sys.orig_argv[1:4]]
    return any(name == "onrecord" or name.startswith("onrecord.") for name in names)


def begin(ticket: Ticket, *, command: list[str], forked: Strand | None = None) -> ProcessRun | None:
    """Begin the run of this process and return it, or None if the process is not recorded."""
    current = open_run(ticket, command=command, forked=forked)
    if current is not None:
        exits.install()
        if ticket.concludes:
            from onrecord.capture.program_verdict import conclude_for

            conclude_for(current, ticket)
    return current


def open_run(ticket: Ticket, *, command: list[str], forked: Strand | None = None) -> ProcessRun | None:
    """Open the run that the ticket names and make the running code part of it, without hooks for the process's end."""
    session = Session(ticket.session)
    try:
        name = _process_name(ticket, command)
        place = {"parent": ticket.parent, "place": ticket.place, "how": ticket.how}
        facts = {**place, "command": command, "cwd": _working_folder()}
        agent = ProcessAgent(name, facts, store=ticket.store, namespace=ticket.namespace)
        found = _RunFinder(ticket, session, agent, command, name).find()
        found.live.secrets.learn((), command)
        current = ProcessRun(
            found.live, session, mode=ticket.mode, strict=ticket.strict, agent=agent, ticket=ticket, name=agent.name
        )
        current.recorded_status = found.recorded_status
        process_run.set_current(current)
        current.enter(forked)
    except Exception as error:
        process_run.set_current(None)
        CURRENT.strand = None
        _report_failed_begin(ticket, session, error)
        return None
    install_interceptors()
    current.watch_for_recorded_end(found.seconds_after)
    return current


def _report_failed_begin(ticket: Ticket, session: Session, error: Exception) -> None:
    """Report why the run could not begin. Exit the process unless it may continue without a record."""
    known = error if isinstance(error, OnrecordError) else OnrecordError(f"{type(error).__name__}: {error}"[:200])
    continues = ticket.mode == "record" and not ticket.strict
    state: Any = "unrecorded" if continues else "stopped"
    message = f"a process of run {ticket.parent} could not begin its own run: {known.message}"
    session.write(
        Report(
            run=f"{ticket.run()}-{os.getpid()}",
            parent=ticket.parent,
            state=state,
            code=known.code,
            message=message,
            hint=known.hint,
            exit_status=known.exit_status,
            pid=os.getpid(),
        )
    )
    if continues:
        guard.is_watching = False
        return
    print(f"onrecord: {message} [{known.code}]", file=sys.stderr, flush=True)
    os._exit(FAILED_ITSELF)


class StartedChild(NamedTuple):
    live: LiveRun
    recorded_status: int | None = None
    seconds_after: float = 0.0
    """Recorded time between its last event and its end."""


class _RunFinder:
    def __init__(self, ticket: Ticket, session: Session, agent: ProcessAgent, command: list[str], name: str) -> None:
        self._ticket = ticket
        self._session = session
        self._agent = agent
        self._command = command
        self._name = name
        self._store: Store = store_of(ticket.store, to_read=ticket.mode == "replay")

    def find(self) -> StartedChild:
        if self._ticket.mode == "record":
            return StartedChild(self._begin_new(range(MOST_BELOW if self._ticket.how in _SHARED_STARTS else 1)))
        known = list(self._recorded_runs())
        same = [run for run in known if self._is_recorded_command(run)]
        for run in [*same, *(run for run in known if run not in same)]:
            if self._take(run):
                return self._reopen(run)
        if self._ticket.how == "worker" and known and self._ticket.mode == "replay":
            return self._reopen(known[0])  # a pool may have more workers now, all alike
        if self._ticket.mode == "replay":
            raise Divergence(
                f"{self._name} is started where the record of run {self._ticket.parent} has no such process",
                code="unrecorded_process",
            )
        return StartedChild(self._begin_new(range(len(known), MOST_BELOW)))

    def _take(self, run: str) -> bool:
        return self._session.take(run, name=self._agent.name, parent=self._ticket.parent)

    def _begin_new(self, numbers: range) -> LiveRun:
        for number in numbers:
            run = self._ticket.run(number)
            if self._store.run_row(self._ticket.namespace, run) is None and self._take(run):
                with suppress(RunExists):
                    return LiveRun(
                        self._agent.create_run((), {}, run, self._store, self._ticket.link),
                        guard=self._agent.make_guard(),
                    )
        raise Refused(f"there are too many runs below {self._ticket.place}", code="run_exists")

    def _recorded_runs(self) -> Iterator[str]:
        for number in count() if self._ticket.how in _SHARED_STARTS else (0,):
            run = self._ticket.run(number)
            if self._store.run_row(self._ticket.namespace, run) is None:
                return
            yield run

    def _is_recorded_command(self, run: str) -> bool:
        reader = JournalReader(self._store, run, self._ticket.namespace)
        process = (reader.facts() or {}).get("process")
        command = load_secrets(reader).redact_value(self._command)
        return isinstance(process, dict) and process.get("command") == command

    def _reopen(self, run: str) -> StartedChild:
        ticket, store = self._ticket, self._store
        last = store.last_event(ticket.namespace, run)
        has_ended = last is not None and last.kind in TERMINAL_KINDS
        end = None if has_ended else ended_children(JournalReader(store, ticket.parent, ticket.namespace)).get(run)
        if ticket.mode == "resume" and not has_ended and end is None:
            live = self._take_over(run)
            if live is not None:
                return StartedChild(live)
        reader = JournalReader(store, run, ticket.namespace)
        live = LiveRun(reader, history=History(reader))
        if end is None or end.status >= 0:
            return StartedChild(live)
        since = reader.link(last).time if last is not None else reader.header_row.created
        return StartedChild(live, end.status, max(end.time_us - since, 0) / 1e6)

    def _take_over(self, run: str) -> LiveRun | None:
        """Take over the run, waiting while its holder is alive. Return None if it has ended."""
        until = monotonic() + BUSY_SECONDS
        while True:
            try:
                return self._agent.take_over(self._store, run, self._ticket.namespace)
            except Refused as refused:
                if refused.code != "run_busy" or monotonic() > until:
                    raise
            sleep(LOOK_SECONDS)


def _process_name(ticket: Ticket, command: list[str]) -> str:
    if ticket.how in ("job", "worker"):
        return f"{ticket.how} {command[0]}"
    if ticket.how in ("fork", "spawn"):
        return ticket.how
    words = [os.path.basename(word) for word in command[1:] if not word.startswith("-")]
    options = [word for word in command[1:2] if word in ("-c", "-m")]
    return " ".join([os.path.basename(command[0]), *options, *([] if "-c" in options else words[:1])])


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
