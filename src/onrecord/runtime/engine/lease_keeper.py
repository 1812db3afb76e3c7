"""Keeping hold of the runs of this process: leases are renewed, and a word to end a run is heard.

One thread for all of them. It begins with the first run and ends with the process.
"""

from __future__ import annotations

import os
import threading
from _thread import allocate_lock
from collections.abc import Callable
from contextlib import suppress
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
"""Under this key of its inbox a run is asked to end."""
LOOK_SECONDS = 1.0
RENEWALS_PER_LEASE = 3
"""So that two renewals may fail before the lease is lost."""


class _Kept(NamedTuple):
    run: LiveRun
    lease_seconds: float
    renewing: Any
    """A lock: nothing is renewed once it was let go."""


class LeaseKeeper:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[int, _Kept] = {}
        self._alone: WeakValueDictionary[tuple[Any, ...], Journal] = WeakValueDictionary()
        self._opening: set[tuple[Any, ...]] = set()
        self._renewed: dict[int, float] = {}
        self._thread: threading.Thread | None = None
        self._pid = 0
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
        with self._lock:
            if self._pid != os.getpid():  # a forked child carries nothing of its parent's
                self._kept.clear()
                self._renewed.clear()
            self._kept[id(run)] = _Kept(run, lease_seconds, allocate_lock())
            self._renewed[id(run)] = monotonic()
            if self._thread is None or self._pid != os.getpid():
                self._pid = os.getpid()
                self._thread = threading.Thread(target=self._watch, name="onrecord-keeper", daemon=True)
                self._thread.start()
            elif lease_seconds < LOOK_SECONDS * RENEWALS_PER_LEASE:
                self._wake.set()

    def let_go(self, run: LiveRun) -> None:
        with self._lock:
            kept = self._kept.pop(id(run), None)
            self._renewed.pop(id(run), None)
        if kept is not None:
            kept.renewing.acquire()  # a renewal under way has ended; none follows

    def find(self, store: Store, run: str, namespace: str) -> LiveRun | None:
        """The run, if this process carries it."""
        with self._lock:
            kept = [one.run for one in self._kept.values()]
        for one in kept:
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
            kept = list(self._kept.values())
        for one in kept:
            self._renew(one)
        with suppress(StoreError):  # the next look comes soon
            self._hear(kept)

    def _renew(self, kept: _Kept) -> None:
        run = kept.run
        if monotonic() - self._renewed.get(id(run), 0.0) < kept.lease_seconds / RENEWALS_PER_LEASE:
            return
        assert run.journal is not None
        if not kept.renewing.acquire(blocking=False):
            return  # it was let go
        try:
            run.journal.renew(kept.lease_seconds)
        except Refused:
            run.stop(Superseded(f"run {run.name} was taken over by another process"))
            return
        except StoreError:
            return  # every append checks the epoch: nothing is written that must not be
        finally:
            kept.renewing.release()
        with self._lock:
            if id(run) in self._renewed:
                self._renewed[id(run)] = monotonic()

    def _hear(self, kept: list[_Kept]) -> None:
        """Asks each store once for all its runs."""
        by_store: dict[tuple[int, str], tuple[Store, list[LiveRun]]] = {}
        for one in kept:
            store, namespace = one.run.reader.store, one.run.reader.namespace
            by_store.setdefault((id(store), namespace), (store, []))[1].append(one.run)
        for (_, namespace), (store, runs) in by_store.items():
            found = store.inbox_find(namespace, [(run.name, CANCEL_KEY) for run in runs])
            for run in runs:
                if (run.name, CANCEL_KEY) in found:
                    run.cancellation.ask(_reason(found[run.name, CANCEL_KEY]))


def _place(store: Store, run: str, namespace: str) -> tuple[Any, ...]:
    return store.private_url if not store.url.startswith("memory") else id(store), namespace, run, os.getpid()


def _reason(row: InboxRow) -> Any:
    payload = decode(parse_stored(row.payload))
    return payload.get("reason") if isinstance(payload, dict) else None


keeper = LeaseKeeper()
