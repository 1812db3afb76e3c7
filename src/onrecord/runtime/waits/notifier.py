"""Who waits in this process, and how they are woken.

Rules:

1. A waiter registers before it looks and sleeps after it has looked. So a resolution is either there to be seen, or it
   arrives while the waiter is registered and wakes it: none falls between the look and the sleep.
2. A resolution made in this process wakes its waiters at once, by one look into a dictionary.
3. What other processes write is seen by one thread per store, which asks for everything new behind a cursor; the price
   of asking does not grow with the number of waiters. It runs only while somebody waits, and its cursor is older than
   the look of every waiter.
4. Nothing is decided here: a waiter that is woken looks for itself, and may find nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary, ref

from reenact.core.links import OPERATIONS_RUN
from reenact.effect.waits.rows import session_of
from reenact.errors import StoreUnavailable
from reenact.store.contract import InboxArrival, Store

POLL_SECONDS = 0.02
IDLE_POLL_SECONDS = 0.25
GIVE_UP_SECONDS = 60.0
LOOKING_THREADS = 4

K = TypeVar("K", bound=Hashable)


class Place(NamedTuple):
    """Where a waiter's resolution will stand."""

    namespace: str
    run: str
    key: str


class Waiter(Protocol):
    def wake(self, failure: BaseException | None = None) -> None:
        """May come from any thread, more than once, and for nothing."""
        ...


class WakeUps:
    """The waiters of one store in this process."""

    def __init__(self, store: Store) -> None:
        self._store = ref(store)
        self.polls = 0
        """How often other processes' writes were asked for."""
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._by_place: dict[Place, list[Waiter]] = {}
        self._by_session: dict[tuple[str, str], list[Waiter]] = {}
        self._polling = False
        self._ended = threading.Event()
        self._threads: ThreadPoolExecutor | None = None

    def _own_process(self) -> None:
        if self._pid != os.getpid():
            self._reset()  # a forked child has none of the threads, and perhaps a lock that nobody will release

    @contextmanager
    def registered(self, places: Sequence[Place], sessions: Sequence[str], waiter: Waiter) -> Iterator[None]:
        self._own_process()
        namespace = places[0].namespace
        names = [(namespace, session) for session in sessions]
        with self._lock:
            for place in places:
                self._by_place.setdefault(place, []).append(waiter)
            for name in names:
                self._by_session.setdefault(name, []).append(waiter)
        try:
            yield
        finally:
            with self._lock:
                for place in places:
                    _remove(self._by_place, place, waiter)
                for name in names:
                    _remove(self._by_session, name, waiter)
                if not self._by_place:
                    self._ended.set()

    def waiting(self) -> int:
        with self._lock:
            return sum(map(len, self._by_place.values()))

    def wake(self, place: Place) -> None:
        self._own_process()
        with self._lock:
            waiters = list(self._by_place.get(place, ()))
        for waiter in waiters:
            waiter.wake()

    def wake_session(self, namespace: str, session: str) -> None:
        self._own_process()
        with self._lock:
            waiters = list(self._by_session.get((namespace, session), ()))
        for waiter in waiters:
            waiter.wake()

    def looking_threads(self) -> ThreadPoolExecutor:
        """Look-ups of asyncio tasks are made here: a slow store must not stop the loop."""
        self._own_process()
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(LOOKING_THREADS, thread_name_prefix="reenact-waits")
            return self._threads

    # Other processes

    def ensure_polling(self) -> None:
        """For a waiter that is registered and has not looked yet."""
        store = self._store()
        if store is None:
            return
        with self._starting:
            with self._lock:
                if self._polling:
                    return
            cursor, _ = store.inbox_since(None)
            with self._lock:
                self._polling = True
                self._ended.clear()
            threading.Thread(target=self._poll, args=(store, cursor), name="reenact-inbox", daemon=True).start()

    def _poll(self, store: Store, cursor: str) -> None:
        pause, failing_since = POLL_SECONDS, 0.0
        while True:
            self._ended.wait(pause)
            if not self._still_wanted():
                return
            try:
                cursor, arrivals = store.inbox_since(cursor)
                if failing_since:
                    # What answers now may be another server than the one the cursor came from, so everybody looks.
                    cursor, arrivals = store.inbox_since(None)[0], []
                    self._wake_all(None)
            except Exception as error:
                failing_since = failing_since or time.monotonic()
                pause = IDLE_POLL_SECONDS
                if time.monotonic() - failing_since > GIVE_UP_SECONDS:
                    self._give_up(error)
                    return
                continue
            failing_since = 0.0
            self.polls += 1
            for arrival in arrivals:
                self._arrived(arrival)
            pause = POLL_SECONDS if arrivals else min(pause * 1.25, IDLE_POLL_SECONDS)

    def _still_wanted(self) -> bool:
        with self._lock:
            if self._by_place:
                self._ended.clear()
                return True
            self._polling = False
            return False

    def _arrived(self, arrival: InboxArrival) -> None:
        session = session_of(arrival.key) if arrival.run == OPERATIONS_RUN else None
        if session is not None:
            self.wake_session(arrival.namespace, session)
        else:
            self.wake(Place(*arrival))

    def _wake_all(self, failure: BaseException | None) -> None:
        with self._lock:
            waiters = [waiter for group in self._by_place.values() for waiter in group]
        for waiter in waiters:
            waiter.wake(failure)

    def _give_up(self, error: Exception) -> None:
        with self._lock:
            self._polling = False
        unavailable = StoreUnavailable(
            f"the store could not be read for {GIVE_UP_SECONDS:.0f} seconds",
            hint="The waits are kept; wait for them again when the store answers.",
        )
        unavailable.__cause__ = error
        self._wake_all(unavailable)


def _remove(groups: dict[K, list[Waiter]], name: K, waiter: Waiter) -> None:
    group = groups[name]
    group.remove(waiter)
    if not group:
        del groups[name]


_known: WeakKeyDictionary[Store, WakeUps] = WeakKeyDictionary()
_knowing = threading.Lock()


def _after_fork_in_child() -> None:
    global _knowing
    _knowing = threading.Lock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_after_fork_in_child)


def wake_ups_of(store: Store) -> WakeUps:
    """The one of this store object, whoever asks: what one desk resolves wakes those who wait at another."""
    with _knowing:
        found = _known.get(store)
        if found is None:
            found = _known[store] = WakeUps(store)
        return found
