"""What is written of waits, and what a key opens. The desk's pen: it keeps the rows, the desk says what for."""

from __future__ import annotations

from typing import Any, NamedTuple

from reenact.core.events import TERMINAL_KINDS, OperationNoted
from reenact.core.links import OPERATIONS_RUN
from reenact.core.wait_keys import DECOY, Resolution, WaitIdentity, WaitKey, parse_wait_key
from reenact.effect.keys import KeyRing
from reenact.effect.waits import rows
from reenact.effect.waits.rows import Pin
from reenact.effect.waits.wakeups import Place, wake_ups_of
from reenact.errors import InvalidInput
from reenact.journal.inbox import Posted, post
from reenact.journal.operations import OperationsJournal
from reenact.journal.sources import Sources
from reenact.store.contract import InboxRow, Store

SESSION_CANCELLED = "session_cancelled"
LOOKED_FOR_AT_ONCE = 32


class Opened(NamedTuple):
    """What one look-up shows of a wait that its key opens."""

    key: WaitKey
    pin: Pin
    row: InboxRow | None


class Ended(NamedTuple):
    resolution: Resolution
    number: int
    """Its place in the run's inbox: of two waits of a run, the smaller number ended first."""
    mine: bool = False
    """This very call ended it."""


def readable(key: WaitKey | str) -> WaitKey:
    """The key, or one that opens nothing in place of what is none: it gets the same answer by the same way."""
    if isinstance(key, WaitKey):
        return key if key.is_well_formed() else DECOY
    try:
        return parse_wait_key(key)
    except InvalidInput:
        return DECOY


class WaitLedger:
    def __init__(self, store: Store, namespace: str, keyring: KeyRing, sources: Sources) -> None:
        self.store = store
        self.namespace = namespace
        self.keyring = keyring
        self.sources = sources
        self.wake_ups = wake_ups_of(store)

    # What a key opens

    def open(self, key: WaitKey) -> Opened | None:
        """None for every key that opens nothing. One HMAC and one look-up in any case, and no way out between them."""
        genuine = self.keyring.verifies(key)
        made = (key.run, rows.pin_key(key.wait_id))
        again = (key.run, rows.reissue_key(key.wait_id, key.key_id))
        ended = (key.run, rows.resolution_key(key.wait_id))
        revoked = (OPERATIONS_RUN, rows.revocation_key(key.session))
        found = self.store.inbox_find(self.namespace, [made, again, ended, revoked])
        if not genuine or key.namespace != self.namespace or made not in found or revoked in found:
            return None
        pin = rows.pin_of(rows.payload_of(found[made]))
        if pin.session != key.session or (pin.key_id != key.key_id and again not in found):
            return None
        return Opened(key, pin, found.get(ended))

    def ended(self, opened: Opened) -> Ended | None:
        """How the wait ended; None while it is open. A cancelled session ends it here, for whoever looks first."""
        if opened.row is not None:
            return Ended(rows.resolution_of(rows.payload_of(opened.row)), opened.row.number)
        session, generation = opened.pin.session, opened.pin.generation
        if session is None:
            return None
        cancelled = (OPERATIONS_RUN, rows.cancellation_key(session, generation + 1))
        if cancelled not in self.store.inbox_find(self.namespace, [cancelled]):
            return None
        return self.end(opened.key, Resolution.cancelled(SESSION_CANCELLED))

    def end(self, key: WaitKey, resolution: Resolution) -> Ended:
        """Ends the wait unless it has ended; how it ended in either case. Wakes whoever waits for it here."""
        return self.end_wait(key.run, key.wait_id, resolution)

    def end_wait(self, run: str, wait_id: str, resolution: Resolution) -> Ended:
        payload = rows.resolution_payload(resolution, self.nonce())
        posted = self.post(run, rows.resolution_key(wait_id), payload)
        self.wake_ups.wake(self.place(run, wait_id))
        return Ended(rows.resolution_of(posted.payload), posted.number, posted.accepted)

    def cancellations(self, session: str) -> int:
        """How often the session has been cancelled."""
        start = 1
        while True:
            numbers = range(start, start + LOOKED_FOR_AT_ONCE)
            pairs = [(OPERATIONS_RUN, rows.cancellation_key(session, number)) for number in numbers]
            found = len(self.store.inbox_find(self.namespace, pairs))
            if found < LOOKED_FOR_AT_ONCE:
                return start - 1 + found
            start += LOOKED_FOR_AT_ONCE

    def run_has_ended(self, run: str) -> bool:
        row = self.store.run_row(self.namespace, run)
        return row is not None and row.last is not None and row.last.kind in TERMINAL_KINDS

    # Writing

    def post(self, run: str, key: str, payload: Any) -> Posted:
        return post(self.store, run, key, payload, self.namespace, sources=self.sources)

    def nonce(self) -> str:
        return self.sources.entropy(8).hex()

    def place(self, run: str, wait_id: str) -> Place:
        return Place(self.namespace, run, rows.resolution_key(wait_id))

    def operations(self) -> OperationsJournal:
        return OperationsJournal.open_for(self.store, self.namespace, sources=self.sources)

    def note(self, operation: str, run: str, identity: WaitIdentity, **more: Any) -> None:
        """Never with a value: what stands in the operations journal cannot be erased."""
        detail = {"run": run, "kind": identity.kind, "name": identity.name, "ordinal": identity.ordinal, **more}
        self.operations().note(OperationNoted(operation=operation, detail=detail))

    def note_objection(self, key: WaitKey, resolution: Resolution, terminal: Resolution, *, late: bool) -> None:
        """Notes that somebody came with another resolution. Once for each wait: a key must not fill the journal."""
        if not self.post(key.run, rows.objection_key(key.wait_id), {"nonce": self.nonce()}).accepted:
            return
        operation = "late_resolution" if late else "conflicting_resolution"
        self.note(operation, key.run, key.identity, resolution=resolution.status, terminal=terminal.status)
