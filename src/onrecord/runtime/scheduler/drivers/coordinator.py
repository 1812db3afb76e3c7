"""The coordinator of one run: it asks the kernel what to do, and does it.

It holds the baton (which strand runs), commits, begins effects and delivers. It decides nothing; the one constant of
time, `GRACE_SECONDS`, decides what is recorded of a strand that reaches no act, and never what is replayed.
"""

from __future__ import annotations

import threading
from _thread import RLock
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any, NoReturn, Protocol, TypeVar

from onrecord.errors import OnrecordError
from onrecord.runtime.scheduler.drivers.strands import CURRENT, RunEnded, RunStopped, Strand, inside
from onrecord.runtime.scheduler.items import (
    STEPS_BETWEEN_RESTS,
    Begin,
    Call,
    Commit,
    Deliver,
    Diverged,
    Divergent,
    Done,
    EffectsInDoubt,
    Live,
    RecordOver,
    Run,
    Token,
    Wait,
)
from onrecord.runtime.scheduler.kernel import Kernel
from onrecord.runtime.scheduler.record_side import MOST_FIRED

GRACE_SECONDS = 0.05
"""How long a strand may take to its next act before the others continue without it."""
PATIENCE_SECONDS = 10.0
"""How long a replay may make no progress before it is reported."""
CLOCK_START = 1_000.0
"""The value of `loop.time()` when a run begins. Any number does, if it is the same in every process."""

_NEVER_SECONDS = 1e12

T = TypeVar("T")
Stop = Diverged | EffectsInDoubt | RecordOver
Explain = Callable[[Stop], Any]


class Awaited(Protocol):
    """The driver's side of a token (`Token.detail`)."""

    def begin(self, token: Token) -> None:
        """Start the effect, or arm the timer. Called without the baton, with the run's lock held."""

    def stop(self, token: Token) -> None:
        """Tell the effect to end."""

    def deliver(self, value: Any, last: bool) -> None:
        """Give the value to the lane that waits. Called with the run's lock held."""


class AwaitedOutcome(Protocol):
    """An effect whose outcome a lane waits for."""

    token: Token
    outcome: Any


class ThreadWork(AwaitedOutcome, Protocol):
    """An effect that the calling thread executes."""

    def execute(self) -> tuple[Token, Any] | None:
        """Return the token and the outcome; None if the run was stopped."""


class ItemJournal(Protocol):
    def commit(self, items: list[Any], sync: bool) -> int:
        """Append the items. Return the time of the commit: microseconds of the run's clock, never less than before."""


