"""Keep the leases of this process: renew them, and look for requests to cancel its runs.

One thread serves all of them. It starts with the first lease and ends with the process.
"""

from __future__ import annotations

import os
import threading
from _thread import allocate_lock
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from os import urandom
from time import monotonic
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from onrecord.core.canonical import parse_stored
from onrecord.core.codec import decode
from onrecord.errors import Refused, StoreError
from onrecord.journal.journal import Journal
from onrecord.runtime.engine.run import LiveRun
from onrecord.runtime.engine.stops import Superseded
from onrecord.store.contract import InboxRow, Store

CANCEL_KEY = "cancel"
"""The key in a run's inbox under which it is asked to end."""
LOOK_SECONDS = 1.0
RENEWALS_PER_LEASE = 3
"""Two renewals may fail before the lease is lost."""


class _Kept(NamedTuple):
    journal: Journal
    lease_seconds: float
    on_lost: Callable[[], None]
    renewing: Any
    """A lock: nothing is renewed once it was let go."""


class LeaseKeeper:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything, as a forked child does: it has none of its parent's leases and threads."""
        self._lock = threading.Lock()
        self._runs: dict[int, LiveRun] = {}
        self._kept: dict[int, _Kept] = {}
        """By the id of the journal."""
        self._alone: WeakValueDictionary[tuple[Any, ...], Journal] = WeakValueDictionary()
        self._opening: set[tuple[Any, ...]] = set()
        self._renewed: dict[int, float] = {}
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()

    # A lease belongs to a process and cannot tell two threads of it apart: that is done here.

    def open_alone(self, store: Store, run: str, namespace: str, lease_seconds: float) -> Journal:
        """Takes an existing run over, unless this process carries it already."""
        return self._held(
            store, run, namespace, lambda: Journal.open(store, run, namespace, lease_seconds=lease_seconds)
        )

    def create_alone(self, store: Store, run: str | None, namespace: str, **options: Any) -> Journal:
        """Begins a run that nobody else of this process picks up."""
        name = run if run is not None else urandom(10).hex()
        return self._held(store, name, namespace, lambda: Journal.create(store, name, namespace, **options))

    def _held(self, store: Store, run: str, namespace: str, make: Callable[[], Journal]) -> Journal:
        key = _place(store, run, namespace)
        with self._lock:
            if key in self._opening or key in self._alone:
                raise Refused(f"run {run} is being carried by this process already", code="run_busy")
            self._opening.add(key)
        try:
            journal = self._alone[key] = make()
        finally:
            self._opening.discard(key)
        return journal

    def give_back(self, journal: Journal) -> None:
        self._alone.pop(_place(journal.store, journal.run, journal.namespace), None)

    def keep(self, run: LiveRun, lease_seconds: float) -> None:
        """Keep the lease of a run, and let the run be found and cancelled."""
        assert run.journal is not None
        self.keep_lease(run.journal, lease_seconds, partial(_supersede, run))
        with self._lock:
            self._runs[id(run)] = run

    def let_go(self, run: LiveRun) -> None:
        with self._lock:
            self._runs.pop(id(run), None)
        if run.journal is not None:
            self.let_go_lease(run.journal)

    def keep_lease(
        self, journal: Journal, lease_seconds: float, on_lost: Callable[[], None], claimed_at: float | None = None
    ) -> None:
        """Renew the lease until it is let go. `on_lost` is called in another thread when a renewal is refused."""
        with self._lock:
            if id(journal) in self._kept:
                return
            self._kept[id(journal)] = _Kept(journal, lease_seconds, on_lost, allocate_lock())
            self._renewed[id(journal)] = monotonic() if claimed_at is None else claimed_at
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="onrecord-keeper", daemon=True)
                self._thread.start()
            elif lease_seconds < LOOK_SECONDS * RENEWALS_PER_LEASE:
                self._wake.set()

    def let_go_lease(self, journal: Journal) -> None:
        with self._lock:
            kept = self._kept.pop(id(journal), None)
            self._renewed.pop(id(journal), None)
        if kept is not None:
            kept.renewing.acquire()  # a renewal under way has ended; none follows

    def find(self, store: Store, run: str, namespace: str) -> LiveRun | None:
        """Return the run if this process executes it."""
        with self._lock:
            runs = list(self._runs.values())
        for one in runs:
            if one.name == run and one.reader.store is store and one.reader.namespace == namespace:
                return one
        return None

    def _watch(self) -> None:
        while True:
            with self._lock:
                seconds = [one.lease_seconds for one in self._kept.values()]
            shortest = min(seconds, default=LOOK_SECONDS * RENEWALS_PER_LEASE)
            self._wake.wait(min(LOOK_SECONDS, shortest / RENEWALS_PER_LEASE))
            self._wake.clear()
            self._look()

    def _look(self) -> None:
        """Renew leases and look for cancellations. The thread's own frame keeps no run alive."""
        with self._lock:
            kept, runs = list(self._kept.values()), list(self._runs.values())
        for one in kept:
            self._renew(one)
        with suppress(StoreError):  # the next look comes soon
            self._hear(runs)

    def _renew(self, kept: _Kept) -> None:
        journal = kept.journal
        if monotonic() - self._renewed.get(id(journal), 0.0) < kept.lease_seconds / RENEWALS_PER_LEASE:
            return
        if not kept.renewing.acquire(blocking=False):
            return  # it was let go
        try:
            asked_at = monotonic()
            journal.renew(kept.lease_seconds)
        except Refused:
            kept.on_lost()
            return
        except StoreError:
            return  # every append checks the epoch: nothing is written that must not be
        finally:
            kept.renewing.release()
        with self._lock:
            if id(journal) in self._renewed:
                self._renewed[id(journal)] = asked_at

    def _hear(self, runs: list[LiveRun]) -> None:
        """Ask each store once for all its runs."""
        by_store: dict[tuple[int, str], tuple[Store, list[LiveRun]]] = {}
        for one in runs:
            store, namespace = one.reader.store, one.reader.namespace
            by_store.setdefault((id(store), namespace), (store, []))[1].append(one)
        for (_, namespace), (store, held) in by_store.items():
            found = store.inbox_find(namespace, [(run.name, CANCEL_KEY) for run in held])
            for run in held:
                if (run.name, CANCEL_KEY) in found:
                    run.cancellation.ask(_reason(found[run.name, CANCEL_KEY]))


def _place(store: Store, run: str, namespace: str) -> tuple[Any, ...]:
    return store.private_url if not store.url.startswith("memory") else id(store), namespace, run


def _supersede(run: LiveRun) -> None:
    run.stop(Superseded(f"run {run.name} was taken over by another process"))


def _reason(row: InboxRow) -> Any:
    payload = decode(parse_stored(row.payload))
    return payload.get("reason") if isinstance(payload, dict) else None


keeper = LeaseKeeper()
os.register_at_fork(after_in_child=keeper.reset)
