"""A new process begins its run: the one that its ticket names, anew, from where it stands, or from its record alone.

In a replay nothing runs that is not on record, so a process that cannot begin there ends. While recording it goes on
without a record, unless that is not allowed, and whoever started it names it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from time import monotonic, sleep
from typing import Any, NamedTuple

from reenact.capture.equipment import equip
from reenact.capture.guard import guard
from reenact.capture.processes import ending, own_run
from reenact.capture.processes.family import ended_children
from reenact.capture.processes.own_run import OwnRun, ProcessAgent
from reenact.capture.processes.session import Report, Session
from reenact.capture.processes.tickets import VARIABLE, Ticket, ticket_of, without_ticket
from reenact.capture.terms import VARIABLE as ENTRY
from reenact.core.events import TERMINAL_KINDS
from reenact.effect.lanes import Lane
from reenact.effect.live_run import LiveRun
from reenact.effect.open_stores import store_of
from reenact.effect.past import Past
from reenact.effect.places import PLACE
from reenact.effect.secrets import secrets_of
from reenact.effect.stopping import Divergence
from reenact.errors import ReenactError, Refused, RunExists
from reenact.journal.reader import JournalReader
from reenact.store.contract import Store

FAILED_ITSELF = 125
MOST_BELOW = 10_000
"""Pythons below one command."""
BUSY_SECONDS = 30.0
"""How long a process that comes back waits for the one before it, which has outlived its parent."""
LOOK_SECONDS = 0.1
_MANY = ("start", "worker")
"""Places below which more than one run may begin."""


def arrive(hook: str) -> None:
    """Called by the start hook of a fresh interpreter, before the program's first line."""
    told = os.environ.get(VARIABLE, "")
    without_ticket(os.environ, hook)
    if ENTRY in os.environ or _is_our_own():
        return
    try:
        ticket = ticket_of(told)
    except ValueError:
        return  # nobody of ours has said that
    begin(ticket, command=sys.orig_argv)


def _is_our_own() -> bool:
    """A command of ours records by itself."""
    names = [os.path.basename(word) for word in sys.orig_argv[1:4]]
    return any(name == "reenact" or name.startswith("reenact.") for name in names)


def begin(ticket: Ticket, *, command: list[str], lane: Lane | None = None) -> OwnRun | None:
    """The run of this process, which its code is in from now on. None: it is not recorded."""
    own = opened(ticket, command=command, lane=lane)
    if own is not None:
        ending.install()
        if ticket.concludes:
            from reenact.capture.concluding import conclude_for

            conclude_for(own, ticket)
    return own


def opened(ticket: Ticket, *, command: list[str], lane: Lane | None = None) -> OwnRun | None:
    """The run that a ticket names, which the code here is in from now on, until somebody says that it has ended."""
    session = Session(ticket.session)
    try:
        name = _name(ticket, command)
        place = {"parent": ticket.parent, "place": ticket.place, "how": ticket.how}
        about = {**place, "command": command, "cwd": _folder()}
        agent = ProcessAgent(name, about, store=ticket.store, namespace=ticket.namespace)
        found = _Finding(ticket, session, agent, command, name).found()
        found.live.secrets.know((), command)
        own = OwnRun(
            found.live,
            session,
            mode=ticket.mode,
            strict=ticket.strict,
            agent=agent,
            ticket=ticket,
            name=agent.name,
        )
        own.recorded_status = found.recorded_status
        own_run.set_own(own)
        own.carry_here(lane)
    except Exception as error:
        own_run.set_own(None)
        PLACE.set(None)
        _could_not_begin(ticket, session, error)
        return None
    equip()
    own.watch_for_recorded_end(found.seconds_after)
    return own


def _could_not_begin(ticket: Ticket, session: Session, error: Exception) -> None:
    """The program goes on without a record only where nothing that is on record could be done again."""
    known = error if isinstance(error, ReenactError) else ReenactError(f"{type(error).__name__}: {error}"[:200])
    goes_on = ticket.mode == "record" and not ticket.strict
    state: Any = "unrecorded" if goes_on else "stopped"
    said = f"a process of run {ticket.parent} could not begin its own: {known.message}"
    session.tell(
        Report(
            run=f"{ticket.run()}-{os.getpid()}",
            parent=ticket.parent,
            state=state,
            code=known.code,
            message=said,
            hint=known.hint,
            exit_status=known.exit_status,
            pid=os.getpid(),
        )
    )
    if goes_on:
        guard.is_watching = False
        return
    print(f"reenact: {said} [{known.code}]", file=sys.stderr, flush=True)
    os._exit(FAILED_ITSELF)


