"""The wait registry: create waits, resolve them and wait for their resolutions.

Rules:

1. A wait ends with one row of its run's inbox, and the first writer of that row wins: a resolution from outside, a
   cancellation, a time-out, or the loss against another wait. A wait can end before any process waits for it.
2. A key is accepted if its signature is valid, it names this namespace, the wait was created under that secret, and its
   session was not revoked. Every refusal gives the same answer after the same work: one HMAC, one look-up.
3. The id of the signing secret is written at creation in the run's inbox, not in its journal: only the holder of the
   lease writes the journal, and other callers ask for keys too. If two processes create a wait at the same time under
   different secrets, the inbox decides, and both return the same key.
4. Cancelling a session is one row. A wait created before that row ends as cancelled the next time a process reads it.
   So a cancellation is atomic for any number of waits.
5. A process that ends stops waiting. It does not end the wait.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from onrecord.core.events import TERMINAL_KINDS, OperationNoted
from onrecord.core.links import OPERATIONS_RUN, check_namespace, check_run_id
from onrecord.core.wait_keys import (
    RESOLUTION_STATUSES,
    Resolution,
    ResolveOutcome,
    WaitIdentity,
    WaitKey,
    check_name,
    session_id,
)
from onrecord.errors import ClosedRun, InvalidInput, NotFound, Refused, RunExists, UnknownOrRevoked
from onrecord.journal.create import create_header
from onrecord.journal.sources import Sources, SystemSources
from onrecord.runtime.secrets.keys import KeyRing
from onrecord.runtime.waits import records
from onrecord.runtime.waits.first_of import FirstOf, check_one_run, decide_first
from onrecord.runtime.waits.flow import Flow, TaskWaiter, ThreadWaiter, wait_flow
from onrecord.runtime.waits.ledger import LOOKUP_BATCH, OpenedWait, WaitLedger, parse_or_decoy
from onrecord.runtime.waits.notifier import ResolutionAddress
from onrecord.runtime.waits.records import Pin
from onrecord.store.contract import InboxRow, Store

T = TypeVar("T")

RUN_ENDED = "run_ended"
SIGNALS_REMEMBERED = 4096


class WaitRegistry:
    def __init__(
        self,
        store: Store,
        namespace: str = "default",
        *,
        keyring: KeyRing | None = None,
        sources: Sources | None = None,
    ) -> None:
        self.store = store
        self.namespace = check_namespace(namespace)
        self.sources = sources or SystemSources()
        self.keyring = keyring or KeyRing(sources=self.sources)
        self._ledger = WaitLedger(store, namespace, self.keyring, self.sources)
        self._notifier = self._ledger.notifier
        self._last_signals: dict[tuple[str, str], int] = {}

    def lookup_threads(self) -> ThreadPoolExecutor:
        """Return the threads in which asyncio tasks call this registry, since the store may block."""
        return self._notifier.lookup_threads()

    # Creating waits

    def key(self, run: str, identity: WaitIdentity, *, session: str | None = None) -> WaitKey:
        """Return the key of a wait, and create the wait if needed. Every call in every process returns the same key.

        Creates the header of a missing run: a scoped host gives out keys before its run has recorded anything, and the
        key must not depend on the order of the two. Such a run has no facts; its journal is then opened, not created.
        """
        _check_own_run(run)
        identity.checked()
        if session is not None:
            check_name(session, "a session")
        reissued = [(run, records.reissue_key(identity.id, key_id)) for key_id in reversed(self.keyring.ids())]
        found = self.store.inbox_find(self.namespace, [(run, records.pin_key(identity.id)), *reissued])
        pin = self._load_or_create_pin(run, identity, session, found.pop((run, records.pin_key(identity.id)), None))
        if pin.session != session:
            raise InvalidInput("this wait was created for another session", code="other_session")
        if found and not self.keyring.has(pin.key_id):
            pin = records.parse_pin(records.decode_payload(next(found[pair] for pair in reissued if pair in found)))
        return self._sign(run, identity, pin)

    def reissue(self, run: str, identity: WaitIdentity) -> WaitKey:
        """Return a key under the current secret for a wait whose secret is gone. The old key stays refused."""
        _check_own_run(run)
        found = self.store.inbox_find(self.namespace, [(run, records.pin_key(identity.id))])
        if not found:
            raise NotFound("there is no such wait to issue again", hint="Ask for its key.", code="unknown_wait")
        pin = records.parse_pin(records.decode_payload(next(iter(found.values()))))
        if self.keyring.has(pin.key_id):
            return self._sign(run, identity, pin)
        pin = pin._replace(key_id=self.keyring.current_id())
        self._ledger.post(run, records.reissue_key(identity.id, pin.key_id), records.pin_payload(identity, pin))
        self._ledger.note("wait_reissued", run, identity, key_id=pin.key_id)
        return self._sign(run, identity, pin)

    def _load_or_create_pin(self, run: str, identity: WaitIdentity, session: str | None, row: InboxRow | None) -> Pin:
        if row is not None:
            return records.parse_pin(records.decode_payload(row))
        self._create_run_if_missing(run)
        generation = 0 if session is None else self._ledger.count_cancellations(session)
        pin = Pin(self.keyring.current_id(), session, generation)
        posted = self._ledger.post(run, records.pin_key(identity.id), records.pin_payload(identity, pin))
        return records.parse_pin(posted.payload)

    def _sign(self, run: str, identity: WaitIdentity, pin: Pin) -> WaitKey:
        key = WaitKey(self.namespace, run, pin.session, identity.kind, identity.name, identity.ordinal, pin.key_id)
        return self.keyring.sign(key)

    def _create_run_if_missing(self, run: str) -> None:
        row = self.store.run_row(self.namespace, run)
        if row is None:
            with suppress(RunExists):  # another process created it at the same time
                create_header(self.store, run, self.namespace, {}, sources=self.sources)
        elif row.header.imported:
            raise Refused(f"run {run} was imported; it has no waits here", code="imported_run")
        elif row.last is not None and row.last.kind in TERMINAL_KINDS:
            raise ClosedRun(f"run {run} has ended; it cannot wait")

    # Resolving

    def resolve(self, key: WaitKey | str, resolution: Resolution) -> ResolveOutcome:
        """End the wait unless it has ended. The outcome is durable when this returns."""
        if resolution.status not in RESOLUTION_STATUSES:
            raise InvalidInput("not a resolution", code="bad_resolution")
        wait = self._ledger.open(parse_or_decoy(key))
        if wait is None:
            return ResolveOutcome.unknown_or_revoked()
        try:
            return self._resolve(wait, resolution)
        except NotFound:  # the run was removed between the look-up and the write
            return ResolveOutcome.unknown_or_revoked()

    def _resolve(self, wait: OpenedWait, resolution: Resolution) -> ResolveOutcome:
        end, late = self._ledger.find_end(wait), False
        if end is None:
            # A run may end between this check and the write: the resolution is then accepted and never read.
            late = self._ledger.run_has_ended(wait.key.run)
            end = self._ledger.end(wait.key, Resolution.cancelled(RUN_ENDED) if late else resolution)
            if end.accepted and not late:
                return ResolveOutcome.accepted()
        if late or not end.resolution.same_as(resolution):
            self._ledger.note_objection(wait.key, resolution, end.resolution, late=late)
        return ResolveOutcome.already_resolved(end.resolution)

    def peek(self, key: WaitKey | str) -> Resolution | None:
        """Return the resolution, or None while the wait is open."""
        return self._find_resolution(parse_or_decoy(key))

    def _find_resolution(self, key: WaitKey) -> Resolution | None:
        wait = self._ledger.open(key)
        if wait is None:
            raise UnknownOrRevoked
        end = self._ledger.find_end(wait)
        return None if end is None else end.resolution

    def signal(self, run: str, name: str, value: Any = None) -> int:
        """Send the next signal of that name to a run of this store. Return its ordinal.

        Signals are for callers that can write to the store. An outside caller gets the key of one signal instead.
        """
        _check_own_run(run)
        if self._ledger.run_has_ended(run):
            self._ledger.note("late_signal", run, WaitIdentity.process_signal(name, 1))
            raise ClosedRun(f"run {run} has ended; the signal is noted in the operations journal")
        ordinal = self._last_signals.get((run, name), 0)
        while True:
            free = self._find_free_signal(run, name, ordinal + 1)
            identity = WaitIdentity.process_signal(name, free)
            end = self._ledger.end_wait(run, identity.id, Resolution.ok(value))
            if len(self._last_signals) >= SIGNALS_REMEMBERED:
                self._last_signals.clear()
            self._last_signals[run, name] = ordinal = free
            if end.accepted:
                return free

    def _find_free_signal(self, run: str, name: str, start: int) -> int:
        while True:
            ordinals = range(start, start + LOOKUP_BATCH)
            pairs = [(run, records.resolution_key(WaitIdentity.process_signal(name, n).id)) for n in ordinals]
            taken = self.store.inbox_find(self.namespace, pairs)
            for ordinal, pair in zip(ordinals, pairs, strict=True):
                if pair not in taken:
                    return ordinal
            start += LOOKUP_BATCH

    # Sessions

    def cancel_session(self, session: str) -> None:
        """End every open wait of the session as cancelled. Waits that are created later stay open."""
        check_name(session, "a session")
        self._ledger.operations()
        number = self._ledger.count_cancellations(session) + 1
        # If another process writes the same row first, its row covers every wait that exists now.
        self._ledger.post(OPERATIONS_RUN, records.cancellation_key(session, number), {"nonce": self._ledger.nonce()})
        self._notifier.wake_session(self.namespace, session_id(session))

    def revoke_session(self, session: str) -> None:
        """Refuse every key of the session from now on, also of waits that are created later. This cannot be undone."""
        check_name(session, "a session")
        revocation = (OPERATIONS_RUN, records.revocation_key(session))
        if revocation not in self.store.inbox_find(self.namespace, [revocation]):
            # The note is written first: after a crash, two notes are better than a revocation without one.
            self._ledger.operations().note(OperationNoted(operation="session_revoked", detail={"session": session}))
            self._ledger.post(*revocation, {"revoked": True})
        self._notifier.wake_session(self.namespace, session_id(session))

    # Waiting

    async def wait(
        self, key: WaitKey | str, *, cancel: asyncio.Event | None = None, deadline: float | None = None
    ) -> Resolution:
        """Wait for the resolution and return it. `deadline` is in seconds since 1970, so that it survives a restart.

        Setting `cancel` and passing the deadline end the wait for every process; cancelling the asyncio task does not.
        """
        known = parse_or_decoy(key)
        waiter = TaskWaiter(self._notifier)
        with self._notifier.registered(*self._addresses([known]), waiter):
            return await waiter.drive(self._wait_for_one(known, deadline, cancel), cancel)

    def wait_blocking(
        self, key: WaitKey | str, *, cancel: threading.Event | None = None, deadline: float | None = None
    ) -> Resolution:
        """Wait as `wait` does, in a thread."""
        known = parse_or_decoy(key)
        waiter = ThreadWaiter()
        with self._notifier.registered(*self._addresses([known]), waiter):
            return waiter.drive(self._wait_for_one(known, deadline, cancel), cancel)

    async def wait_first(
        self, keys: Sequence[WaitKey | str], *, cancel: asyncio.Event | None = None, deadline: float | None = None
    ) -> FirstOf:
        """Return the first resolved wait of several of one run. The others end as lost unless they are resolved too."""
        known = check_one_run([parse_or_decoy(key) for key in keys])
        waiter = TaskWaiter(self._notifier)
        with self._notifier.registered(*self._addresses(known), waiter):
            return await waiter.drive(self._wait_for_first(known, deadline, cancel), cancel)

    def wait_first_blocking(
        self, keys: Sequence[WaitKey | str], *, cancel: threading.Event | None = None, deadline: float | None = None
    ) -> FirstOf:
        """Wait as `wait_first` does, in a thread."""
        known = check_one_run([parse_or_decoy(key) for key in keys])
        waiter = ThreadWaiter()
        with self._notifier.registered(*self._addresses(known), waiter):
            return waiter.drive(self._wait_for_first(known, deadline, cancel), cancel)

    def _wait_for_one(
        self, key: WaitKey, deadline: float | None, cancel: asyncio.Event | threading.Event | None
    ) -> Flow[Resolution]:
        return wait_flow(
            self._with_polling(lambda: self._find_resolution(key)),
            lambda: self._ledger.end(key, Resolution.cancelled()).resolution,
            lambda: self._ledger.end(key, Resolution.timeout()).resolution,
            self._seconds_until(deadline),
            cancel.is_set if cancel is not None else _never,
        )

    def _wait_for_first(
        self, keys: Sequence[WaitKey], deadline: float | None, cancel: asyncio.Event | threading.Event | None
    ) -> Flow[FirstOf]:
        def end_all(resolution: Resolution) -> FirstOf:
            for key in keys:
                self._ledger.end(key, resolution)
            found = decide_first(self._ledger, keys)
            assert found is not None  # all of them have ended
            return found

        return wait_flow(
            self._with_polling(lambda: decide_first(self._ledger, keys)),
            lambda: end_all(Resolution.cancelled()),
            lambda: end_all(Resolution.timeout()),
            self._seconds_until(deadline),
            cancel.is_set if cancel is not None else _never,
        )

    def _with_polling(self, look: Callable[[], T]) -> Callable[[], T]:
        """Return `look` with polling started before it: writes of other processes after the look wake the waiter."""

        def polled() -> T:
            self._notifier.ensure_polling()
            return look()

        return polled

    def _seconds_until(self, deadline: float | None) -> Callable[[], float | None]:
        return lambda: None if deadline is None else deadline - self.sources.now_us() / 1_000_000

    def _addresses(self, keys: Sequence[WaitKey]) -> tuple[list[ResolutionAddress], list[str]]:
        sessions = {session_id(key.session) for key in keys if key.session is not None}
        return [self._ledger.address(key.run, key.wait_id) for key in keys], sorted(sessions)


def _never() -> bool:
    return False


def _check_own_run(run: str) -> None:
    check_run_id(run)
    if run == OPERATIONS_RUN:
        raise InvalidInput("`operations` is the name of the operations journal, not of a run", code="bad_run_id")
