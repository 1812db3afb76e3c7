"""The strands of a simulated program: one event loop, threads, and pools of workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from kit.simulation.operations import (
    LANE_ERRORS,
    PENDING,
    Ask,
    Compute,
    Draw,
    EffectError,
    Pull,
    Reader,
    Sleep,
    Steps,
    Stopped,
    StreamCut,
    Yield,
)
from kit.simulation.outside import Outside, Raised, Wrong
from onrecord.runtime.scheduler.items import STEPS_BETWEEN_RESTS, Cut, Divergent, EffectCancelled, EffectFailed, Token
from onrecord.runtime.scheduler.kernel import Kernel

LOOP = "loop"
Then = Callable[[], None]


class Lane:
    __slots__ = (
        *("done", "error", "give_up", "in_loop", "must_stop", "name", "operation", "pool", "result", "resume"),
        *("start", "steps", "watchers"),
    )

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
        """EffectCancelled while it did not wait."""
        self.watchers: list[Callable[[Lane], None]] = []
        self.resume: Then | None = None
        self.pool: _Pool | None = None
        self.start: Token | None = None
        """The turn of a job that no worker has taken."""

    def __repr__(self) -> str:
        return self.name


class _Pool:
    def __init__(self, workers: int) -> None:
        self.free = workers
        self.waiting: deque[Lane] = deque()


class Strands:
    """Everything that runs in one life of a program."""

    def __init__(self, body: Steps, kernel: Kernel, outside: Outside, *, is_cancelled: bool) -> None:
        self.kernel = kernel
        self.outside = outside
        self.handlers: dict[Token, Callable[[Any, bool], None]] = {}
        """Called with the value of a delivery, and with False for a chunk."""
        self.seen: list[tuple[str, str, int, Any]] = []
        """The observations of all lanes, in the order in which they were made, each with the run's clock."""
        self.steps = 0
        """Steps of the loop since the last delivery."""
        self.steps_in_turn = 0
        """Steps of the loop since it was given its turn."""
        self.cancelled: set[Token] = set()
        """Effects that the program cancelled before they were begun."""
        self._ready: deque[Then] = deque()
        self._is_looping = False
        self._blocked: Lane | None = None
        self._pools: dict[int, _Pool] = {}
        self._lanes: list[Lane] = []
        self.root = Lane(kernel.root, body, True)
        self._lanes.append(self.root)
        self.resume(self.root)
        if is_cancelled:
            order = kernel.listen("cancel")
            self.handlers[order] = lambda value, last: self.cancel_lane(self.root)

    # Strands

    def run_strand(self, strand: Any, between_steps: Then) -> None:
        if strand is LOOP:
            self._is_looping = True
            self._run_loop(between_steps)
            self._is_looping = False
            if self._ready and self._blocked is None:
                self.kernel.wake(LOOP)
        else:
            then, strand.resume = strand.resume, None
            then()

    def _run_loop(self, between_steps: Then) -> None:
        kernel, ready = self.kernel, self._ready
        self.steps_in_turn = 0
        while ready and self._blocked is None:
            if self.steps_in_turn >= STEPS_BETWEEN_RESTS and kernel.ready:
                return
            self.steps_in_turn += 1
            self.steps += 1
            ready.popleft()()
            if kernel.diverged is not None or kernel.done:
                return
            if ready and self._blocked is None:
                between_steps()

    def resume(self, lane: Lane, value: Any = None, error: BaseException | None = None) -> None:
        """Let the lane continue when its strand runs."""
        then = partial(self._continue, lane, value, error)
        if lane.in_loop and self._is_looping and self._blocked is None:
            lane.give_up = None
            self._ready.append(then)
        else:
            self._resume(lane, then)

    def _resume(self, lane: Lane, then: Then) -> None:
        lane.give_up = None
        if not lane.in_loop:
            lane.resume = then
            self.kernel.wake(lane)
        elif self._blocked is lane:
            self._blocked = None
            self._ready.appendleft(then)
            self._wake_loop()
        else:
            self._ready.append(then)
            self._wake_loop()

    def _wake_loop(self) -> None:
        if self._blocked is None and not self._is_looping:
            self.kernel.wake(LOOP)

    def block(self, lane: Lane) -> None:
        """Stop the thread of the loop until the lane is resumed."""
        if lane.in_loop:
            self._blocked = lane

    def resume_with_outcome(self, lane: Lane, value: Any, last: bool) -> None:
        kind = type(value)
        if kind is EffectFailed or kind is Raised:
            self.resume(lane, None, EffectError(kind.__name__, value.reason))
        elif kind is EffectCancelled:
            self.resume(lane, None, Stopped())
        else:
            self.resume(lane, value)

    def deliver_here(self, lane: Lane, token: Token) -> None:
        """Deliver an outcome that the record delivers when the loop rests, without a rest, in half of the cases."""
        is_resting = lane.in_loop and self._is_looping and not self._ready and self._blocked is None
        if not is_resting or len(self.seen) % 2:
            return
        found = self.kernel.deliver_due(token, lane.name, acts=0)
        if found is not None:
            self.steps = self.steps_in_turn = 0
            self.handlers[token](found.value, found.last)

    def resume_with_chunk(self, lane: Lane, value: Any, last: bool) -> None:
        if type(value) is Cut:
            self.resume(lane, None, StreamCut())
        else:
            self.resume(lane, (value, last))

    def check_deadlock(self) -> None:
        """Check that lanes of a program that waits for itself wait for each other only."""
        for lane in self._lanes:
            if lane.give_up is not None and not lane.done and isinstance(lane.operation, Ask | Pull | Sleep):
                raise Wrong(f"waits for ever: {lane} for {type(lane.operation).__name__}")

    def close(self) -> None:
        """Let go of everything that refers to itself: the collector of cycles would take a part of the time."""
        self.handlers.clear()
        self._ready.clear()
        self._blocked = None
        for lane in self._lanes:
            lane.steps.close()
            lane.operation = lane.give_up = lane.resume = lane.error = lane.pool = None
            lane.watchers.clear()
        self._lanes.clear()

    # Lanes

    def start_lane(self, name: str, steps: Steps, in_loop: bool, pool: tuple[int, int] | None) -> Lane:
        lane = Lane(name, steps, in_loop)
        self._lanes.append(lane)
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
            lane = pool.waiting.popleft()
            token = lane.start
            if token is None:  # the record starts it before changed code has a worker for it
                self.resume(lane)
                continue
            self.outside.after(self.outside.upto(2), partial(self.outside.arrive, token))
            if not self.kernel.live:
                self.outside.arrive(token)  # a worker may come during the replay, and is reported again after it

    def _start_job(self, lane: Lane) -> None:
        lane.start = None
        assert lane.pool is not None
        if lane in lane.pool.waiting:
            return
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
        operation = lane.operation
        if operation is not None and type(operation) is not Yield:
            self._saw(lane, operation, value, error)
        self._step(lane, value, error)

    def _step(self, lane: Lane, value: Any = None, error: BaseException | None = None) -> None:
        """Run the lane until it waits."""
        steps, act = lane.steps, self.kernel.act
        while True:
            try:
                operation = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as end:
                self._when_back(lane, partial(self._end, lane, end.value, None))
                return
            except LANE_ERRORS as failure:
                self._when_back(lane, partial(self._end, lane, None, failure.with_traceback(None)))
                return
            kind = type(operation)
            if kind is Compute:
                if self._goes_away(lane):
                    return
                value = error = None
                continue
            lane.operation = operation
            if kind is not Yield:
                back = act(lane.name, draws=kind is Draw)
                if back is not None:
                    self._wait_back(lane, back, partial(self._act_later, lane), draws=kind is Draw)
                    return
            try:
                value, error = operation.do(self, lane), None
            except LANE_ERRORS as failure:
                value, error = None, failure.with_traceback(None)
            except Divergent:
                return  # for ever
            if value is PENDING:
                return
            self._saw(lane, operation, value, error)

    def _goes_away(self, lane: Lane) -> bool:
        if self.outside.rng.random() < 0.5 or not self.kernel.away(lane.name):
            return False
        self.block(lane)
        self.outside.after(self.outside.upto(4), partial(self._step, lane))
        return True

    def _act_later(self, lane: Lane) -> None:
        """Do the act before which the lane was away."""
        value = error = None
        try:
            value = lane.operation.do(self, lane)
        except LANE_ERRORS as failure:
            error = failure.with_traceback(None)
        except Divergent:
            return  # for ever
        if value is not PENDING:
            self._saw(lane, lane.operation, value, error)
            self._step(lane, value, error)

    def _when_back(self, lane: Lane, then: Then) -> None:
        back = self.kernel.act(lane.name)
        if back is None:
            then()
        else:
            self._wait_back(lane, back, then)

    def _wait_back(self, lane: Lane, token: Token, then: Then, *, draws: bool = False) -> None:
        """Wait for the turn of a strand that was away."""

        def come_back() -> None:
            again = None if draws else self.kernel.returned(lane.name)
            if again is None:
                then()
            else:
                self._wait_back(lane, again, then)

        self.block(lane)
        self.handlers[token] = lambda value, last: self._resume(lane, come_back)

    def _end(self, lane: Lane, result: Any, error: BaseException | None) -> None:
        lane.done, lane.result, lane.error = True, result, error
        self._saw(lane, _ENDED, result, error)
        self.kernel.ended(lane.name)
        self._free_worker(lane)
        if lane is self.root:
            with suppress(Divergent):
                self.kernel.finish(result if error is None else _shown(error))
        else:
            self._tell_watchers(lane)

    def _tell_watchers(self, lane: Lane) -> None:
        watchers, lane.watchers = lane.watchers, []
        for watch in watchers:
            watch(lane)

    def _saw(self, lane: Lane, operation: Any, value: Any, error: BaseException | None) -> None:
        kind = type(operation)
        if kind is not Yield:
            shown = value if error is None else error
            if type(shown) not in _PLAIN:
                shown = _shown(shown)
            self.seen.append((lane.name, kind.__name__, self.kernel.time, shown))

    # Cancellation

    def cancel_effect(self, token: Token) -> None:
        if not token.begun:
            self.cancelled.add(token)
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


class End:
    """The last observation of a lane."""


_ENDED = End()


_PLAIN = frozenset((int, str, tuple, type(None)))
"""Types of values that show themselves."""


def _shown(value: Any) -> Any:
    """Return a value that is equal in another life."""
    if isinstance(value, Lane | Reader):
        return repr(value)
    if isinstance(value, BaseException):
        return (type(value).__name__, *value.args)
    return value