class Coordinator:
    def __init__(
        self, kernel: Kernel, journal: ItemJournal, *, owner: Any = None, explain: Explain = lambda stop: stop
    ) -> None:
        """Coordinate a run. `owner` is the run itself, `explain` makes the reason of a stop of what the kernel says."""
        self.kernel = kernel
        self.owner = owner
        self.lock = RLock()
        self.main = Strand(self, kernel.root)
        self.strands: list[Strand] = [self.main]
        self.running: Strand | None = None
        """The strand that has the baton."""
        self.has_ended = False
        self.stopped: Any = None
        """Why the run was stopped."""
        self.outlived: dict[str, None] = {}
        """Lanes that acted after the agent had ended. Their acts were refused."""
        self.progress = 0
        self.on_stop: list[Callable[[], None]] = []
        self.redact_label: Callable[[str], str] = lambda label: label
        """Replaces secrets in a label: the names of lanes are in the chain, and cannot be erased."""
        self.on_silence: Callable[[], None] = lambda: None
        """Called once if a replay, or a resume in its history, makes no progress for `PATIENCE_SECONDS`."""
        self.on_interrupt: Callable[[BaseException], None] = lambda _: None
        """Called with what ends the process, such as `SystemExit`, when it leaves a loop of the run."""
        self._journal = journal
        self._explain = explain
        self._began = monotonic()
        self._numbers = 0
        self._steps = 0
        self._seen = (0, monotonic())
        """The progress that was seen last, and when."""
        self._is_silent = False
        self._polls = 0, 0
        """The progress at the last sleep of a lone thread, and how many such sleeps there were since."""

    @property
    def is_over(self) -> bool:
        """The run has ended, or was stopped."""
        return self.has_ended or self.stopped is not None

    @property
    def is_alone(self) -> bool:
        """True if there is one strand and nothing that it could wait for."""
        return len(self.strands) == 1 and not self.kernel.open

    # The run's clock: it stands still between deliveries.

    def now_us(self) -> int:
        return int((monotonic() - self._began) * 1e6)

    def time(self) -> float:
        return CLOCK_START + self.kernel.time / 1e6

    def reach(self, when: float) -> None:
        """Move the clock at least to the deadline of a timer that was delivered."""
        self.kernel.time = max(self.kernel.time, _clock_at(when))

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    # What lanes do. Each of these is called with the lock held.

    def check(self) -> None:
        """Refuse every act of a run that has ended or was stopped."""
        if self.stopped is not None:
            raise RunStopped(self.stopped)
        if self.has_ended:
            raise RunEnded(self.kernel.root)

    def ask(self, lane: str, call: Call, awaited: Awaited) -> Token:
        """Ask for an effect. The caller has checked that the run is not over."""
        main = self.main
        if main.adopted is not None:
            main.loop.advance_soon(self)  # no strand gives the baton up after this act
        try:
            token = self.kernel.ask(lane, call)
        except Exception as error:
            self._stop_by(error)
        token.detail = awaited
        return token

    def peek(self, lane: str) -> Any:
        """Return the next recorded act of the lane, if it has one."""
        return self._told(self.kernel.peek, lane)

    def expects(self, key: str) -> bool:
        """Return True if the history delivers that outcome next."""
        return self._told(self.kernel.expects, key)

    def note(self, lane: str, digest: Any) -> None:
        self._told(self.kernel.note, lane, digest)

    def checkpoint(self, lane: str, digest: Any) -> str:
        """Take a checkpoint and commit it. Return the name under which the root lane continues.

        A run that starts there has taken no step and made no task but that of the root lane.
        """
        root = self._told(self.kernel.checkpoint, lane, digest)
        self._steps, self._numbers = 0, 0 if self.main.loop is None else 1
        while self.stopped is None and (action := self.kernel.flush()) is not None:
            self.obey(action)
        self.check()
        return root

    def draw(self, lane: str, site: str, make: Callable[[], Any]) -> Any:
        return self._told(self.kernel.draw, lane, site, make)

    def born(self, parent: str, label: str) -> str:
        return self._told(self.kernel.born, parent, self.redact_label(label))

    def listen(self, name: str, awaited: Awaited) -> Token:
        return self._told(self.kernel.listen, name, awaited)

    def turn(self, lane: str, kind: str, awaited: Awaited, when: float = CLOCK_START) -> Token:
        """Wait for a turn. `when` is the deadline of a timer, as `time` shows it."""
        return self._told(self.kernel.turn, lane, kind, awaited, due=_clock_at(when))

    def _told(self, tell: Callable[..., T], *args: Any, **options: Any) -> T:
        self.check()
        if self.main.adopted is not None:
            self.main.loop.advance_soon(self)  # no strand gives the baton up after this act
        try:
            return tell(*args, **options)
        except Exception as error:
            self._stop_by(error)

    def _stop_by(self, error: Exception) -> NoReturn:
        """Stop the run because of a divergence, or of a record that cannot be read."""
        self.stop(self._explain(error.diverged) if isinstance(error, Divergent) else _as_reason(error))
        raise RunStopped(self.stopped) from None

    # Strands

    def start(self) -> None:
        """Give the baton to the main strand, which runs the agent from here."""
        self.running = self.main
        self.main.since = monotonic()
        WATCHDOG.watch(self)

    def new_strand(self, parent: str, label: str) -> Strand:
        strand = Strand(self, self.born(parent, label))
        self.strands.append(strand)
        return strand

    def end_strand(self, strand: Strand) -> None:
        """End the lane of a thread or a job. Called by the thread itself."""
        with self.lock:
            if self.is_over:
                CURRENT.strand = None
                return
            self.act(strand)
            self.end_lane(strand)
            CURRENT.strand = None
            if self.running is strand:
                self.give_up()

    def end_lane(self, strand: Strand) -> None:
        """End the lane of a strand, and the waits for its end. Called with the lock held, by a lane of the run."""
        strand.has_ended = True
        self.strands.remove(strand)
        self.kernel.ended(strand.lane)
        for call in strand.on_end:
            call()  # what it wakes is inside the program
        strand.on_end = []

    # The baton. Each of these is called with the lock held.

    def give_up(self) -> None:
        """Take the baton from the running strand and let the next one continue."""
        self.running = None
        self.advance()

    def advance(self) -> None:
        """Do what the kernel says until a strand runs or something must arrive."""
        while self.running is None and not self.has_ended and self.stopped is None and self._do(self._next()):
            pass

    def _do(self, action: Any) -> bool:
        """Do what the kernel says at rest. Return False if nothing more is to be done."""
        self.progress += 1
        if type(action) is Run:
            self._run(action.strand)
            strand: Strand = action.strand
            if strand.loop is not None and not strand.is_blocked:
                strand.loop.start_pump(strand)
            else:
                strand.gate.release()
            return False
        if action is None or type(action) is Wait or type(action) is Done:
            return False
        self.obey(action)
        return True

    def _run(self, strand: Strand) -> None:
        """Give the baton to the strand."""
        self.running = strand
        strand.since = monotonic()
        if self not in WATCHDOG.runs:
            WATCHDOG.watch(self)

    def _next(self, steps: int | None = None) -> Any:
        try:
            return self.kernel.next(steps)
        except Exception as error:  # the record cannot be read
            self.stop(_as_reason(error))
            return None

    def obey(self, action: Any) -> None:
        kind = type(action)
        if kind is Deliver:
            self._steps = 0
            action.token.detail.deliver(action.value, action.last)
        elif kind is Commit:
            self.kernel.committed(self._journal.commit(action.items, action.sync))
        elif kind is Begin:
            for token in action.stop:
                token.detail.stop(token)
            for token in action.tokens:
                token.detail.begin(token)
        elif kind is Live:
            self._began = monotonic() - self.kernel.time / 1e6
        else:
            self.stop(self._explain(action))

    def arrived(self, token: Token, value: Any = None, *, last: bool = True, is_written: bool = False) -> None:
        """Take something from outside and continue. Called by any thread."""
        CURRENT.depth += 1
        try:
            with self.lock:
                if self.take(token, value, last=last, is_written=is_written):
                    self.advance()
        finally:
            CURRENT.depth -= 1

    def take(self, token: Token, value: Any = None, *, last: bool = True, is_written: bool = False) -> bool:
        """Take something from outside. Return True if the run rests."""
        with self.lock:
            if self.stopped is not None or self.has_ended:
                return False
            self.kernel.arrived(token, value, last=last, time=self.now_us(), is_written=is_written)
            return self.running is None

    def wait(self, strand: Strand, effect: ThreadWork | None = None) -> None:
        """Wait for the baton. Called with the lock held once.

        What the strand waits for is registered already: `effect`, which its thread executes, or something else.
        """
        strand.is_blocked = True
        self.running = None
        if effect is None or not self._wait_alone(strand, effect):
            self._wait_at_gate(strand)
        strand.is_blocked = False
        strand.since = monotonic()
        if self.has_ended or self.stopped is not None:
            self.check()

    def _wait_alone(self, strand: Strand, effect: ThreadWork) -> bool:
        """Execute the effect here and take its outcome, as long as nothing else is to be done.

        Return False if anything else is: then the thread waits at its gate.
        """
        kernel, token = self.kernel, effect.token
        while self.running is None and self.stopped is None and not self.has_ended:
            try:
                action: Any = kernel.next()
            except Exception as error:  # the record cannot be read
                self.stop(_as_reason(error))
                return False
            kind = type(action)
            if kind is Commit:
                kernel.committed(self._journal.commit(action.items, action.sync))
            elif kind is Deliver and action.token is token and not kernel.ready:
                self.progress += 1
                self._steps = 0
                effect.outcome = action.value
                self._run(strand)
                return True
            elif kind is Begin and action.tokens == [token] and len(kernel.open) == 1 and not action.stop:
                self.lock.release()
                try:
                    arrived = effect.execute()
                finally:
                    self.lock.acquire()
                if arrived is None:
                    return False
                kernel.arrived(*arrived)
            elif not self._do(action):
                return False
        return False

    def deliver_here(self, strand: Strand, effect: AwaitedOutcome) -> bool:
        """Deliver a recorded outcome to the lane that has just asked, in a loop that has nothing else to do.

        The counters are those of a loop that rests and is woken. Return False if the lane has to wait: for something
        else, or to let the real loop have a round.
        """
        strand.rests += 1
        if strand.callbacks or not strand.is_pumping or strand.rests >= STEPS_BETWEEN_RESTS:
            return False
        try:
            # The end of this callback, and the one that would have woken the lane.
            action = self.kernel.deliver_due(effect.token, strand.lane, acts=2)
        except Exception as error:
            self._stop_by(error)
        if action is None:
            return False
        self.progress += 1
        self._steps, strand.taken = 1, 2
        strand.since = monotonic()
        effect.outcome = action.value
        return True

    def _wait_at_gate(self, strand: Strand) -> None:
        self.advance()
        while True:
            self.lock.release()
            try:
                strand.gate.acquire()
                work, strand.work = strand.work, None
                arrived = None if work is None else work()
            finally:
                self.lock.acquire()
            if work is None:
                return
            if arrived is not None:
                self.kernel.arrived(*arrived)
                self.advance()

    def act(self, strand: Strand, *, draws: bool = False) -> None:
        """Pass an act of a thread that others can see: a strand that was away waits for its turn."""
        if self.has_ended or self.stopped is not None:
            if self.has_ended:
                self.outlived[strand.lane] = None
            self.check()
        token = self.kernel.act(strand.lane, draws=draws)
        if token is None:
            strand.since = monotonic()
            return
        while token is not None:
            token.detail = WakeUp(self.kernel, strand)
            if strand.is_away:
                strand.is_away = False
            else:
                self.running = None
            strand.is_blocked = True
            if self.running is None:
                self.advance()
            self.lock.release()
            strand.gate.acquire()
            self.lock.acquire()
            strand.is_blocked = False
            strand.since = monotonic()
            self.check()
            token = None if draws else self.kernel.returned(strand.lane)

    def next_step(self) -> bool:
        """Ask the kernel after a step of a busy loop. Return False if the run was stopped."""
        self._steps += 1
        while (action := self._next(self._steps)) is not None:
            self.progress += 1
            if isinstance(action, Wait):  # a strand that is away is still to come
                self.lock.release()
                sleep(0.001)
                self.lock.acquire()
                continue
            self.obey(action)
            if self.stopped is not None:
                return False
        return self.stopped is None

    def check_running(self) -> bool:
        """Let the others continue if the running strand reaches no act. Return False if there is nothing to watch."""
        with self.lock:
            strand = self.running
            if self.is_over:
                return False
            if not self.kernel.live:
                self._check_progress()
            if strand is None:
                return not self.kernel.live  # what the history delivers next may have to come from outside
            is_running = not strand.is_blocked and not strand.is_away and (strand.loop is None or strand.is_pumping)
            is_running = is_running and not strand.is_left and len(self.strands) > 1  # others could continue
            if is_running and monotonic() - strand.since > GRACE_SECONDS and self.kernel.away(strand.lane):
                strand.is_away = True
                self.give_up()
            return True

    def _check_progress(self) -> None:
        """Report a replay that makes no progress. It has diverged if no strand runs and none is away."""
        progress, since = self._seen
        if progress != self.progress or self.main.is_left:
            self._seen, self._is_silent = (self.progress, monotonic()), False
            return
        if monotonic() - since < PATIENCE_SECONDS:
            return
        if not self._is_silent:
            self._is_silent = True
            self.on_silence()
        if self.running is None and not any(strand.is_away for strand in self.strands):
            diverged = self.kernel.stuck()
            if diverged is not None:
                self.stop(self._explain(diverged))
            else:
                self.advance()

    def count_poll(self) -> None:
        """Count a sleep of a lone thread that follows its record. A program that only sleeps has diverged."""
        progress, count = self._polls
        count = count + 1 if progress == self.progress else 1
        self._polls = self.progress, count
        if count > MOST_FIRED and (diverged := self.kernel.stuck()) is not None:
            self.stop(self._explain(diverged))
            self.check()

    # The end

    def stop(self, reason: Any) -> None:
        """Stop the run: nothing is committed any more, and each further act of a lane raises `RunStopped`."""
        if self.stopped is None and not self.has_ended:
            self.stopped = reason
            for call in self.on_stop:
                call()
            for token in (*self.kernel.open, *self.kernel.listening):
                if token.begun:
                    token.detail.stop(token)
            self._release_all()

    def finish(self, digest: Any) -> None:
        """End the run: the agent has returned or failed."""
        with self.lock:
            try:
                self.kernel.finish(digest)
            except Divergent as divergent:
                self.stop(self._explain(divergent.diverged))
                return
            except Exception as error:
                self.stop(_as_reason(error))
                return
            while self.stopped is None and not isinstance(action := self._next(), Done):
                self.obey(action)
            if self.stopped is None:
                self.has_ended = True
                self._release_all()

    def _release_all(self) -> None:
        WATCHDOG.forget(self)
        for strand in self.strands:
            if strand.loop is not None:
                strand.loop.release(strand)
            is_released = strand is not self.main or self.stopped is not None
            if is_released and strand.is_blocked and strand.gate.locked():
                strand.gate.release()


