"""A driver of the kernel for simulated programs: one event loop, threads, pools, and a journal in memory.

The driver does what the kernel says and checks each thing that must never happen: an effect begun too early or twice,
a commit in a replay, a program that makes no progress.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from kit.simulation.operations import (
    LANE_ERRORS,
    PENDING,
    Compute,
    Draw,
    EffectError,
    Reader,
    Steps,
    Stopped,
    StreamCut,
    Yield,
)
from kit.simulation.outside import Ledger, Outside, Raised, Wrong
from onrecord.runtime.scheduler.items import (
    STEPS_BETWEEN_RESTS,
    Action,
    Began,
    Begin,
    Cancelled,
    Chunk,
    Commit,
    Cut,
    Deliver,
    Diverged,
    Divergent,
    Done,
    Failed,
    InDoubt,
    Item,
    Live,
    Outcome,
    RecordOver,
    Requested,
    Run,
    Token,
    Turn,
    Wait,
    delivery_name,
)
from onrecord.runtime.scheduler.kernel import Kernel
from onrecord.runtime.scheduler.window import Digest, Window, digest_history

LOOP = "loop"
_PATIENCE_STEPS = 600
"""Steps of a busy program after which it is taken to spin for ever if nothing more can arrive."""
_REPLAY_PATIENCE_STEPS = 5_000
"""Steps of a busy program without a recorded delivery after which it is reported as stuck."""
_MOST_TURNS = 20_000
"""Actions and steps of one life. The longest programs need some hundreds."""


class Machine(NamedTuple):
    """The scheduler under test. A negative control changes one part."""

    kernel: type[Kernel] = Kernel
    window: type[Window] = Window
    digest: Callable[..., Digest] = digest_history


class Death(NamedTuple):
    """The process dies at its n-th commit. `how`: after it, before it, or by a power cut that loses what is unsynced."""

    commits: int
    how: str = "after"


class Verdict(NamedTuple):
    """How a life ended: done, dead, in doubt, over (of a record), diverged, or stuck (the program waits for itself)."""

    how: str
    detail: Any = None


class _Died(Exception):
    pass


class _Over(Exception):
    """The kernel ended the run while the loop was busy."""


class Journal:
    """The items that survive a death of the process."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self.items: list[Item] = list(items)
        self.requested = {item.key for item in self.items if type(item) is Requested}
        self.safe = 0
        """Observations on which nothing but committed items has an influence."""
        self._synced = len(self.items), 0

    def append(self, commit: Commit, observations: int) -> None:
        self.items.extend(commit.items)
        self.requested.update(item.key for item in commit.items if type(item) is Requested)
        if any(type(item) is not Chunk for item in commit.items):  # chunks alone may become void
            self.safe = observations
        if commit.sync:
            self.sync()

    def sync(self) -> None:
        self._synced = len(self.items), self.safe

    def lose_unsynced(self) -> None:
        length, self.safe = self._synced
        del self.items[length:]
        self.requested = {item.key for item in self.items if type(item) is Requested}


class Lane:
    def __init__(self, name: str, steps: Steps, in_loop: bool) -> None:
        self.name = name
        self.steps = steps
        self.in_loop = in_loop
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.operation: Any = None
        self.give_up: Callable[[], bool] | None = None
        """Ends the wait of a cancelled lane; returns False if the lane waits on. None if the lane does not wait."""
        self.must_stop = False
        """Cancelled while it did not wait."""
        self.watchers: list[Callable[[Lane], None]] = []
        self.resume: Callable[[], None] | None = None
        self.pool: _Pool | None = None
        self.start: Token | None = None
        """The turn of a job that no worker has taken."""

    def __repr__(self) -> str:
        return self.name


class _Pool:
    def __init__(self, workers: int) -> None:
        self.free = workers
        self.waiting: deque[Lane] = deque()


