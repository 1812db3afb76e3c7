"""Locks that an agent's threads share: who gets one next is part of the record.

Inside a run `threading.Lock()` and `threading.RLock()` make these. Everywhere else they are ordinary locks.

1. A thread whose turn it is takes a lock that is free like any lock: nobody else runs who could want it.
2. Where the lock is taken the thread rests, and gets it in its turn, like an answer; where it was late, that is its
   turn.
3. A thread that has been running for so long that nobody waits for it any more (`Turns.away`) runs beside others. It
   too rests, and takes the lock, free or not, in a turn of its own: from there on it is one of them again.
4. When the run comes back the record says which locks were taken in a turn; those are, free or not.

A lock that was made before the run, or outside of it, is not seen; see `boundary._relax` for what then happens.
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any

from onrecord.runtime.engine.context import HERE, PLACE
from onrecord.runtime.replay.records import LATE_LOCK, LOCK, MISS, TAKE
from onrecord.runtime.scheduler.delivery_item import Item
from onrecord.runtime.scheduler.lanes import Lane
from onrecord.runtime.scheduler.scheduler import LOOK_SECONDS, RELAX_SECONDS, Patience
from onrecord.runtime.scheduler.thread_signal import Signal

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun

_WANTED = "locks wanted"
"""What the locks that a lane asks for are counted as. Effects are counted by their names: none of them is called so."""


class _Wish:
    """A thread that wants the lock."""

    def __init__(self, lock: TurnLock, lane: Lane, token: object, number: int, late: Item | None) -> None:
        self._lock = lock
        self._token = token
        self.run = lane.run
        self.granted = False
        self.is_late = False
        self.is_overdue = False
        """It had its turn, by the record, and the lock was not free then."""
        self.signal = Signal()
        self.item = Item(TAKE, lane, number, self._grant, looped=False)
        self.names = [self.item]
        """What the record may call it."""
        order = lane.run.turns.order
        if order is not None and order.counts_waits_for_locks and not order.has_lock(TAKE, lane, number):
            self.names.append(Item(LOCK, lane, lane.next_ordinal(LOCK), self._has_got_it, looped=False))
        self.late = late
        if late is not None:
            late.hand = self._be_late

    def may_be_granted(self) -> None:
        """The lock is free. Called with the run's lock held."""
        if self.is_overdue:
            self._grant()
        elif self.item not in self.run.turns.pending:
            for name in self.names:
                self.run.turns.expect(name)
            self.run.turns.arrive(self.item)

    def forget(self) -> None:
        for name in self.names:
            self.run.turns.forget(name)

    def _grant(self) -> None:
        if not self._has_got_it():
            self.is_overdue = self.run.turns.replaying

    def _has_got_it(self) -> bool:
        """Where somebody else was faster it comes again, and is on record only then. In earlier recordings it is on
        record each time."""
        if not self._lock.grant(self):
            for name in self.names:
                self.run.turns.was_in_vain(name)
            return False
        self.granted = True
        self.forget()
        self.run.turns.runs(self._token)
        self.signal.set()
        return True

    def _be_late(self) -> None:
        self._lock.withdraw(self)
        self.is_late = True
        self.run.turns.runs(self._token)
        self.signal.set()


class TurnLock:
    def __init__(self) -> None:
        self._inner = allocate_lock()
        self._wishes: deque[_Wish] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        token = HERE.token
        if token is None:
            return self._inner.acquire(blocking, timeout)
        lane = PLACE.get()
        if type(lane) is not Lane or lane.run.is_stopped:
            return self._inner.acquire(blocking, timeout)
        number, turns = lane.next_ordinal(_WANTED), lane.run.turns
        if not blocking:
            return self._try(lane, token, number)
        if timeout < 0 and not turns.takes_in_turn(token, lane, number) and self._inner.acquire(False):
            if not turns.takes_in_turn(token, lane, number):
                return True
            self.release()  # only now has it been running for too long; nobody has seen that it had the lock
        return self._wait(lane, token, number, timeout)

    def _try(self, lane: Lane, token: object, number: int) -> bool:
        turns = lane.run.turns
        if turns.takes_in_turn(token, lane, number):
            _wait_for_turn(TAKE, lane, token, number)
        if turns.misses_in_turn(lane, number):
            _wait_for_turn(MISS, lane, token, number)
            return False
        taken = self._inner.acquire(False)
        if not taken:
            turns.missed(lane, number)
        return taken

    def _wait(self, lane: Lane, token: object, number: int, timeout: float) -> bool:
        run, late = lane.run, None
        with run.lock:
            if timeout >= 0:  # each such attempt has its number, so that the one that was late is known
                late = Item(LATE_LOCK, lane, lane.next_ordinal(LATE_LOCK), _nothing, looped=False)
                run.turns.expect(late)
            in_turn = run.turns.takes_in_turn(token, lane, number) or run.turns.will_be_late(late)
            if not in_turn and self._inner.acquire(False):
                self._forget_late(run, late)
                return True
            wish = _Wish(self, lane, token, number, late)
            self._wishes.append(wish)
            run.turns.rests(token)
            if not self._inner.locked():
                wish.may_be_granted()
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
        run = wish.run
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
        wish.forget()

    def grant(self, wish: _Wish) -> bool:
        """Called with the run's lock held, in the wish's turn."""
        if wish not in self._wishes or not self._inner.acquire(False):
            return False
        self._wishes.remove(wish)
        return True

    def release(self) -> None:
        self._inner.release()
        if self._wishes:
            run = self._wishes[0].run
            with run.lock:
                # When the run comes back the record says whose turn it is; otherwise who came first.
                for wish in list(self._wishes) if run.turns.replaying else list(self._wishes)[:1]:
                    wish.may_be_granted()

    def locked(self) -> bool:
        return self._inner.locked()

    _is_owned = locked
    """What a Condition asks of its lock: it would try to take it otherwise, which counts."""

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


def _wait_for_turn(kind: str, lane: Lane, token: object, number: int) -> None:
    """Of an attempt that does not wait for the lock."""
    run, signal = lane.run, Signal()

    def begin() -> None:
        run.turns.runs(token)
        signal.set()

    turn = Item(kind, lane, number, begin, looped=False)
    with run.lock:
        run.turns.rests(token)
        run.turns.arrive(turn)
    patience = Patience(run.turns)
    while not signal.wait(LOOK_SECONDS) and not run.is_stopped:
        run.turns.overdue()
        if patience.seconds > RELAX_SECONDS and not run.is_live:
            break
    with run.lock:
        run.turns.forget(turn)
        run.turns.runs(token, awake=True)


def _nothing() -> None: ...


def in_a_run() -> bool:
    lane = PLACE.get()
    return type(lane) is Lane and not lane.run.is_stopped


def new_lock(original: Any) -> Any:
    return TurnLock() if in_a_run() else original()


def new_rlock(original: Any) -> Any:
    return TurnRLock() if in_a_run() else original()
