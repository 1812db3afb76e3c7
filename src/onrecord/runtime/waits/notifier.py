"""Wake the waiters of this process.

Rules:

1. A waiter registers, then looks, then sleeps. So a resolution is either visible to that look, or it arrives while the
   waiter is registered and wakes it.
2. A resolution written by this process wakes its waiters at once, through a dictionary.
3. One thread per store polls for the rows that other processes write, after a cursor: the cost does not grow with the
   number of waiters. The thread runs only while there are waiters, and its cursor is older than each waiter's look.
4. A woken waiter looks again and may find nothing. This module decides nothing.
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

from onrecord.core.links import OPERATIONS_RUN
from onrecord.errors import StoreUnavailable
from onrecord.runtime.waits.records import parse_session
from onrecord.store.contract import InboxArrival, Store

POLL_SECONDS = 0.02
IDLE_POLL_SECONDS = 0.25
GIVE_UP_SECONDS = 60.0
LOOKUP_THREADS = 4

K = TypeVar("K", bound=Hashable)


class ResolutionAddress(NamedTuple):
    """The inbox row in which a wait's resolution is written."""

    namespace: str
    run: str
    key: str


class Waiter(Protocol):
    def wake(self, failure: BaseException | None = None) -> None:
        """Wake the waiter. Any thread may call this, more than once, and without a resolution."""
        ...


class WaitNotifier:
    """The waiters of one store in this process."""

    def __init__(self, store: Store) -> None:
        self._store = ref(store)
        self.polls = 0
        """The number of successful polls."""
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._by_address: dict[ResolutionAddress, list[Waiter]] = {}
        self._by_session: dict[tuple[str, str], list[Waiter]] = {}
        self._polling = False
        self._ended = threading.Event()
        self._threads: ThreadPoolExecutor | None = None

    def _reset_after_fork(self) -> None:
        if self._pid != os.getpid():
            self._reset()  # a forked child has no threads, and a lock may be held by a thread that it lacks

    @contextmanager
    def registered(
        self, addresses: Sequence[ResolutionAddress], sessions: Sequence[str], waiter: Waiter
    ) -> Iterator[None]:
        """Register a waiter for the length of the block."""
        self._reset_after_fork()
        namespace = addresses[0].namespace
        names = [(namespace, session) for session in sessions]
        with self._lock:
            for address in addresses:
                self._by_address.setdefault(address, []).append(waiter)
            for name in names:
                self._by_session.setdefault(name, []).append(waiter)
        try:
            yield
        finally:
            with self._lock:
                for address in addresses:
                    _remove(self._by_address, address, waiter)
                for name in names:
                    _remove(self._by_session, name, waiter)
                if not self._by_address:
                    self._ended.set()

    def count_waiters(self) -> int:
        with self._lock:
            return sum(map(len, self._by_address.values()))

    def wake(self, address: ResolutionAddress) -> None:
        self._reset_after_fork()
        with self._lock:
            waiters = list(self._by_address.get(address, ()))
        for waiter in waiters:
            waiter.wake()

    def wake_session(self, namespace: str, session: str) -> None:
        self._reset_after_fork()
        with self._lock:
            waiters = list(self._by_session.get((namespace, session), ()))
        for waiter in waiters:
            waiter.wake()

    def lookup_threads(self) -> ThreadPoolExecutor:
        """Return the threads for look-ups of asyncio tasks: a slow store must not block the event loop."""
        self._reset_after_fork()
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="onrecord-waits")
            return self._threads

    # Other processes

    def ensure_polling(self) -> None:
        """Start the polling thread if there is none. A waiter calls this after it registered and before it looks."""
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
            threading.Thread(target=self._poll, args=(store, cursor), name="onrecord-inbox", daemon=True).start()

    def _poll(self, store: Store, cursor: str) -> None:
        pause, failing_since = POLL_SECONDS, 0.0
        while True:
            self._ended.wait(pause)
            if not self._keep_polling():
                return
            try:
                cursor, arrivals = store.inbox_since(cursor)
                if failing_since:
                    # Another server may answer now, for which the cursor means nothing: every waiter looks again.
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
                self._wake_for(arrival)
            pause = POLL_SECONDS if arrivals else min(pause * 1.25, IDLE_POLL_SECONDS)

    def _keep_polling(self) -> bool:
        with self._lock:
            if self._by_address:
                self._ended.clear()
                return True
            self._polling = False
            return False

    def _wake_for(self, arrival: InboxArrival) -> None:
        session = parse_session(arrival.key) if arrival.run == OPERATIONS_RUN else None
        if session is not None:
            self.wake_session(arrival.namespace, session)
        else:
            self.wake(ResolutionAddress(*arrival))

    def _wake_all(self, failure: BaseException | None) -> None:
        with self._lock:
            waiters = [waiter for group in self._by_address.values() for waiter in group]
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


_notifiers: WeakKeyDictionary[Store, WaitNotifier] = WeakKeyDictionary()
_notifiers_lock = threading.Lock()


def _after_fork_in_child() -> None:
    global _notifiers_lock
    _notifiers_lock = threading.Lock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_after_fork_in_child)


def get_notifier(store: Store) -> WaitNotifier:
    """Return the notifier of a store object. Registries share it: a resolution by one wakes the waiters of another."""
    with _notifiers_lock:
        found = _notifiers.get(store)
        if found is None:
            found = _notifiers[store] = WaitNotifier(store)
        return found