class Found(NamedTuple):
    live: LiveRun
    recorded_status: int | None = None
    seconds_after: float = 0.0
    """Between its last event and its end, when it was recorded."""


class _Finding:
    def __init__(self, ticket: Ticket, session: Session, agent: ProcessAgent, command: list[str], name: str) -> None:
        self._ticket = ticket
        self._session = session
        self._agent = agent
        self._command = command
        self._name = name
        self._store: Store = store_of(ticket.store, to_read=ticket.mode == "replay")

    def found(self) -> Found:
        if self._ticket.mode == "record":
            return Found(self._new(self._numbers()))
        known = list(self._known())
        same = [run for run in known if self._is_recorded_command(run)]
        for run in [*same, *(run for run in known if run not in same)]:
            if self._take(run):
                return self._again(run)
        if self._ticket.how == "worker" and known and self._ticket.mode == "replay":
            return self._again(known[0])  # a pool may have more workers now: each begins like the others
        if self._ticket.mode == "replay":
            raise Divergence(
                f"{self._name} is started where the record of run {self._ticket.parent} has no such process",
                code="unrecorded_process",
            )
        return Found(self._new(range(len(known), MOST_BELOW)))

    def _numbers(self) -> Iterator[int]:
        return iter(range(MOST_BELOW)) if self._ticket.how in _MANY else iter((0,))

    def _take(self, run: str) -> bool:
        return self._session.take(run, name=self._agent.name, parent=self._ticket.parent)

    def _new(self, numbers: Any) -> LiveRun:
        for number in numbers:
            run = self._ticket.run(number)
            if self._store.run_row(self._ticket.namespace, run) is None and self._take(run):
                with suppress(RunExists):
                    return LiveRun(
                        self._agent.begun((), {}, run, self._store, self._ticket.link), guard=self._agent.guard()
                    )
        raise Refused(f"there are too many runs below {self._ticket.place}", code="run_exists")

    def _known(self) -> Iterator[str]:
        for number in count() if self._ticket.how in _MANY else (0,):
            run = self._ticket.run(number)
            if self._store.run_row(self._ticket.namespace, run) is None:
                return
            yield run

    def _is_recorded_command(self, run: str) -> bool:
        reader = JournalReader(self._store, run, self._ticket.namespace)
        process = (reader.facts() or {}).get("process")
        command = secrets_of(reader).value_without(self._command)
        return isinstance(process, dict) and process.get("command") == command

    def _again(self, run: str) -> Found:
        ticket, store = self._ticket, self._store
        last = store.last_event(ticket.namespace, run)
        has_ended = last is not None and last.kind in TERMINAL_KINDS
        end = None if has_ended else ended_children(JournalReader(store, ticket.parent, ticket.namespace)).get(run)
        if ticket.mode == "resume" and not has_ended and end is None:
            live = self._taken_over(run)
            if live is not None:
                return Found(live)
        reader = JournalReader(store, run, ticket.namespace)
        live = LiveRun(reader, past=Past.read(reader))
        if end is None or end.status >= 0:
            return Found(live)
        since = reader.link(last).time if last is not None else reader.header_row.created
        return Found(live, end.status, max(end.time_us - since, 0) / 1e6)

    def _taken_over(self, run: str) -> LiveRun | None:
        """None: it has ended meanwhile."""
        until = monotonic() + BUSY_SECONDS
        while True:
            try:
                return self._agent.taken_over(self._store, run, self._ticket.namespace)
            except Refused as refused:
                if refused.code != "run_busy" or monotonic() > until:
                    raise
            sleep(LOOK_SECONDS)


def _name(ticket: Ticket, command: list[str]) -> str:
    if ticket.how in ("job", "worker"):
        return f"{ticket.how} {command[0]}"
    if ticket.how in ("fork", "spawn"):
        return ticket.how
    words = [os.path.basename(word) for word in command[1:] if not word.startswith("-")]
    options = [word for word in command[1:2] if word in ("-c", "-m")]
    return " ".join([os.path.basename(command[0]), *options, *([] if "-c" in options else words[:1])])


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
