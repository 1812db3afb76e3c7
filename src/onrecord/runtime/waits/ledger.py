"""Read and write the inbox rows of waits, and verify wait keys. `registry.py` decides when."""

from __future__ import annotations

from typing import Any, NamedTuple

from onrecord.core.events import TERMINAL_KINDS, OperationNoted
from onrecord.core.links import OPERATIONS_RUN
from onrecord.core.wait_keys import DECOY, Resolution, WaitIdentity, WaitKey, parse_wait_key
from onrecord.errors import InvalidInput
from onrecord.journal.inbox import Posted, post
from onrecord.journal.operations import OperationsJournal
from onrecord.journal.sources import Sources
from onrecord.runtime.secrets.keys import KeyRing
from onrecord.runtime.waits import records
from onrecord.runtime.waits.notifier import ResolutionAddress, get_notifier
from onrecord.runtime.waits.records import Pin
from onrecord.store.contract import InboxRow, Store

SESSION_CANCELLED = "session_cancelled"
LOOKUP_BATCH = 32


class OpenedWait(NamedTuple):
    """A wait whose key was accepted, as one look-up found it."""

    key: WaitKey
    pin: Pin
    row: InboxRow | None
    """The row of its resolution, if it has ended."""


class WaitEnd(NamedTuple):
    resolution: Resolution
    number: int
    """Its number in the run's inbox: of two waits of a run, the smaller number ended first."""
    accepted: bool = False
    """True if this call ended the wait."""


def parse_or_decoy(key: WaitKey | str) -> WaitKey:
    """Return the key, or `DECOY` for an invalid one: it takes the same path to the same answer as an unknown key."""
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
        self.notifier = get_notifier(store)

    # Reading

    def open(self, key: WaitKey) -> OpenedWait | None:
        """Return the wait of a key, or None if the key is refused for any reason.

        Every key costs one HMAC and one look-up, so that the time of a refusal does not show its reason.
        """
        genuine = self.keyring.verifies(key)
        created = (key.run, records.pin_key(key.wait_id))
        reissued = (key.run, records.reissue_key(key.wait_id, key.key_id))
        ended = (key.run, records.resolution_key(key.wait_id))
        revoked = (OPERATIONS_RUN, records.revocation_key(key.session))
        found = self.store.inbox_find(self.namespace, [created, reissued, ended, revoked])
        if not genuine or key.namespace != self.namespace or created not in found or revoked in found:
            return None
        pin = records.parse_pin(records.decode_payload(found[created]))
        if pin.session != key.session or (pin.key_id != key.key_id and reissued not in found):
            return None
        return OpenedWait(key, pin, found.get(ended))

    def find_end(self, wait: OpenedWait) -> WaitEnd | None:
        """Return how the wait ended, or None while it is open. End it first if its session was cancelled."""
        if wait.row is not None:
            return WaitEnd(records.parse_resolution(records.decode_payload(wait.row)), wait.row.number)
        session, generation = wait.pin.session, wait.pin.generation
        if session is None:
            return None
        cancelled = (OPERATIONS_RUN, records.cancellation_key(session, generation + 1))
        if cancelled not in self.store.inbox_find(self.namespace, [cancelled]):
            return None
        return self.end(wait.key, Resolution.cancelled(SESSION_CANCELLED))

    def end(self, key: WaitKey, resolution: Resolution) -> WaitEnd:
        """End the wait unless it has ended, and wake its waiters in this process. Return how it ended."""
        return self.end_wait(key.run, key.wait_id, resolution)

    def end_wait(self, run: str, wait_id: str, resolution: Resolution) -> WaitEnd:
        payload = records.resolution_payload(resolution, self.nonce())
        posted = self.post(run, records.resolution_key(wait_id), payload)
        self.notifier.wake(self.address(run, wait_id))
        return WaitEnd(records.parse_resolution(posted.payload), posted.number, posted.accepted)

    def count_cancellations(self, session: str) -> int:
        start = 1
        while True:
            numbers = range(start, start + LOOKUP_BATCH)
            pairs = [(OPERATIONS_RUN, records.cancellation_key(session, number)) for number in numbers]
            found = len(self.store.inbox_find(self.namespace, pairs))
            if found < LOOKUP_BATCH:
                return start - 1 + found
            start += LOOKUP_BATCH

    def run_has_ended(self, run: str) -> bool:
        row = self.store.run_row(self.namespace, run)
        return row is not None and row.last is not None and row.last.kind in TERMINAL_KINDS

    # Writing

    def post(self, run: str, key: str, payload: Any) -> Posted:
        return post(self.store, run, key, payload, self.namespace, sources=self.sources)

    def nonce(self) -> str:
        return self.sources.entropy(8).hex()

    def address(self, run: str, wait_id: str) -> ResolutionAddress:
        return ResolutionAddress(self.namespace, run, records.resolution_key(wait_id))

    def operations(self) -> OperationsJournal:
        return OperationsJournal.open_for(self.store, self.namespace, sources=self.sources)

    def note(self, operation: str, run: str, identity: WaitIdentity, **more: Any) -> None:
        """Append to the operations journal. `more` never holds a value: that journal cannot be erased."""
        detail = {"run": run, "kind": identity.kind, "name": identity.name, "ordinal": identity.ordinal, **more}
        self.operations().note(OperationNoted(operation=operation, detail=detail))

    def note_objection(self, key: WaitKey, resolution: Resolution, terminal: Resolution, *, late: bool) -> None:
        """Note a resolution that came too late, once for each wait: the holder of a key must not fill the journal."""
        if not self.post(key.run, records.objection_key(key.wait_id), {"nonce": self.nonce()}).accepted:
            return
        operation = "late_resolution" if late else "conflicting_resolution"
        self.note(operation, key.run, key.identity, resolution=resolution.status, terminal=terminal.status)