class Driver:
    """One life of a program."""

    def __init__(
        self,
        body: Steps,
        machine: Machine,
        history: list[Item],
        digest: Digest,
        outside: Outside,
        *,
        journal: Journal | None = None,
        death: Death | None = None,
    ) -> None:
        """Without a journal the life is a replay."""
        self.peak = 0
        self.history_length = len(history)
        self._given = 0
        self.kernel = machine.kernel(machine.window(self._give(history), digest), writable=journal is not None)
        self.rng: random.Random = outside.rng
        self.outside = outside
        outside.arrive = self._arrive
        self.ledger: Ledger = outside.ledger
        self.journal = journal
        self.handlers: dict[Token, Callable[[Any, bool], None]] = {}
        self.seen: list[tuple[str, str, Any]] = []
        """The observations of all lanes, in the order in which they were made."""
        self._death = death
        self._commits = 0
        self._turns = 0
        self._ready: deque[Callable[[], None]] = deque()
        self._blocked: Lane | None = None
        self._steps = 0
        self._pools: dict[int, _Pool] = {}
        self._unwritten: list[Token] = []
        self._cancelled: set[Token] = set()
        self._root = Lane(self.kernel.root, body, True)
        self.resume(self._root)

    def _give(self, history: list[Item]) -> Iterator[Item]:
        for item in history:
            self._given += 1
            self.peak = max(self.peak, self._given - self.kernel.history.position)
            yield item

    # The main loop

    def run(self) -> Verdict:
        try:
            return self._run()
        except _Died:
            if self._death is not None and self._death.how == "power":
                assert self.journal is not None
                self.journal.lose_unsynced()
            return Verdict("dead")
        except _Over as over:
            return self._verdict(over.args[0])

    def _run(self) -> Verdict:
        kernel, outside, chance = self.kernel, self.outside, self.rng.random
        while True:
            self._count_turn()
            if kernel.live and chance() < 0.1:
                outside.happen()  # while the program runs
            action = kernel.next()
            kind = type(action)
            if kind is Run:
                self._run_strand(action.strand)
            elif kind is Wait:
                if not outside.happen():
                    return Verdict("stuck")
                while chance() < 0.45 and outside.happen():
                    pass  # several things arrive at once
            elif kind in _VERDICTS:
                return self._verdict(action)
            else:
                self._obey(action)

    def _count_turn(self) -> None:
        self._turns += 1
        if self._turns > _MOST_TURNS:
            raise Wrong(f"no progress: {list(self.kernel.open)} open, the history is at {self.kernel.history.head()}")

    def _verdict(self, action: Action) -> Verdict:
        detail = {Diverged: action, InDoubt: getattr(action, "tokens", None), Done: self._root.result}
        return Verdict(_VERDICTS[type(action)], detail.get(type(action)))

    def _obey(self, action: Action) -> None:
        kind = type(action)
        if kind is Deliver:
            self._steps = 0
            if action.token in self._unwritten:
                self._unwritten.remove(action.token)
            self.handlers[action.token](action.value, action.last)
        elif kind is Commit:
            self._commit(action)
        elif kind is Begin:
            for token in action.stop:
                self.outside.stop(token, Cancelled())
            for token in action.tokens:
                self._begin(token)
        elif kind is not Live:
            raise Wrong(f"unknown action: {action}")

    def _begin(self, token: Token) -> None:
        if self.journal is None:
            raise Wrong(f"a replay executes: {token}")
        if len(self.seen) < self.journal.safe or self._given < self.history_length:
            raise Wrong(f"begun before the history is over: {token}")
        if token.call is not None:
            if token.key not in self.journal.requested:
                raise Wrong(f"begun before its request is committed: {token}")
            if token in self._cancelled:
                raise Wrong(f"begun after the program cancelled it: {token}")
        self.outside.begin(token)

    def _commit(self, commit: Commit) -> None:
        if self.journal is None:
            raise Wrong(f"a replay commits: {commit.items}")
        self._commits += 1
        dies = self._death is not None and self._commits >= self._death.commits
        if dies and self._death.how == "before":
            raise _Died
        self._check_batch(commit.items)
        self.journal.append(commit, len(self.seen))
        for item in commit.items:
            if type(item) is Outcome:
                self.ledger.acknowledge(item.key, item.value)
                if type(item.value) is Cut:
                    self._check_cut(item)
        if dies:
            raise _Died

    def _check_batch(self, items: list[Item]) -> None:
        """Check that a commit of an outcome holds everything that has arrived."""
        if any(type(item) is Outcome or type(item) is Chunk for item in items):
            written = {delivery_name(item) for item in items if type(item) in (Outcome, Chunk, Turn)}
            for token in self._unwritten:
                if not token.gone and token.name not in written:
                    raise Wrong(f"arrived, and not in the commit of the batch: {token}")
            self._unwritten.clear()

    def _check_cut(self, outcome: Outcome) -> None:
        assert self.journal is not None
        items = self.journal.items
        chunks = [place for place, item in enumerate(items) if type(item) is Chunk and item.key == outcome.key]
        began = max((place for place, item in enumerate(items) if item == Began(outcome.key)), default=-1)
        chunks = [place for place in chunks if place > began]
        others = [item for item in items[chunks[0] : self.history_length] if getattr(item, "key", "") != outcome.key]
        if not others:
            raise Wrong(f"cut though nothing was done after its chunks: {outcome.key}")

    # Strands

    def _run_strand(self, strand: Any) -> None:
        if strand is LOOP:
            self._run_loop()
        else:
            resume, strand.resume = strand.resume, None
            resume()

    def _run_loop(self) -> None:
        kernel, taken = self.kernel, 0
        while self._ready and self._blocked is None:
            if taken >= STEPS_BETWEEN_RESTS and kernel.has_ready:
                kernel.wake(LOOP)
                return
            taken += 1
            self._steps += 1
            self._ready.popleft()()
            if kernel.diverged is not None or kernel.done:
                return
            if self._ready and self._blocked is None:
                self._between_steps()

    def _between_steps(self) -> None:
        """Ask the kernel whether a busy loop is interrupted."""
        self._count_turn()
        kernel = self.kernel
        if self._steps > _PATIENCE_STEPS:
            if not kernel.live and self._steps > _REPLAY_PATIENCE_STEPS:
                raise _Over(kernel.stuck())
            if kernel.live and self.outside.is_still and not self._unwritten and not kernel.has_ready:
                raise _Over(Wait())
        while (action := kernel.next(self._steps)) is not None:
            if type(action) is Wait:
                if not self.outside.happen():
                    raise Wrong("a busy loop waits for nothing")
            elif type(action) in _VERDICTS:
                raise _Over(action)
            else:
                self._obey(action)
        if self._steps >= STEPS_BETWEEN_RESTS and not self._unwritten:
            self.outside.happen()

    def resume(self, lane: Lane, value: Any = None, error: BaseException | None = None) -> None:
        """Let the lane continue when its strand runs."""
        self._resume(lane, partial(self._continue, lane, value, error))

    def _resume(self, lane: Lane, then: Callable[[], None]) -> None:
        lane.give_up = None
        if not lane.in_loop:
            lane.resume = then
            self.kernel.wake(lane)
        elif self._blocked is lane:
            self._blocked = None
            self._ready.appendleft(then)
            self.kernel.wake(LOOP)
        else:
            self._ready.append(then)
            if self._blocked is None:
                self.kernel.wake(LOOP)

    def block(self, lane: Lane) -> None:
        """Stop the thread of the loop until the lane is resumed."""
        if lane.in_loop:
            self._blocked = lane

    def resume_with_outcome(self, lane: Lane, value: Any, last: bool) -> None:
        kind = type(value)
        if kind is Failed or kind is Raised:
            self.resume(lane, None, EffectError(kind.__name__, value.reason))
        elif kind is Cancelled:
            self.resume(lane, None, Stopped())
        else:
            self.resume(lane, value)

    def resume_with_chunk(self, lane: Lane, value: Any, last: bool) -> None:
        if type(value) is Cut:
            self.resume(lane, None, StreamCut())
        else:
            self.resume(lane, (value, last))

    # Lanes

    def start_lane(self, name: str, steps: Steps, in_loop: bool, pool: tuple[int, int] | None) -> Lane:
        lane = Lane(name, steps, in_loop)
        if pool is None:
            self.resume(lane)
            return lane
        number, workers = pool
        lane.pool = self._pools.setdefault(number, _Pool(workers))
        lane.start = self.kernel.turn(name, "start")
        self.handlers[lane.start] = lambda value, last: self._start_job(lane)
        lane.pool.waiting.append(lane)
        self._fill(lane.pool)
        return lane

    def _fill(self, pool: _Pool) -> None:
        while pool.waiting and pool.free:
            pool.free -= 1
            token = pool.waiting.popleft().start
            assert token is not None
            self.outside.after(self.outside.upto(2), partial(self._arrive, token))
            if not self.kernel.live:
                self._arrive(token)  # a worker may come during the replay, and is reported again after it

    def _start_job(self, lane: Lane) -> None:
        lane.start = None
        if lane.done:
            self._free_worker(lane)
        else:
            self.resume(lane)

    def _free_worker(self, lane: Lane) -> None:
        if lane.pool is not None:
            lane.pool.free += 1
            self._fill(lane.pool)

    def _continue(self, lane: Lane, value: Any, error: BaseException | None) -> None:
        if lane.must_stop and error is None and lane.in_loop:
            lane.must_stop = False
            value, error = None, Stopped()
        if lane.operation is not None:
            self._saw(lane, lane.operation, value, error)
        self._step(lane, value, error)

    def _step(self, lane: Lane, value: Any = None, error: BaseException | None = None) -> None:
        """Run the lane until it waits."""
        while True:
            try:
                operation = lane.steps.send(value) if error is None else lane.steps.throw(error)
            except StopIteration as end:
                self._when_back(lane, partial(self._end, lane, end.value, None))
                return
            except LANE_ERRORS as failure:
                self._when_back(lane, partial(self._end, lane, None, failure))
                return
            if type(operation) is Compute:
                if self._goes_away(lane):
                    return
                value = error = None
                continue
            lane.operation = operation
            back = self.kernel.act(lane.name, draws=type(operation) is Draw)
            if back is not None:
                self._wait_back(lane, back, lambda: self._act_later(lane))
                return
            try:
                value, error = operation.do(self, lane), None
            except LANE_ERRORS as failure:
                value, error = None, failure
            except Divergent:
                return
            if value is PENDING:
                return
            self._saw(lane, operation, value, error)

    def _goes_away(self, lane: Lane) -> bool:
        if self.rng.random() < 0.5 or not self.kernel.away(lane.name):
            return False
        self.block(lane)
        self.outside.after(self.outside.upto(4), partial(self._step, lane))
        return True

    def _act_later(self, lane: Lane) -> None:
        """Do the act before which the lane was away."""
        try:
            value, error = lane.operation.do(self, lane), None
        except LANE_ERRORS as failure:
            value, error = None, failure
        except Divergent:
            return
        if value is not PENDING:
            self._saw(lane, lane.operation, value, error)
            self._step(lane, value, error)

    def _when_back(self, lane: Lane, then: Callable[[], None]) -> None:
        back = self.kernel.act(lane.name)
        if back is None:
            then()
        else:
            self._wait_back(lane, back, then)

    def _wait_back(self, lane: Lane, token: Token, then: Callable[[], None]) -> None:
        """Wait for the turn of a strand that was away."""
        self.block(lane)
        self.handlers[token] = lambda value, last: self._resume(lane, then)

    def _end(self, lane: Lane, result: Any, error: BaseException | None) -> None:
        lane.done, lane.result, lane.error = True, result, error
        self._saw(lane, _ENDED, result, error)
        self.kernel.ended(lane.name)
        self._free_worker(lane)
        if lane is self._root:
            try:
                self.kernel.finish(result if error is None else _shown(error))
            except Divergent:
                pass
            return
        self._tell_watchers(lane)

    def _tell_watchers(self, lane: Lane) -> None:
        watchers, lane.watchers = lane.watchers, []
        for watch in watchers:
            watch(lane)

    def _saw(self, lane: Lane, operation: Any, value: Any, error: BaseException | None) -> None:
        if type(operation) is not Yield:
            self.seen.append((lane.name, type(operation).__name__, _shown(value if error is None else error)))

    # Cancellation

    def cancel_effect(self, token: Token) -> None:
        if not token.begun:
            self._cancelled.add(token)
        self.kernel.cancel(token)

    def cancel_lane(self, lane: Lane) -> None:
        if lane.done:
            return
        if lane.start is not None:
            self._cancel_job(lane)
        elif not lane.in_loop:
            return  # a thread cannot be cancelled
        elif lane.give_up is None:
            lane.must_stop = True
        elif lane.give_up():
            self.resume(lane, None, Stopped())

    def _cancel_job(self, lane: Lane) -> None:
        assert lane.start is not None
        assert lane.pool is not None
        lane.done, lane.error = True, Stopped()
        if lane in lane.pool.waiting:
            lane.pool.waiting.remove(lane)
            self.kernel.cancel(lane.start)
        self.kernel.ended(lane.name)
        self._tell_watchers(lane)

    # The outside

    def _arrive(self, token: Token, value: Any = None, *, last: bool = True) -> None:
        if self.kernel.live and not (token.done or token.gone or token.here):
            self._unwritten.append(token)
        self.kernel.arrived(token, value, last=last, time=self.outside.now)

    def draw(self) -> int:
        return int(self.rng.random() * 1_000_000)


class End:
    """The last observation of a lane."""


_ENDED = End()
_VERDICTS = {
    Done: "done",
    Diverged: "diverged",
    InDoubt: "in doubt",
    RecordOver: "over",
    Wait: "stuck",
}
"""What ends a life. `Wait` does so only for a busy loop for which nothing can arrive."""


def _shown(value: Any) -> Any:
    """Return a value that is equal in another life."""
    if isinstance(value, Lane | Reader):
        return repr(value)
    if isinstance(value, BaseException):
        return (type(value).__name__, *value.args)
    return value
