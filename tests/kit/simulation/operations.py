"""What lanes do: each operation tells the kernel, and returns a value or `PENDING`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from onrecord.runtime.scheduler.items import Call, Token

if TYPE_CHECKING:
    from kit.simulation.strands import Lane, Strands

Steps = Generator[Any, Any, Any]


class Pending:
    """The lane waits."""


PENDING = Pending()


class EffectError(Exception):
    """An effect, or a branch of the program, failed."""


class Stopped(Exception):
    """The task was cancelled."""


class StreamCut(Exception):
    """The process died in the middle of the stream."""


LANE_ERRORS = (EffectError, Stopped, StreamCut)


class Lock:
    def __init__(self) -> None:
        self.owner: Lane | None = None
        self.waiters: deque[Lane] = deque()


class Mailbox:
    """A queue, or a condition if nothing is put into it: lanes wait in order, each with a timer or None."""

    def __init__(self) -> None:
        self.values: deque[Any] = deque()
        self.waiters: deque[tuple[Lane, Token | None]] = deque()


class Ask(NamedTuple):
    """Wait for an effect. `blocks` stops the loop's thread until the outcome is delivered."""

    name: str
    digest: Any
    once: bool = False
    key: str | None = None
    blocks: bool = False

    def do(self, strands: Strands, lane: Lane) -> Any:
        token = strands.kernel.ask(lane.name, Call(self.name, self.digest, self.once, self.key))
        strands.handlers[token] = partial(strands.resume_with_outcome, lane)
        if self.blocks:
            strands.block(lane)

        def give_up() -> bool:
            strands.cancel_effect(token)
            return False  # the outcome is still waited for

        lane.give_up = give_up
        if not self.blocks:
            strands.deliver_here(lane, token)
        return PENDING


class Reader:
    """A stream that a lane reads. What is delivered before it is wanted waits here."""

    def __init__(self, token: Token) -> None:
        self.token = token
        self.waiting: deque[tuple[Any, bool]] = deque()
        self.lane: Lane | None = None

    def __repr__(self) -> str:
        return self.token.key


class Open(NamedTuple):
    digest: Any

    def do(self, strands: Strands, lane: Lane) -> Any:
        reader = Reader(strands.kernel.ask(lane.name, Call("stream", self.digest)))

        def take(value: Any, last: bool) -> None:
            if reader.lane is None:
                reader.waiting.append((value, last))
            else:
                waiting, reader.lane = reader.lane, None
                strands.resume_with_chunk(waiting, value, last)

        strands.handlers[reader.token] = take
        return reader


class Pull(NamedTuple):
    """Wait for the next chunk of a stream."""

    reader: Reader

    def do(self, strands: Strands, lane: Lane) -> Any:
        reader = self.reader
        if reader.waiting:
            strands.resume_with_chunk(lane, *reader.waiting.popleft())
            return PENDING
        reader.lane = lane
        strands.outside.want_chunk(reader.token)

        def give_up() -> bool:
            reader.lane = None
            return True

        lane.give_up = give_up
        return PENDING


class Drop(NamedTuple):
    reader: Reader

    def do(self, strands: Strands, lane: Lane) -> Any:
        strands.kernel.drop(self.reader.token)


class Sleep(NamedTuple):
    delay: int
    kind: str = "timer"

    def do(self, strands: Strands, lane: Lane) -> Any:
        due = strands.kernel.time + self.delay
        token = strands.kernel.turn(lane.name, self.kind, self.delay, due=due)
        strands.handlers[token] = lambda value, last: strands.resume(lane, strands.kernel.time)

        def give_up() -> bool:
            strands.kernel.cancel(token)
            return True

        lane.give_up = give_up
        return PENDING


class Yield(NamedTuple):
    """Let the other callbacks of the loop run."""

    def do(self, strands: Strands, lane: Lane) -> Any:
        strands.resume(lane)
        return PENDING


class Pass(NamedTuple):
    """Do something that others can see, and that the kernel has no name for."""

    def do(self, strands: Strands, lane: Lane) -> Any:
        return None


class Compute(NamedTuple):
    """Reach no act for a while. The strands itself looks for it, so it has no `do`."""


class Draw(NamedTuple):
    site: str

    def do(self, strands: Strands, lane: Lane) -> Any:
        return strands.kernel.draw(lane.name, self.site, lambda: int(strands.outside.rng.random() * 1_000_000))


class Note(NamedTuple):
    digest: Any

    def do(self, strands: Strands, lane: Lane) -> Any:
        strands.kernel.note(lane.name, self.digest)


class TakeCheckpoint(NamedTuple):
    """Take a checkpoint, unless something else is going on, or the lane is to be cancelled."""

    digest: Any

    def do(self, strands: Strands, lane: Lane) -> Any:
        if not strands.kernel.is_alone or lane.must_stop:
            return None
        lane.name = strands.kernel.checkpoint(lane.name, self.digest)
        strands.steps = strands.steps_in_turn = 1  # that of the start
        return lane.name


