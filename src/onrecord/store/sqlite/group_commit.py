"""Appends that overlap share one commit; a lone append is executed at once, in its own thread.

Life of an append:

1. It is queued, and its thread takes the store's write lock.
2. The thread that holds the lock, the leader, executes all queued appends, its own included, in one transaction.
3. A thread that finds the lock taken sleeps at its own gate until its append is executed or it is its turn to lead. So
   threads whose append is done do not compete for a lock they no longer need.

An interrupt (Ctrl-C) can come between any two bytecodes of the main thread, and must not leave the lock held. So the
lock is taken only by `with`, in the frame that does the work: CPython allows no interrupt between a C lock's
`__enter__` and the block, nor before its `__exit__`. That does not hold for `acquire()` and `try`, nor for context
managers written in Python. If a leader took an append and did not finish it, its own thread finds it neither done nor
queued: its outcome is unknown. Gates are only an optimisation: a thread that is not woken checks by itself a moment
later.
"""

from __future__ import annotations

import _thread
import copy
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from onrecord.errors import InvalidInput, OutcomeUnknown
from onrecord.store.contract import EventRow, Head, NodeRow

LARGEST_GROUP = 256
RECHECK_SECONDS = 0.02
ROUNDS_FOR_OTHERS = 3

T = TypeVar("T")


class CommitRequest:
    """A queued append; `error` is the exception for its caller."""

    __slots__ = ("done", "epoch", "error", "events", "expected", "gate", "known", "namespace", "nodes", "run", "sync")

    def __init__(
        self,
        namespace: str,
        run: str,
        events: Sequence[EventRow],
        expected: Head,
        epoch: int,
        nodes: Sequence[NodeRow],
        sync: bool,
    ) -> None:
        self.namespace = namespace
        self.run = run
        self.events = events
        self.expected = expected
        self.epoch = epoch
        self.nodes = nodes
        self.sync = sync
        self.error: Exception | None = None
        self.done = False
        self.gate: _thread.LockType | None = None
        self.known: Any = None
        """The store's `KnownRun`."""


class GroupCommit:
    def __init__(self, commit: Callable[[list[CommitRequest]], None]) -> None:
        """Take `commit`: it executes a group, sets `error` of refused requests, and raises what concerns all."""
        self._commit = commit
        self.reset()

    def reset(self) -> None:
        """Create a new lock and queue. A forked child does so too: the waiting threads do not exist there."""
        self.lock = _thread.allocate_lock()
        self._queue: deque[CommitRequest] = deque()
        self._owner = 0
        self._held_for_fork: list[bool] = []

    def submit(self, request: CommitRequest) -> None:
        me = _thread.get_ident()
        if self._owner == me:
            self._refuse_nesting(me)
        try:
            # Queued even if the lock is free: no leader serves a thread that waits for the lock without being queued.
            self._queue.append(request)
            if self.lock.locked():
                self._sleep(request)
            if not request.done:
                with self.lock:
                    if not request.done:
                        try:
                            self._owner = me
                            self._lead(request)
                        finally:
                            self._owner = 0
                if self._queue:
                    self._wake_next()
        except BaseException:
            # Interrupted while waiting (Ctrl-C). Still queued: the append never happens. Taken by a leader: its outcome
            # is unknown, as with any interrupt.
            with suppress(ValueError):
                self._queue.remove(request)
            raise
        if request.error is not None:
            raise request.error

    def _sleep(self, request: CommitRequest) -> None:
        request.gate = gate = _thread.allocate_lock()
        gate.acquire()
        while not request.done and self.lock.locked():
            if gate.acquire(True, RECHECK_SECONDS):
                return

    def _wake_next(self) -> None:
        with suppress(IndexError):
            _open_gate(self._queue[0].gate)

    def _lead(self, own: CommitRequest) -> None:
        """Commit `own` and the queued requests in one transaction, then a few more groups. The lock is held."""
        queue = self._queue
        try:
            queue.remove(own)
        except ValueError:
            raise OutcomeUnknown("the thread that committed this append was interrupted") from None
        group = [own]
        # Requests that arrived meanwhile are served by this awake thread, a few times; then another thread leads.
        for _ in range(1 + ROUNDS_FOR_OTHERS):
            if queue:
                with suppress(IndexError):
                    while queue and len(group) < LARGEST_GROUP:
                        group.append(queue.popleft())
            if not group:
                return
            try:
                self._commit(group)
            except Exception as error:
                for request in group:
                    request.error = copy.copy(error)  # each with its own traceback
            for request in group:
                request.done = True
                if request.gate is not None:
                    _open_gate(request.gate)
            if not queue:
                return
            group = []

    def exclusive(self, work: Callable[[], T]) -> T:
        """Run `work` under the writer lock, outside the commit queue."""
        me = _thread.get_ident()
        self._refuse_nesting(me)
        with self.lock:
            try:
                self._owner = me
                return work()
            finally:
                self._owner = 0

    def acquire(self, timeout_seconds: float) -> bool:
        """Take the lock before a fork. Return False at once if this thread holds it already."""
        if self._owner == _thread.get_ident():
            return False
        # The lock and the note that it is held are one call into C: no interrupt comes in between.
        self._held_for_fork.extend(map(self.lock.acquire, (True,), (timeout_seconds,)))
        return self._held_for_fork[-1]

    def release(self) -> None:
        """Undo `acquire`, whatever it returned, even if it was interrupted."""
        while self._held_for_fork:
            if self._held_for_fork.pop():
                self.lock.release()

    def _refuse_nesting(self, me: int) -> None:
        """Refuse a write within a write: the thread would wait for itself forever."""
        if self._owner == me and self.lock.locked():
            raise InvalidInput("this thread is already writing to the store")


def _open_gate(gate: _thread.LockType | None) -> None:
    if gate is not None:
        with suppress(RuntimeError):  # already open: both its leader and its waker open it
            gate.release()
