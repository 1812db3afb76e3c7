"""The run of this process: begun before the program's first line, ended when the process ends.

The program's own Python carries it: nothing of ours is on its stack. So its end is learned from what a process does
when it ends (`ending`), and `finish` may be called by more than one of them: the first has the word.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

import msgspec

from reenact.capture.guard import guard
from reenact.capture.processes.session import Report, Session
from reenact.capture.processes.starting import Started, Starts
from reenact.capture.processes.tickets import Mode, Ticket
from reenact.core.events import Completed, Failed
from reenact.effect import boundary, threads, traps
from reenact.effect.agents import Agent
from reenact.effect.boundary import replays
from reenact.effect.earlier import Carrier
from reenact.effect.keeping import keeper
from reenact.effect.lanes import Lane
from reenact.effect.live_run import LiveRun
from reenact.effect.places import HERE, PLACE
from reenact.effect.policy import Budget, Guard, Policy
from reenact.effect.running import end_run
from reenact.effect.stopping import RecordEnded, RunStopped
from reenact.errors import ReenactError

LOOK_SECONDS = 0.2
GRACE_SECONDS = 2.0
"""How much later than it was recorded a process ends that was killed by somebody who is not there in a replay."""


class ProcessAgent(Agent[..., Any]):
    """What carries the run of a process that a program started. It is never called: the process is its function."""

    redacts_by_default = True

    def __init__(self, name: str, about: dict[str, Any], **options: Any) -> None:
        super().__init__(_process, name=f"process {name}", policy=Policy(budget=Budget()), **options)
        self._about = about
        self.spending: Guard | None = None

    def guard(self, above: Guard | None = None) -> Guard | None:
        self.spending = super().guard(above)
        return self.spending

    def code(self) -> dict[str, str]:
        return {"function": self.name, "digest": ""}

    def own_facts(self) -> dict[str, Any]:
        return {**super().own_facts(), "process": self._about}


def _process() -> None: ...


class OwnRun:
    """The run that the code of this process is in."""

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
        """As far as it is known here: `SystemExit` tells it to nobody but the system."""
        self.conclude: Callable[[int, ReenactError | None], int] | None = None
        """Of the process that has the last word: says it, and gives the exit status."""
        self.recorded_status: int | None = None
        """Of a process that was killed when it was recorded: how it ended."""

    @property
    def is_replay(self) -> bool:
        return self.live is not None and self.live.journal is None

    # Beginning

    def carry_here(self, lane: Lane | None = None) -> None:
        """The code that runs here is in the run from now on. A lane that was forked becomes the run's first one."""
        live = self.live
        assert live is not None
        threads.install()
        PLACE.set(None)
        if live.journal is not None and self.agent is not None:
            keeper.keep(live, self.agent.lease_seconds)
        if live.secrets.redacts and self.agent is not None and self.agent.redaction is not None:
            live.secrets.know(self.agent.redaction.values, [sys.argv])
        if lane is not None and live.main is live.root:
            lane.__init__(live, None)  # type: ignore[misc]
            live.root = live.main = lane
            live.book.tie_root(lane)
        PLACE.set(live.main)
        HERE.token = None
        live.carrier = Carrier.here()
        live.cancelling.on(live.cancelling.at_next_effect, looped=False)
        if live.touches_nothing:
            traps.guarded(live, _process, is_async=False, strict=False)()  # sets the traps, which stay
            replays[threading.get_ident()] = live
            boundary.strict_outside = True  # whatever is in no run at all is not done either
        else:
            replays.pop(threading.get_ident(), None)
            guard.watch(strict=self.strict)

    # The end

    def finish(self, code: int | None, error: BaseException | None = None) -> int:
        """Ends the run, tells what became of it, and gives the status that the process is to end with."""
        if self.is_over or os.getpid() != self.pid or self.live is None:
            return code or 0
        self.is_over = True
        problem = self._end(code, error)
        self._let_go()
        self.tell(problem)
        if isinstance(problem, RecordEnded):
            self.end_as_recorded()
        if self.conclude is not None:
            return self.conclude(code or 0, problem)
        return code or 0 if problem is None or isinstance(problem, RecordEnded) else problem.exit_status or 1

    def becomes(self, one: Started) -> Ticket:
        """This process is about to become another program: its run ends here. Whoever has the last word hands it on."""
        assert self.live is not None
        ticket, conclude, self.conclude = one.ticket, self.conclude, None
        if conclude is not None and one.is_expected:
            ticket = msgspec.structs.replace(ticket, concludes=self.live.name)
        problem = self.finish(0)
        if conclude is not None and not one.is_expected:
            self.session.tell(Report(run=ticket.run(), state="unrecorded", holes=((one.what, one.where, 1),)))
            conclude(problem, None)
        return ticket

    def _end(self, code: int | None, error: BaseException | None) -> ReenactError | None:
        """What stopped it; None: it has ended."""
        live = self.live
        assert live is not None
        token = PLACE.set(None)
        try:
            if live.stopped is not None:
                return live.stopped
            if error is not None and not isinstance(error, (Exception, SystemExit)):
                live.interrupt(error)
                return live.stopped
            end_run(live, Failed(error) if isinstance(error, Exception) else Completed({"exit": code}))
        except ReenactError as stopped:
            return stopped
        except RunStopped as stopped:
            return stopped.reason
        except Exception as trouble:  # ours, never the program's
            return ReenactError(f"run {live.name} could not be ended: {type(trouble).__name__}", code="internal")
        finally:
            PLACE.reset(token)
        return None

    def _let_go(self) -> None:
        live = self.live
        if live is None or live.journal is None or live.was_let_go:
            return
        live.was_let_go = True
        keeper.let_go(live)
        try:
            live.journal.release()
        except ReenactError:
            return  # the lease ends by itself
        finally:
            keeper.give_back(live.journal)

    def tell(self, problem: ReenactError | None) -> None:
        assert self.live is not None
        spent = self.agent.spending.spent() if self.agent is not None and self.agent.spending is not None else {}
        self.note_unseen()
        ended = "record_ended" if isinstance(problem, RecordEnded) else "stopped" if problem is not None else "ended"
        self.session.tell(
            Report(
                run=self.live.name,
                name=self.name,
                parent=self.ticket.parent if self.ticket is not None else "",
                state=ended,  # type: ignore[arg-type]
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
        guard.holes.clear()  # told once: a worker has one run after the other

    def note_unseen(self) -> None:
        """Whatever was started and has begun no run was seen by nobody."""
        if self.live is None or self.live.journal is None:
            return
        unasked, self.starts.unasked = self.starts.unasked, []
        for one in unasked:
            report = self.session.report(one.ticket.run())
            if one.is_expected:
                is_seen = report is not None or one.status is None  # it may be about to begin
            else:
                is_seen = report is not None and (one.is_command or report.pid == one.pid)
            if not is_seen:
                guard.note(one.what, one.where)

    # Ending as it was recorded

    def watch_for_recorded_end(self, seconds: float) -> None:
        """In a replay nobody is there who killed it: it ends by the same signal once its record is used up, not
        earlier than it did."""
        if self.recorded_status is None or self.live is None:
            return
        self.live.on_stop.append(self._end_where_the_record_does)
        token = PLACE.set(None)
        threading.Thread(target=self._wait_for_recorded_end, args=(seconds,), daemon=True, name="reenact-end").start()
        PLACE.reset(token)

    def _end_where_the_record_does(self) -> None:
        """At once: the program may catch whatever it would be told by."""
        if self.live is not None and isinstance(self.live.stopped, RecordEnded):
            self.end_as_recorded()

    def _wait_for_recorded_end(self, seconds: float) -> None:
        live, since = self.live, monotonic()
        assert live is not None
        while not self.is_over:
            sleep(LOOK_SECONDS)
            if live.past is not None and live.past.unmade:
                since = monotonic()
            elif monotonic() - since > seconds + GRACE_SECONDS:
                self.end_as_recorded()
                return

    def end_as_recorded(self) -> None:
        """Never returns where the record says that a signal ended it."""
        if self.recorded_status is None:
            return
        if not self.is_over:
            self.is_over = True
            self.tell(RecordEnded("", code="record_ended"))
        flush()
        number = -self.recorded_status
        if number != signal.SIGKILL and threading.current_thread() is threading.main_thread():
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        sleep(LOOK_SECONDS)
        os._exit(128 + number)


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue


own: OwnRun | None = None
"""That of this process."""


def set_own(run: OwnRun | None) -> None:
    global own
    own = run
