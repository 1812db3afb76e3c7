"""Appends that overlap share one commit; a lone one is done at once, in its own thread.

The life of an append:

1. Nobody holds the store's write lock: the caller takes it and is the *leader*. It carries out its own append
   and whatever waits in the queue, in one transaction, and returns. No other thread is involved, nothing
   waits for company.
2. Somebody holds it: the caller queues and sleeps on a lock of its own. The leader that serves it wakes it.
3. Before a leader leaves it looks at the queue once more. Those who came during its commit are served in a
   next round, a few times; then one of them is woken to lead, so that nobody works for others for ever.

A thread queues first and then tries the lock; a leader unlocks first and then looks at the queue. So none can
be overlooked by both. Everything else that writes takes the lock with `exclusive()` and leaves it by the same
door.
"""

from __future__ import annotations

import _thread
import copy
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from reenact.errors import InvalidInput, OutcomeUnknown
from reenact.store.contract import EventRow, Head, NodeRow

ROUNDS_FOR_OTHERS = 3
LARGEST_GROUP = 256


class Request:
    """One append on its way; `error` is what its caller will raise."""

    __slots__ = (
        "done",
        "epoch",
        "error",
        "events",
        "expected",
        "gate",
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

    def submit(self, request: Request) -> None:
        lock = self.lock
        if lock.acquire(False):
            try:
                if self._queue:
                    self._serve(request)
                else:
                    self._commit([request])
            finally:
                lock.release()
            if self._queue:
                self._leave()
        else:
            self._follow(request)
        if request.error is not None:
            raise request.error

    def _follow(self, request: Request) -> None:
        self._refuse_nesting()
        request.gate = gate = _thread.allocate_lock()
        gate.acquire()
        self._queue.append(request)
        try:
            while not request.done:
                if self.lock.acquire(False):
                    try:
                        if not request.done:
                            self._serve(None)
                    finally:
                        self.lock.release()
                    if self._queue:
                        self._leave()
                else:
                    gate.acquire()
        except BaseException:
            # Interrupted while waiting (Ctrl-C). Still queued: it never happens. Taken already: nobody can
            # tell, as with any interrupt.
            with suppress(ValueError):
                self._queue.remove(request)
            raise

    def _serve(self, own: Request | None) -> None:
        """One transaction for `own` and those who wait. The lock is held."""
        queue = self._queue
        group = [] if own is None else [own]
        while queue and len(group) < LARGEST_GROUP:
            group.append(queue.popleft())
        if not group:
            return
        interrupt: BaseException | None = None
        try:
            self._commit(group)
        except Exception as error:
            for request in group:
                request.error = copy.copy(error)  # a traceback each
        except BaseException as error:
            interrupt = error
            for request in group:
                request.error = OutcomeUnknown("the thread that committed this append was interrupted")
        for request in group:
            request.done = True
            if request.gate is not None:
                _open(request.gate)
        if interrupt is not None:
            raise interrupt

    def _leave(self) -> None:
        for _ in range(ROUNDS_FOR_OTHERS):
            if not self._queue or not self.lock.acquire(False):
                return
            try:
                self._serve(None)
            finally:
                self.lock.release()
        with suppress(IndexError):
            heir = self._queue[0]
            if heir.gate is not None:
                _open(heir.gate)

    def acquire(self, timeout_seconds: float) -> bool:
        """The lock by hand, before a fork; False at once for a thread that has it already."""
        return self._owner != _thread.get_ident() and self.lock.acquire(timeout=timeout_seconds)

    def release(self) -> None:
        self.lock.release()
        if self._queue:
            self._leave()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        self._refuse_nesting()
        try:
            with self.lock:
                self._owner = _thread.get_ident()
                try:
                    yield
                finally:
                    self._owner = 0
        finally:
            if self._queue:
                self._leave()

    def _refuse_nesting(self) -> None:
        """A thread that waits for itself waits for ever (an import whose source writes to the same store)."""
        if self._owner == _thread.get_ident():
            raise InvalidInput("this thread is in the middle of another change of the store")


def _open(gate: _thread.LockType) -> None:
    # Somebody told to lead may be served by another leader before it wakes; its gate is open already then.
    with suppress(RuntimeError):
        gate.release()
