"""The desk where waits are made, resolved and waited for.

Rules:

1. A wait's end is one row of its run's inbox, and the first to write it wins: a resolution from outside, a
   cancellation, a time-out, having lost against another wait. Nobody has to be waiting yet.
2. A key opens its wait if its signature holds, it names this namespace, the wait was made under that secret, and its
   session was not revoked. Whatever is wrong, the answer is the same, after the same work: one HMAC, one look-up.
3. Which secret signs a wait is written when the wait is made, in the run's inbox and not in its journal: a journal has
   one writer, the holder of the run's lease, and whoever asks for a key need not be that one. Where two processes make
   a wait at once under different secrets, the inbox decides, and both hand out the same key.
4. Cancelling a session is one row too: waits made before it end as cancelled when they are next looked at, by whoever
   looks. So it is whole at every instant, however many waits there are and whatever dies in between.
5. A process that ends merely stops waiting.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from reenact.core.events import TERMINAL_KINDS, OperationNoted
from reenact.core.links import OPERATIONS_RUN, check_namespace, check_run_id
from reenact.core.wait_keys import (
    RESOLUTION_STATUSES,
    Resolution,
    ResolveOutcome,
    WaitIdentity,
    WaitKey,
    check_name,
    session_id,
)
from reenact.effect.keys import KeyRing
from reenact.effect.waits import rows
from reenact.effect.waits.first_of import FirstOf, decide, of_one_run
from reenact.effect.waits.ledger import LOOKED_FOR_AT_ONCE, Opened, WaitLedger, readable
from reenact.effect.waits.rows import Pin
from reenact.effect.waits.waiting import Flow, TaskWaiter, ThreadWaiter, wait_flow
from reenact.effect.waits.wakeups import Place
from reenact.errors import ClosedRun, InvalidInput, NotFound, Refused, RunExists, UnknownOrRevoked
from reenact.journal.beginning import create_header
from reenact.journal.sources import Sources, SystemSources
from reenact.store.contract import InboxRow, Store

T = TypeVar("T")

RUN_ENDED = "run_ended"
SIGNALS_REMEMBERED = 4096


class WaitDesk:
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
        self._wake_ups = self._ledger.wake_ups
        self._signals_before: dict[tuple[str, str], int] = {}

    def looking_threads(self) -> ThreadPoolExecutor:
        """Where asyncio tasks have this desk asked, since it may have to wait for its store."""
        return self._wake_ups.looking_threads()

    # Making waits

    def key(self, run: str, identity: WaitIdentity, *, session: str | None = None) -> WaitKey:
        """The key of a wait: the same one whenever and wherever it is asked for.

        Begins the run where there is none: a scoped host hands out keys before its run has recorded anything, and a
        key must not depend on which of the two came first. Such a run has no facts; its journal is opened, not created.
        """
        _check_own_run(run)
        identity.checked()
        if session is not None:
            check_name(session, "a session")
        issued = [(run, rows.reissue_key(identity.id, known)) for known in reversed(self.keyring.ids())]
        found = self.store.inbox_find(self.namespace, [(run, rows.pin_key(identity.id)), *issued])
        pin = self._pin(run, identity, session, found.pop((run, rows.pin_key(identity.id)), None))
        if pin.session != session:
            raise InvalidInput("this wait was made for another session", code="other_session")
        if found and not self.keyring.has(pin.key_id):
            pin = rows.pin_of(rows.payload_of(next(found[place] for place in issued if place in found)))
        return self._signed(run, identity, pin)

    def reissue(self, run: str, identity: WaitIdentity) -> WaitKey:
        """A key for a wait whose secret was lost or retired, under the present secret. The old key stays unknown."""
        _check_own_run(run)
        made = self.store.inbox_find(self.namespace, [(run, rows.pin_key(identity.id))])
        if not made:
            raise NotFound("there is no such wait to issue again", hint="Ask for its key.", code="unknown_wait")
        pin = rows.pin_of(rows.payload_of(next(iter(made.values()))))
        if self.keyring.has(pin.key_id):
            return self._signed(run, identity, pin)
        pin = pin._replace(key_id=self.keyring.current_id())
        self._ledger.post(run, rows.reissue_key(identity.id, pin.key_id), rows.pin_payload(identity, pin))
        self._ledger.note("wait_reissued", run, identity, key_id=pin.key_id)
        return self._signed(run, identity, pin)

    def _pin(self, run: str, identity: WaitIdentity, session: str | None, row: InboxRow | None) -> Pin:
        if row is not None:
            return rows.pin_of(rows.payload_of(row))
        self._begin_if_missing(run)
        pin = Pin(self.keyring.current_id(), session, 0 if session is None else self._ledger.cancellations(session))
        return rows.pin_of(self._ledger.post(run, rows.pin_key(identity.id), rows.pin_payload(identity, pin)).payload)

    def _signed(self, run: str, identity: WaitIdentity, pin: Pin) -> WaitKey:
        key = WaitKey(self.namespace, run, pin.session, identity.kind, identity.name, identity.ordinal, pin.key_id)
        return self.keyring.sign(key)

    def _begin_if_missing(self, run: str) -> None:
        row = self.store.run_row(self.namespace, run)
        if row is None:
            with suppress(RunExists):  # somebody else began it at the same moment
                create_header(self.store, run, self.namespace, {}, sources=self.sources)
        elif row.header.imported:
            raise Refused(f"run {run} was recorded elsewhere and waits for nothing here", code="imported_run")
        elif row.last is not None and row.last.kind in TERMINAL_KINDS:
            raise ClosedRun(f"run {run} has ended; it cannot wait any more")

    # Resolving

    def resolve(self, key: WaitKey | str, resolution: Resolution) -> ResolveOutcome:
        """Ends the wait, if nobody was faster; durable when it returns."""
        if resolution.status not in RESOLUTION_STATUSES:
            raise InvalidInput("not a resolution", code="bad_resolution")
        opened = self._ledger.open(readable(key))
        if opened is None:
            return ResolveOutcome.unknown_or_revoked()
        try:
            return self._resolve(opened, resolution)
        except NotFound:  # the run was removed between the look and the write
            return ResolveOutcome.unknown_or_revoked()

    def _resolve(self, opened: Opened, resolution: Resolution) -> ResolveOutcome:
        ended, late = self._ledger.ended(opened), False
        if ended is None:
            # A run may still end between this look and the write: then the resolution was accepted and is not read,
            # as a letter that arrives on the day somebody leaves.
            late = self._ledger.run_has_ended(opened.key.run)
            ended = self._ledger.end(opened.key, Resolution.cancelled(RUN_ENDED) if late else resolution)
            if ended.mine and not late:
                return ResolveOutcome.accepted()
        if late or not ended.resolution.same_as(resolution):
            self._ledger.note_objection(opened.key, resolution, ended.resolution, late=late)
        return ResolveOutcome.already_resolved(ended.resolution)

    def peek(self, key: WaitKey | str) -> Resolution | None:
        """How the wait ended; None while it is open."""
        return self._look(readable(key))

    def _look(self, key: WaitKey) -> Resolution | None:
        opened = self._ledger.open(key)
        if opened is None:
            raise UnknownOrRevoked
        ended = self._ledger.ended(opened)
        return None if ended is None else ended.resolution

    def signal(self, run: str, name: str, value: Any = None) -> int:
        """Sends a signal to a run of this store: the next one of that name. Returns its ordinal.

        For whoever can write to the store; a stranger gets the key of one signal.
        """
        _check_own_run(run)
        if self._ledger.run_has_ended(run):
            self._ledger.note("late_signal", run, WaitIdentity.process_signal(name, 1))
            raise ClosedRun(f"run {run} has ended; the signal is noted in the operations journal")
        ordinal = self._signals_before.get((run, name), 0)
        while True:
            free = self._first_free_signal(run, name, ordinal + 1)
            identity = WaitIdentity.process_signal(name, free)
            ended = self._ledger.end_wait(run, identity.id, Resolution.ok(value))
            if len(self._signals_before) >= SIGNALS_REMEMBERED:
                self._signals_before.clear()
            self._signals_before[run, name] = ordinal = free
            if ended.mine:
                return free

    def _first_free_signal(self, run: str, name: str, start: int) -> int:
        while True:
            ordinals = range(start, start + LOOKED_FOR_AT_ONCE)
            pairs = [(run, rows.resolution_key(WaitIdentity.process_signal(name, n).id)) for n in ordinals]
            taken = self.store.inbox_find(self.namespace, pairs)
            for ordinal, pair in zip(ordinals, pairs, strict=True):
                if pair not in taken:
                    return ordinal
            start += LOOKED_FOR_AT_ONCE

    # Sessions

    def cancel_session(self, session: str) -> None:
        """Every open wait of the session ends as cancelled. Waits that are made later are not touched."""
        check_name(session, "a session")
        self._ledger.operations()
        number = self._ledger.cancellations(session) + 1
        # If somebody else writes the same row at the same moment, theirs covers every wait that was there when we came.
        self._ledger.post(OPERATIONS_RUN, rows.cancellation_key(session, number), {"nonce": self._ledger.nonce()})
        self._wake_ups.wake_session(self.namespace, session_id(session))

    def revoke_session(self, session: str) -> None:
        """No key of the session opens anything any more, whenever it was or will be made. There is no way back."""
        check_name(session, "a session")
        place = (OPERATIONS_RUN, rows.revocation_key(session))
        if place not in self.store.inbox_find(self.namespace, [place]):
            # The note comes first: noted twice after a crash is better than revoked and not noted.
            self._ledger.operations().note(OperationNoted(operation="session_revoked", detail={"session": session}))
            self._ledger.post(*place, {"revoked": True})
        self._wake_ups.wake_session(self.namespace, session_id(session))

    # Waiting

    async def wait(
        self, key: WaitKey | str, *, cancel: asyncio.Event | None = None, deadline: float | None = None
    ) -> Resolution:
        """How the wait ends. `deadline` is in seconds since 1970, so that it means the same after a restart.

        Setting `cancel` and passing the deadline end the wait for everybody; cancelling the task that waits does not.
        """
        known = readable(key)
        waiter = TaskWaiter(self._wake_ups)
        with self._wake_ups.registered(*self._places([known]), waiter):
            return await waiter.drive(self._one(known, deadline, cancel), cancel)

    def wait_blocking(
        self, key: WaitKey | str, *, cancel: threading.Event | None = None, deadline: float | None = None
    ) -> Resolution:
        """`wait` for a thread."""
        known = readable(key)
        waiter = ThreadWaiter()
        with self._wake_ups.registered(*self._places([known]), waiter):
            return waiter.drive(self._one(known, deadline, cancel), cancel)

    async def wait_first(
        self, keys: Sequence[WaitKey | str], *, cancel: asyncio.Event | None = None, deadline: float | None = None
    ) -> FirstOf:
        """The first of several waits of one run. The others end as lost, unless they were resolved by themselves."""
        known = of_one_run([readable(key) for key in keys])
        waiter = TaskWaiter(self._wake_ups)
        with self._wake_ups.registered(*self._places(known), waiter):
            return await waiter.drive(self._first(known, deadline, cancel), cancel)

    def wait_first_blocking(
        self, keys: Sequence[WaitKey | str], *, cancel: threading.Event | None = None, deadline: float | None = None
    ) -> FirstOf:
        """`wait_first` for a thread."""
        known = of_one_run([readable(key) for key in keys])
        waiter = ThreadWaiter()
        with self._wake_ups.registered(*self._places(known), waiter):
            return waiter.drive(self._first(known, deadline, cancel), cancel)

    def _one(
        self, key: WaitKey, deadline: float | None, cancel: asyncio.Event | threading.Event | None
    ) -> Flow[Resolution]:
        return wait_flow(
            self._polled(lambda: self._look(key)),
            lambda: self._ledger.end(key, Resolution.cancelled()).resolution,
            lambda: self._ledger.end(key, Resolution.timeout()).resolution,
            self._seconds_until(deadline),
            cancel.is_set if cancel is not None else _never,
        )

    def _first(
        self, keys: Sequence[WaitKey], deadline: float | None, cancel: asyncio.Event | threading.Event | None
    ) -> Flow[FirstOf]:
        def end_all(resolution: Resolution) -> FirstOf:
            for key in keys:
                self._ledger.end(key, resolution)
            found = decide(self._ledger, keys)
            assert found is not None  # all of them have ended
            return found

        return wait_flow(
            self._polled(lambda: decide(self._ledger, keys)),
            lambda: end_all(Resolution.cancelled()),
            lambda: end_all(Resolution.timeout()),
            self._seconds_until(deadline),
            cancel.is_set if cancel is not None else _never,
        )

    def _polled(self, look: Callable[[], T]) -> Callable[[], T]:
        """Whoever has looked is told of what other processes write from then on."""

        def polled() -> T:
            self._wake_ups.ensure_polling()
            return look()

        return polled

    def _seconds_until(self, deadline: float | None) -> Callable[[], float | None]:
        return lambda: None if deadline is None else deadline - self.sources.now_us() / 1_000_000

    def _places(self, keys: Sequence[WaitKey]) -> tuple[list[Place], list[str]]:
        sessions = {session_id(key.session) for key in keys if key.session is not None}
        return [self._ledger.place(key.run, key.wait_id) for key in keys], sorted(sessions)


def _never() -> bool:
    return False


def _check_own_run(run: str) -> None:
    check_run_id(run)
    if run == OPERATIONS_RUN:
        raise InvalidInput("`operations` is the name of the operations journal, not of a run", code="bad_run_id")