class Spawn(NamedTuple):
    """Start a lane: a `task`, a `thread`, a `job` of the pool, or the kind of its parent (`same`)."""

    body: Callable[[], Steps]
    label: str
    kind: str = "task"
    pool: int = 0
    workers: int = 1

    def do(self, strands: Strands, lane: Lane) -> Any:
        name = strands.kernel.born(lane.name, self.label)
        in_loop = lane.in_loop if self.kind == "same" else self.kind == "task"
        return strands.start_lane(name, self.body(), in_loop, (self.pool, self.workers) if self.kind == "job" else None)


class Join(NamedTuple):
    """Wait for the end of a lane. `blocks` stops the loop's thread meanwhile."""

    lane: Lane
    blocks: bool = False

    def do(self, strands: Strands, lane: Lane) -> Any:
        if self.lane.done:
            if self.lane.error is not None:
                raise self.lane.error
            return self.lane.result

        def watch(ended: Lane) -> None:
            strands.resume(lane, ended.result, ended.error)

        return _watch(strands, lane, [self.lane], watch, self.blocks)


class JoinAny(NamedTuple):
    """Wait until one of the lanes has ended. The caller looks which when it runs, as `asyncio.wait` does."""

    lanes: list[Lane]

    def do(self, strands: Strands, lane: Lane) -> Any:
        if any(one.done for one in self.lanes):
            return None

        def watch(ended: Lane) -> None:
            for one in self.lanes:
                if one is not ended and not one.done:
                    one.watchers.remove(watch)
            strands.resume(lane)

        return _watch(strands, lane, self.lanes, watch)


def _watch(strands: Strands, lane: Lane, lanes: list[Lane], watch: Callable[[Lane], None], blocks: bool = False) -> Any:
    for one in lanes:
        one.watchers.append(watch)
    if blocks:
        strands.block(lane)

    def give_up() -> bool:
        for one in lanes:
            one.watchers.remove(watch)
        return True

    lane.give_up = give_up
    return PENDING


class Cancel(NamedTuple):
    lane: Lane

    def do(self, strands: Strands, lane: Lane) -> Any:
        strands.cancel_lane(self.lane)


class Acquire(NamedTuple):
    lock: Lock

    def do(self, strands: Strands, lane: Lane) -> Any:
        lock = self.lock
        if lock.owner is None:
            lock.owner = lane
            return None
        lock.waiters.append(lane)

        def give_up() -> bool:
            lock.waiters.remove(lane)
            return True

        lane.give_up = give_up
        return PENDING


class Release(NamedTuple):
    """Hand the lock to its first waiter."""

    lock: Lock

    def do(self, strands: Strands, lane: Lane) -> Any:
        lock = self.lock
        if lock.owner is lane:
            lock.owner = lock.waiters.popleft() if lock.waiters else None
            if lock.owner is not None:
                strands.resume(lock.owner)


class Put(NamedTuple):
    """Put a value into the mailbox, for its first waiter if there is one."""

    mailbox: Mailbox
    value: Any

    def do(self, strands: Strands, lane: Lane) -> Any:
        if self.mailbox.waiters:
            _wake_first(strands, self.mailbox, self.value)
        else:
            self.mailbox.values.append(self.value)


class Notify(NamedTuple):
    mailbox: Mailbox
    count: int

    def do(self, strands: Strands, lane: Lane) -> Any:
        for _ in range(min(self.count, len(self.mailbox.waiters))):
            _wake_first(strands, self.mailbox, "notified")


def _wake_first(strands: Strands, mailbox: Mailbox, value: Any) -> None:
    waiter, timer = mailbox.waiters.popleft()
    if timer is not None:
        strands.kernel.cancel(timer)
    strands.resume(waiter, value)


class Get(NamedTuple):
    """Wait for a value of the mailbox, or for the time-out."""

    mailbox: Mailbox
    timeout: int | None = None

    def do(self, strands: Strands, lane: Lane) -> Any:
        mailbox = self.mailbox
        if mailbox.values:
            return mailbox.values.popleft()
        timer = None
        if self.timeout is not None:
            due = strands.kernel.time + self.timeout
            timer = strands.kernel.turn(lane.name, "timer", self.timeout, due=due)
            strands.handlers[timer] = lambda value, last: late()
        waiter = lane, timer
        mailbox.waiters.append(waiter)

        def late() -> None:
            mailbox.waiters.remove(waiter)
            strands.resume(lane, "late")

        def give_up() -> bool:
            mailbox.waiters.remove(waiter)
            if timer is not None:
                strands.kernel.cancel(timer)
            return True

        lane.give_up = give_up
        return PENDING