def _clock_at(when: float) -> int:
    """Return the first microsecond of the run's clock at which a timer is over."""
    seconds = when - CLOCK_START
    return int(seconds * 1e6) + 1 if seconds < _NEVER_SECONDS else int(_NEVER_SECONDS * 1e6)


def _as_reason(error: Exception) -> OnrecordError:
    """Return the reason of a stop. An error of the scheduler or the store is never one of the agent."""
    if isinstance(error, OnrecordError):
        return error
    reason = OnrecordError(f"the run cannot continue: {type(error).__name__}: {error}", code="internal")
    reason.__cause__ = error
    return reason


class WakeUp:
    """A turn that wakes a strand: one that was away, or that waits for the next rest."""

    def __init__(self, kernel: Kernel, strand: Strand) -> None:
        self._kernel = kernel
        self._strand = strand

    def begin(self, token: Token) -> None: ...

    def stop(self, token: Token) -> None: ...

    def deliver(self, value: Any, last: bool) -> None:
        self._kernel.wake(self._strand)


class Watchdog:
    """Find strands that reach no act, in one thread for all runs. It sleeps while no strand runs."""

    def __init__(self) -> None:
        self.runs: set[Coordinator] = set()
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, run: Coordinator) -> None:
        """Look at the run until it rests."""
        if run in self.runs:
            return
        self.runs.add(run)
        with inside():
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, name="onrecord-watchdog", daemon=True)
                self._thread.start()
            self._wanted.set()

    def forget(self, run: Coordinator) -> None:
        self.runs.discard(run)

    def _serve(self) -> None:
        CURRENT.depth = 1
        while True:
            self._wanted.wait()
            self._wanted.clear()
            while self.runs:
                sleep(GRACE_SECONDS / 2)
                self._look()

    def _look(self) -> None:
        """Look at each run. The thread's own frame keeps none of them alive."""
        for run in list(self.runs):
            self._look_at(run)

    def _look_at(self, run: Coordinator) -> None:
        if not run.check_running():
            self.runs.discard(run)
            if run.running is not None and not run.is_over:  # it has begun to run meanwhile
                self.runs.add(run)


WATCHDOG = Watchdog()
