"""Appends that overlap share one commit; a lone one is done at once, in its own thread.

The life of an append: it queues, and its thread takes the store's write lock. Whoever has the lock carries out
what is in the queue, its own append included, in one transaction. Who finds the lock taken sleeps at a gate of
its own until it is served, or until it is its turn to lead: so those who were served do not queue for a lock they
no longer need.

An interrupt (Ctrl-C) can come between any two bytecodes of the main thread, and must not leave the lock held.
So the lock is taken by `with` alone, in the frame that does the work: CPython lets nothing in between a C
lock's `__enter__` and the block, nor before its `__exit__`. That is not so for `acquire()` and `try`, nor for
context managers written in Python. An append that a leader took and did not finish, for whatever reason, is
found neither done nor queued by its own thread: its outcome is unknown. Gates are a courtesy: whoever is not told
looks for itself a moment later.
"""

from __future__ import annotations

import _thread
import copy
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from reenact.errors import InvalidInput, OutcomeUnknown
from reenact.store.contract import EventRow, Head, NodeRow

LARGEST_GROUP = 256
LOOK_AGAIN_SECONDS = 0.02
ROUNDS_FOR_OTHERS = 3

T = TypeVar("T")


class Request:
    """One append on its way; `error` is what its caller will raise."""

    __slots__ = (
        "done",
        "epoch",
        "error",
        "events",
        "expected",
        "gate",
        "known",
        "namespace",
        "nodes",
        "run",
        "sync",
    )

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
        """The store's note about the run."""


class GroupCommit:
    def __init__(self, commit: Callable[[list[Request]], None]) -> None:
        """`commit` carries a group out, sets `error` of those that are refused, and raises only what concerns all."""
        self._commit = commit
        self.reset()

    def reset(self) -> None:
        """Also in a forked child: whoever waited in the queue or held the lock does not exist there."""
        self.lock = _thread.allocate_lock()
        self._queue: deque[Request] = deque()
        self._owner = 0
        self._by_hand: list[bool] = []

    def submit(self, request: Request) -> None:
        me = _thread.get_ident()
        if self._owner == me:
            self._refuse_nesting(me)
        try:
            # Always, although most find nobody: who waits for the lock outside of the queue is served by no leader.
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
            # Interrupted while waiting (Ctrl-C). Still queued: it never happens. Taken already: nobody can
            # tell, as with any interrupt.
            with suppress(ValueError):
                self._queue.remove(request)
            raise
        if request.error is not None:
            raise request.error

    def _sleep(self, request: Request) -> None:
        request.gate = gate = _thread.allocate_lock()
        gate.acquire()
        while not request.done and self.lock.locked():
            if gate.acquire(True, LOOK_AGAIN_SECONDS):
                return

    def _wake_next(self) -> None:
        with suppress(IndexError):
            _open(self._queue[0].gate)

    def _lead(self, own: Request) -> None:
        """One transaction for `own` and those who wait, and a few more. The lock is held."""
        queue = self._queue
        try:
            queue.remove(own)
        except ValueError:
            raise OutcomeUnknown("the thread that committed this append was interrupted") from None
        group = [own]
        # Those who came meanwhile are served by the one who is awake, a few times; then one of them leads.
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
                    request.error = copy.copy(error)  # a traceback each
            for request in group:
                request.done = True
                if request.gate is not None:
                    _open(request.gate)
            if not queue:
                return
            group = []

    def exclusive(self, work: Callable[[], T]) -> T:
        """Everything else that writes."""
        me = _thread.get_ident()
        self._refuse_nesting(me)
        with self.lock:
            try:
                self._owner = me
                return work()
            finally:
                self._owner = 0

    def acquire(self, timeout_seconds: float) -> bool:
        """The lock by hand, before a fork; False at once for a thread that has it already."""
        if self._owner == _thread.get_ident():
            return False
        # One call into C from the lock to the note that it is held: no interrupt comes in between.
        self._by_hand.extend(map(self.lock.acquire, (True,), (timeout_seconds,)))
        return self._by_hand[-1]

    def release(self) -> None:
        """Undoes `acquire`, whatever it answered, and also if it was interrupted."""
        while self._by_hand:
            if self._by_hand.pop():
                self.lock.release()

    def _refuse_nesting(self, me: int) -> None:
        """A thread that waits for itself waits for ever (an import whose source writes to the same store)."""
        if self._owner == me and self.lock.locked():
            raise InvalidInput("this thread is in the middle of another change of the store")


def _open(gate: _thread.LockType | None) -> None:
    if gate is not None:
        with suppress(RuntimeError):  # told twice, by one who served it and one who woke it to lead
            gate.release()
