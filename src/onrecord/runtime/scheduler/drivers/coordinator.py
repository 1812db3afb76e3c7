"""The coordinator of one run: it asks the kernel what to do, and does it.

It holds the baton (which strand runs), commits, begins effects and delivers. It decides nothing; the one constant of
time, `GRACE_SECONDS`, decides what is recorded of a strand that reaches no act, and never what is replayed.
"""

from __future__ import annotations

import threading
from _thread import RLock
from collections.abc import Callable
from functools import partial
from time import monotonic, sleep
from typing import Any, Protocol, TypeVar

from onrecord.runtime.scheduler.drivers.strands import CURRENT, RunEnded, Strand, inside
from onrecord.runtime.scheduler.items import (
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

GRACE_SECONDS = 0.05
"""How long a strand may take to its next act before the others continue without it."""
CLOCK_START = 1_000.0
"""The value of `loop.time()` when a run begins. Any number does, if it is the same in every process."""

T = TypeVar("T")
Stop = Diverged | EffectsInDoubt | RecordOver


class Stopped(BaseException):
    """Raised into lanes of a run that was stopped. `reason` says why."""

    def __init__(self, reason: Stop) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Awaited(Protocol):
    """The driver's side of a token (`Token.detail`)."""

    def begin(self, token: Token) -> None:
        """Start the effect, or arm the timer. Called without the baton, with the run's lock held."""

    def stop(self, token: Token) -> None:
        """Tell the effect to end."""

    def deliver(self, value: Any, last: bool) -> None:
        """Give the value to the lane that waits. Called with the run's lock held."""


class ItemJournal(Protocol):
    def commit(self, items: list[Any], sync: bool) -> int:
        """Append the items. Return the time of the commit: microseconds of the run's clock, never less than before."""


class Coordinator:
    def __init__(self, kernel: Kernel, journal: ItemJournal) -> None:
        self.kernel = kernel
        self.lock = RLock()
        self.main = Strand(self, kernel.root)
        self.strands: list[Strand] = [self.main]
        self.running: Strand | None = None
        """The strand that has the baton."""
        self.has_ended = False
        self.stopped: Stop | None = None
        self.outlived: list[str] = []
        """Lanes of strands that were alive when the agent ended."""
        self.progress = 0
        self._journal = journal
        self._began = monotonic()
        self._numbers = 0
        self._steps = 0

    @property
    def is_over(self) -> bool:
        """The run has ended, or was stopped."""
        return self.has_ended or self.stopped is not None

    # The run's clock: it stands still between deliveries.

    def now_us(self) -> int:
        return int((monotonic() - self._began) * 1e6)

    def time(self) -> float:
        return CLOCK_START + self.kernel.time / 1e6

    def reach(self, when: float) -> None:
        """Move the clock at least to the deadline of a timer that was delivered."""
        self.kernel.time = max(self.kernel.time, int((when - CLOCK_START) * 1e6) + 1)

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    # What lanes do. Each of these is called with the lock held.

    def check(self) -> None:
        """Refuse every act of a run that has ended or was stopped."""
        if self.stopped is not None:
            raise Stopped(self.stopped)
        if self.has_ended:
            raise RunEnded(self.kernel.root)

    def ask(self, lane: str, call: Call, awaited: Awaited) -> Token:
        token = self._told(partial(self.kernel.ask, lane, call))
        token.detail = awaited
        return token

    def note(self, lane: str, digest: Any) -> None:
        self._told(partial(self.kernel.note, lane, digest))

    def checkpoint(self, lane: str, digest: Any) -> str:
        """Take a checkpoint. A run that starts there has taken no step and made one task, that of the root lane."""
        root = self._told(partial(self.kernel.checkpoint, lane, digest))
        self._steps, self._numbers = 0, 1
        return root

    def draw(self, lane: str, site: str, make: Callable[[], Any]) -> Any:
        return self._told(partial(self.kernel.draw, lane, site, make))

    def born(self, parent: str, label: str) -> str:
        return self._told(partial(self.kernel.born, parent, label))

    def listen(self, name: str, awaited: Awaited) -> Token:
        return self._told(partial(self.kernel.listen, name, awaited))

    def turn(self, lane: str, kind: str, awaited: Awaited) -> Token:
        return self._told(partial(self.kernel.turn, lane, kind, awaited))

    def _told(self, tell: Callable[[], T]) -> T:
        self.check()
        try:
            return tell()
        except Divergent as divergent:
            self.stop(divergent.diverged)
            raise Stopped(divergent.diverged) from None

    # Strands

    def new_strand(self, parent: str, label: str) -> Strand:
        strand = Strand(self, self.born(parent, label))
        self.strands.append(strand)
        return strand

    def end_strand(self, strand: Strand) -> None:
        """End the lane of a thread or a job. Called by the thread itself."""
        with self.lock:
            if self.is_over:
                CURRENT.strand = None
                self.outlived.append(strand.lane)
                return
            self.act(strand)
            strand.has_ended = True
            self.strands.remove(strand)
            self.kernel.ended(strand.lane)
            for call in strand.on_end:
                call()  # by this lane still: what it wakes is inside the program
            strand.on_end = []
            CURRENT.strand = None
            if self.running is strand:
                self.give_up()

    # The baton. Each of these is called with the lock held.

    def give_up(self) -> None:
        """Take the baton from the running strand and let the next one continue."""
        self.running = None
        self.advance()

    def advance(self) -> None:
        """Do what the kernel says until a strand runs or something must arrive."""
        while self.running is None and not self.has_ended and self.stopped is None:
            action = self.kernel.next()
            self.progress += 1
            if isinstance(action, Run):
                self._run(action.strand)
                return
            if isinstance(action, Wait | Done):
                return
            self.obey(action)

    def _run(self, strand: Strand) -> None:
        self.running = strand
        strand.since = monotonic()
        WATCHDOG.watch(self)
        if strand.loop is not None and not strand.is_blocked:
            strand.loop.start_pump(strand)
        else:
            strand.gate.release()

    def obey(self, action: Any) -> None:
        if isinstance(action, Commit):
            self.kernel.committed(self._journal.commit(action.items, action.sync))
        elif isinstance(action, Begin):
            for token in action.stop:
                token.detail.stop(token)
            for token in action.tokens:
                token.detail.begin(token)
        elif isinstance(action, Deliver):
            self._steps = 0
            action.token.detail.deliver(action.value, action.last)
        elif isinstance(action, Live):
            self._began = monotonic() - self.kernel.time / 1e6
        else:
            self.stop(action)

    def arrived(self, token: Token, value: Any = None, *, last: bool = True, is_written: bool = False) -> None:
        """Take something from outside and continue. Called by any thread."""
        with inside():
            if self.take(token, value, last=last, is_written=is_written):
                with self.lock:
                    self.advance()

    def take(self, token: Token, value: Any = None, *, last: bool = True, is_written: bool = False) -> bool:
        """Take something from outside. Return True if the run rests."""
        with self.lock:
            if self.is_over:
                return False
            self.kernel.arrived(token, value, last=last, time=self.now_us(), is_written=is_written)
            return self.running is None

    def wait(self, strand: Strand) -> None:
        """Wait for the baton. What the strand waits for is registered already. Called with the lock held once."""
        strand.is_blocked = True
        self.give_up()
        self.lock.release()
        try:
            while True:
                strand.gate.acquire()
                work, strand.work = strand.work, None
                if work is None:
                    break
                work()
        finally:
            self.lock.acquire()
        self._continue(strand)

    def act(self, strand: Strand, *, draws: bool = False) -> None:
        """Pass an act of a thread that others can see: a strand that was away waits for its turn."""
        self.check()
        token = self.kernel.act(strand.lane, draws=draws)
        if token is None:
            strand.since = monotonic()
            return
        while token is not None:
            token.detail = _Back(self.kernel, strand)
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
            self._continue(strand)
            token = None if draws else self.kernel.returned(strand.lane)

    def _continue(self, strand: Strand) -> None:
        strand.is_blocked = False
        strand.since = monotonic()
        self.check()

    def next_step(self) -> bool:
        """Ask the kernel after a step of a busy loop. Return False if the run was stopped."""
        self._steps += 1
        while (action := self.kernel.next(self._steps)) is not None:
            self.progress += 1
            if isinstance(action, Wait):  # a strand that is away is still to come
                self.lock.release()
                sleep(0.001)
                self.lock.acquire()
                continue
            self.obey(action)
            if self.stopped is not None:
                return False
        return True

    def check_running(self) -> bool:
        """Let the others continue if the running strand reaches no act. Return False if no strand runs."""
        with self.lock:
            strand = self.running
            if strand is None or self.has_ended or self.stopped is not None:
                return False
            is_running = not strand.is_blocked and not strand.is_away and (strand.loop is None or strand.is_pumping)
            if is_running and monotonic() - strand.since > GRACE_SECONDS and self.kernel.away(strand.lane):
                strand.is_away = True
                self.give_up()
            return True

    # The end

    def stop(self, reason: Stop) -> None:
        """Stop the run: nothing is committed any more, and each further act of a lane raises `Stopped`."""
        if self.stopped is None:
            self.stopped = reason
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
                self.stop(divergent.diverged)
                return
            while not isinstance(action := self.kernel.next(), Done):
                if isinstance(action, Diverged):
                    self.stop(action)
                    return
                assert isinstance(action, Commit)
                self._journal.commit(action.items, action.sync)
            self.has_ended = True
            self._release_all()

    def _release_all(self) -> None:
        for strand in self.strands:
            if strand.loop is not None:
                strand.loop.release(strand)
            is_released = strand is not self.main or self.stopped is not None
            if is_released and strand.is_blocked and strand.gate.locked():
                strand.gate.release()


class _Back:
    """The turn of a strand that was away."""

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
        self._runs: set[Coordinator] = set()
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, run: Coordinator) -> None:
        """Look at the run until it rests."""
        if run in self._runs:
            return
        self._runs.add(run)
        with inside():
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, name="onrecord-watchdog", daemon=True)
                self._thread.start()
            self._wanted.set()

    def _serve(self) -> None:
        CURRENT.depth = 1
        while True:
            self._wanted.wait()
            self._wanted.clear()
            while self._runs:
                sleep(GRACE_SECONDS / 2)
                for run in list(self._runs):
                    if not run.check_running():
                        self._runs.discard(run)
                        if run.running is not None:
                            self._runs.add(run)


WATCHDOG = Watchdog()
