"""Locks that an agent's threads share: who gets one next is part of the record.

Inside a run `threading.Lock()` and `threading.RLock()` make these. Free, they are taken like any lock. Taken, the
thread that wants one rests, and gets it in its turn, like an answer; where it was late, that is its turn. Everywhere
else they are ordinary locks. A lock
that was made before the run, or outside of it, is not seen; see `boundary._relax` for what then happens.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

from reenact.effect.items import Item
from reenact.effect.lanes import Lane
from reenact.effect.places import HERE, PLACE
from reenact.effect.recorded import LATE_LOCK, LOCK
from reenact.effect.signals import Signal
from reenact.effect.turns import LOOK_SECONDS, RELAX_SECONDS, Patience

if TYPE_CHECKING:
    from reenact.effect.live_run import LiveRun


class _Wish:
    """A thread that wants the lock."""

    def __init__(self, lock: TurnLock, lane: Lane, token: object, late: Item | None) -> None:
        self._lock = lock
        self._run = lane.run
        self._token = token
        self.granted = False
        self.is_late = False
        self.signal = Signal()
        self.item = Item(LOCK, lane, lane.next_ordinal(LOCK), self._grant, looped=False)
        self.late = late
        if late is not None:
            late.hand = self._be_late

    def _grant(self) -> None:
        if self._lock.grant(self):
            self.granted = True
            self._run.turns.runs(self._token)
            self.signal.set()

    def _be_late(self) -> None:
        self._lock.withdraw(self)
        self.is_late = True
        self._run.turns.runs(self._token)
        self.signal.set()


class TurnLock:
    def __init__(self) -> None:
        self._inner = allocate_lock()
        self._wishes: deque[_Wish] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if timeout < 0 and self._inner.acquire(False):
            return True
        lane, token = PLACE.get(), HERE.token
        if not blocking:
            return False
        if type(lane) is not Lane or token is None or lane.run.is_stopped:
            return self._inner.acquire(True, timeout)
        return self._wait(lane, token, timeout)

    def _wait(self, lane: Lane, token: object, timeout: float) -> bool:
        run, late = lane.run, None
        with run.lock:
            if timeout >= 0:  # each such attempt has its number, so that the one that was late is known
                late = Item(LATE_LOCK, lane, lane.next_ordinal(LATE_LOCK), _nothing, looped=False)
                run.turns.expect(late)
            if not run.turns.will_be_late(late) and self._inner.acquire(False):
                self._forget_late(run, late)
                return True
            wish = _Wish(self, lane, token, late)
            self._wishes.append(wish)
            run.turns.rests(token)
            run.turns.advance()
        since, patience = monotonic(), Patience(run.turns)
        while not wish.signal.wait(LOOK_SECONDS):
            run.turns.overdue()
            with run.lock:
                given_up = self._given_up(wish, patience.seconds, late=0 <= timeout < monotonic() - since)
                if given_up is not None:
                    self._forget_late(run, late)
                    run.turns.runs(token, awake=True)
                    return given_up
        with run.lock:
            self._forget_late(run, late)
            if token in run.turns.threads:
                run.turns.runs(token, awake=True)
        return not wish.is_late

    def _forget_late(self, run: LiveRun, late: Item | None) -> None:
        if late is not None:
            run.turns.forget(late)

    def _given_up(self, wish: _Wish, still: float, *, late: bool) -> bool | None:
        """Whether it has the lock although it was not its turn; None: it still waits."""
        run = wish.item.lane.run
        is_late = late and not run.turns.replaying
        relaxed = still > RELAX_SECONDS and not run.is_live and not run.turns.will_be_late(wish.late)
        if run.is_stopped or relaxed:
            if wish.granted or self._inner.acquire(False):
                self.withdraw(wish)
                return True
            if is_late:
                self.withdraw(wish)
                return False
        elif is_late and wish.late is not None and wish in self._wishes and wish.item not in run.turns.pending:
            self.withdraw(wish)
            run.turns.arrive(wish.late)  # being late is a turn like any other
        return None

    def withdraw(self, wish: _Wish) -> None:
        if wish in self._wishes:
            self._wishes.remove(wish)
        wish.item.lane.run.turns.forget(wish.item)

    def grant(self, wish: _Wish) -> bool:
        """Called with the run's lock held, in the wish's turn."""
        if wish not in self._wishes or not self._inner.acquire(False):
            return False
        self._wishes.remove(wish)
        return True

    def release(self) -> None:
        self._inner.release()
        if self._wishes:
            run = self._wishes[0].item.lane.run
            with run.lock:
                # When the run comes back the record says whose turn it is; otherwise who came first.
                for wish in list(self._wishes) if run.turns.replaying else list(self._wishes)[:1]:
                    if wish.item not in run.turns.pending:
                        run.turns.arrive(wish.item)

    def locked(self) -> bool:
        return self._inner.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self._inner = allocate_lock()
        self._wishes.clear()


class TurnRLock:
    """The same thread may take it again."""

    def __init__(self) -> None:
        self._lock = TurnLock()
        self._owner: int | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = get_ident()
        if self._owner == me:
            self._count += 1
            return True
        if not self._lock.acquire(blocking, timeout):
            return False
        self._owner, self._count = me, 1
        return True

    def release(self) -> None:
        if self._owner != get_ident():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if self._count == 0:
            self._owner = None
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    # What a Condition asks of its lock

    def _is_owned(self) -> bool:
        return self._owner == get_ident()

    def _recursion_count(self) -> int:
        return self._count if self._owner == get_ident() else 0

    def _release_save(self) -> tuple[int, int | None]:
        state = (self._count, self._owner)
        self._count, self._owner = 0, None
        self._lock.release()
        return state

    def _acquire_restore(self, state: tuple[int, int | None]) -> None:
        self._lock.acquire()
        self._count, self._owner = state

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]


def _nothing() -> None: ...


def in_a_run() -> bool:
    lane = PLACE.get()
    return type(lane) is Lane and not lane.run.is_stopped and lane.run.records_threads


def new_lock(original: Any) -> Any:
    return TurnLock() if in_a_run() else original()


def new_rlock(original: Any) -> Any:
    return TurnRLock() if in_a_run() else original()
