"""The run of one scope, as one host instance works on it: its lease, its index of records, its appends.

A handle that lost the lease is dropped and never renewed under another epoch: whatever was begun under it must fail
when it comes to be recorded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from onrecord.core.codec import encode
from onrecord.core.events import OperationNoted
from onrecord.core.matching import MatchRules, VolatilePath
from onrecord.errors import MovedHead, OnrecordError, OutcomeUnknown, Poisoned, RunExists, StaleEpoch
from onrecord.hosts.decision import Lease
from onrecord.hosts.envelopes import RuntimeEffectEnvelope
from onrecord.hosts.host_identity import HostSources, claim_scope
from onrecord.hosts.record_index import Entry, RecordIndex
from onrecord.hosts.scopes import ExecutionScope, run_id
from onrecord.journal.chain import Draft
from onrecord.journal.create import create_header
from onrecord.journal.inbox import messages
from onrecord.journal.journal import Journal
from onrecord.journal.operations import OperationsJournal
from onrecord.journal.reader import JournalReader
from onrecord.journal.sequenced_event import SequencedEvent
from onrecord.store.contract import Store

RENEWALS_PER_LEASE = 3
MAX_UNKNOWN_APPENDS = 3


class HostSettings(NamedTuple):
    """What all scopes of a host have in common."""

    store: Store
    namespace: str
    sources: HostSources
    lease_seconds: float
    volatile: Sequence[VolatilePath]


class ScopeJournal:
    def __init__(self, settings: HostSettings, scope: ExecutionScope) -> None:
        self.settings = settings
        self.scope = scope
        self.run = run_id(settings.namespace, scope)
        self.index = RecordIndex()
        self.journal: Journal | None = None
        self._reader: JournalReader | None = None
        self._refused = False
        """The last claim was refused: somebody else holds a live lease."""
        self._claimed_at = 0.0
        self._up_to_date = False
        self._at_work = 0
        self._renewal: asyncio.TimerHandle | None = None
        self._rules: MatchRules | None = None
        self._lock_of: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    # Reading

    def reader(self) -> JournalReader | None:
        """None when nobody has begun this scope yet."""
        store, namespace = self.settings.store, self.settings.namespace
        if self._reader is None and store.run_row(namespace, self.run) is not None:
            self._reader = JournalReader(store, self.run, namespace)
        return self._reader

    def entry(self, key: str) -> Entry | None:
        """What is recorded under the key now. Our own appends are known; others' are looked for unless we hold the
        lease."""
        reader = self.reader()
        if reader is not None and not (self._up_to_date and self.lease() is Lease.OURS):
            self.index.read_on(reader)
            self._up_to_date = True
        return self.index.get(key)

    def match_of(self, envelope: RuntimeEffectEnvelope) -> bytes:
        """What the request of this envelope would be compared by.

        Under one key, equal match digests are equal envelopes: everything but the key is in the content, and what the
        run's rules declare volatile is left out of both. No recorded content has to be read for it.
        """
        if self._rules is None:
            reader = self.reader()
            self._rules = reader.rules() if reader is not None else MatchRules(self.settings.volatile)
        encoded = encode(envelope.to_request().content())
        return self._rules.match("ActionRequested", encoded.tree, odd=encoded.odd)

    def recorded(self, seq: int) -> SequencedEvent:
        reader = self.reader()
        assert reader is not None
        return reader.event(seq)

    def message(self, key: str) -> Any:
        """What was put into the run's inbox under that key, or None."""
        for message in messages(self.settings.store, self.run, self.settings.namespace):
            if message.key == key:
                return message.payload
        return None

    # The lease

    def begin(self) -> None:
        """Makes the run if it is not there. Needs no lease; whoever is first has made it."""
        if self.reader() is None:
            settings = self.settings
            facts = {"scope": self.scope.to_data()}
            with suppress(RunExists):
                create_header(
                    settings.store,
                    self.run,
                    settings.namespace,
                    facts,
                    volatile=settings.volatile,
                    sources=settings.sources,
                )

    def lease(self) -> Lease:
        if self.journal is not None and self._age() > self.settings.lease_seconds * 2 / RENEWALS_PER_LEASE:
            self.renew()
        if self.journal is not None:
            return Lease.OURS
        return Lease.LIVE if self._refused else Lease.OPEN

    def take_over(self) -> None:
        """Asks for the lease; `lease` tells what came of it."""
        settings = self.settings
        self.begin()
        asked_at = time.monotonic()
        claim = claim_scope(settings.store, settings.namespace, self.run, settings.sources, settings.lease_seconds)
        self._refused = not claim.granted
        if claim.granted:
            self.journal = Journal.open(
                settings.store,
                self.run,
                settings.namespace,
                sources=settings.sources,
                lease_seconds=settings.lease_seconds,
            )
            self._claimed_at = asked_at  # the lease may have begun no later than this
            self._up_to_date = False

    def ask_again(self) -> None:
        """Forgets that the lease was refused."""
        self._refused = False

    def renew(self) -> None:
        journal, settings = self.journal, self.settings
        if journal is None:
            return
        asked_at = time.monotonic()
        claim = claim_scope(settings.store, settings.namespace, self.run, settings.sources, settings.lease_seconds)
        if claim.granted and claim.epoch == journal.epoch:
            self._claimed_at = asked_at
        else:
            self.lose()

    def lose(self) -> None:
        self.journal = None
        self._up_to_date = False

    def release(self) -> None:
        if self.journal is not None:
            self.journal.release()
            self.lose()

    def _age(self) -> float:
        return time.monotonic() - self._claimed_at

    # While effects are carried out the lease is kept alive by a timer

    def work_begins(self) -> None:
        self._at_work += 1
        if self._renewal is None:
            self._renew_later()

    def work_ends(self) -> None:
        self._at_work -= 1
        if self._at_work == 0 and self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None

    def _renew_later(self) -> None:
        interval = self.settings.lease_seconds / RENEWALS_PER_LEASE
        self._renewal = asyncio.get_running_loop().call_later(interval, self._renew_now)

    def _renew_now(self) -> None:
        with suppress(OnrecordError):  # the store may be back before the lease ends; if not, the fence decides
            self.renew()
        self._renew_later()

    # Appending

    async def append(
        self, journal: Journal, drafts: Sequence[Draft], *, sync: bool, match: bytes | None = None
    ) -> None:
        """Appends what comes before an effect, one after the other within the scope.

        `match` is that of a request among the drafts. MovedHead when another process has taken the scope over: nothing
        ran, and what it did is to be looked at.
        """
        key = drafts[-1].key
        async with self._lock():
            try:
                await self._append_surely(
                    journal, drafts, lambda: key is not None and self.index.get(key) is not None, sync, match
                )
            except StaleEpoch as error:
                raise MovedHead(error.message) from None

    async def append_outcome(self, journal: Journal, entry: Entry, drafts: Sequence[Draft]) -> None:
        """Appends what an effect came to, whatever is cancelled meanwhile.

        StaleEpoch when another process has taken the scope over: nothing was recorded, and the operations journal says
        that somebody tried.
        """
        lock = self._lock()
        cancelled = await _acquired(lock)
        try:
            await self._append_surely(journal, drafts, lambda: entry.outcome_seq is not None)
        except (StaleEpoch, MovedHead) as error:
            self.lose()
            self._note_abandoned(journal, entry)
            if isinstance(error, StaleEpoch):
                raise
            raise StaleEpoch(f"run {self.run} was taken over while an effect was carried out") from None
        finally:
            lock.release()
        if cancelled:
            raise asyncio.CancelledError

    async def _append_surely(
        self,
        journal: Journal,
        drafts: Sequence[Draft],
        has_arrived: Callable[[], bool],
        sync: bool = True,
        match: bytes | None = None,
    ) -> None:
        """Appends; where the result is unknown, looks whether it arrived before it tries again."""
        for _ in range(MAX_UNKNOWN_APPENDS):
            try:
                return await self._append_now(journal, drafts, sync, match)
            except (OutcomeUnknown, Poisoned):
                journal.reopen()
                self.index.read_on(journal)
                if has_arrived():
                    return None
        return await self._append_now(journal, drafts, sync, match)

    async def _append_now(self, journal: Journal, drafts: Sequence[Draft], sync: bool, match: bytes | None) -> None:
        try:
            appended = await journal.append_async(drafts) if sync else journal.append(drafts, sync=False)
        except BaseException:
            self._up_to_date = False
            raise
        for event in appended:
            self.index.take_in(event.seq, event.kind, event.key, event.parent, match)

    def _note_abandoned(self, journal: Journal, entry: Entry) -> None:
        detail = {"run": self.run, "seq": entry.request_seq, "epoch": journal.epoch}
        with suppress(OnrecordError):  # the caller has to learn that it lost the run, whatever becomes of the note
            operations = OperationsJournal.open_for(self.settings.store, self.settings.namespace)
            operations.note(OperationNoted(operation="abandoned_attempt", detail=detail))

    def _lock(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._lock_of is None or self._lock_of[0] is not loop:
            self._lock_of = (loop, asyncio.Lock())
        return self._lock_of[1]


async def _acquired(lock: asyncio.Lock) -> bool:
    """Takes the lock however often the task is cancelled meanwhile; whether it was."""
    cancelled = False
    while True:
        try:
            await lock.acquire()
            return cancelled
        except asyncio.CancelledError:
            cancelled = True
