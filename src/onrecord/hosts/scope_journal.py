"""The run of one scope, as one host instance works on it: its lease, its index of records, its appends.

A journal whose lease was lost is dropped and never renewed under another epoch: an effect that began under it cannot
record its outcome.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from onrecord.core.codec import encode
from onrecord.core.events import OperationNoted
from onrecord.core.matching import MatchRules, VolatilePath
from onrecord.errors import MovedHead, OnrecordError, OutcomeUnknown, Poisoned, Refused, RunExists, StaleEpoch
from onrecord.hosts.decision import Lease
from onrecord.hosts.envelopes import RuntimeEffectEnvelope
from onrecord.hosts.record_index import Entry, RecordIndex
from onrecord.hosts.scopes import ExecutionScope, run_id
from onrecord.journal.chain import Draft
from onrecord.journal.create import create_header
from onrecord.journal.inbox import messages
from onrecord.journal.journal import Journal
from onrecord.journal.operations import OperationsJournal
from onrecord.journal.reader import JournalReader
from onrecord.journal.sequenced_event import SequencedEvent
from onrecord.journal.sources import Sources, SystemSources
from onrecord.runtime.engine.lease_keeper import RENEWALS_PER_LEASE, keeper
from onrecord.store.contract import Store

MAX_UNKNOWN_APPENDS = 3


class HostSources:
    """The given sources, with a holder for each host instance.

    Two instances with one holder would both get the lease of a scope, and each would take the other's effects for
    abandoned ones.
    """

    def __init__(self, inner: Sources | None = None) -> None:
        self._inner = inner or SystemSources()
        self._instance = self._inner.entropy(6).hex()

    def now_us(self) -> int:
        return self._inner.now_us()

    def entropy(self, size: int) -> bytes:
        return self._inner.entropy(size)

    def holder(self) -> str:
        # Read each time: a forked child is another process, and another holder.
        return f"{self._inner.holder()}/{self._instance}"


class HostSettings(NamedTuple):
    """The settings of a host that all its scopes share."""

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
        """Present while this instance has the lease, as far as it knows."""
        self._reader: JournalReader | None = None
        self._was_refused = False
        """True if another instance held the lease at the last claim."""
        self._is_lost = False
        """Set by the thread that renews leases."""
        self._claimed_at = 0.0
        self._up_to_date = False
        self._at_work = 0
        self._rules: MatchRules | None = None
        self._lock_of: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    # Reading

    def reader(self) -> JournalReader | None:
        """Return the reader of the run, or None before the scope has one."""
        store, namespace = self.settings.store, self.settings.namespace
        if self._reader is None and store.run_row(namespace, self.run) is not None:
            self._reader = JournalReader(store, self.run, namespace)
        return self._reader

    def entry(self, key: str) -> Entry | None:
        """Return the record under the key. Without the lease, events of other instances are read first."""
        reader = self.reader()
        if reader is not None and not (self._up_to_date and self.lease() is Lease.OURS):
            self.index.read_on(reader)
            self._up_to_date = True
        return self.index.get(key)

    def match_of(self, envelope: RuntimeEffectEnvelope) -> bytes:
        """Return the match digest of the envelope's request.

        Under one key, equal match digests are equal envelopes: the content holds everything but the key, and the
        members that the run's rules declare volatile are left out of both. No recorded content is read for it.
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
        """Return the payload in the run's inbox under that key, or None."""
        for message in messages(self.settings.store, self.run, self.settings.namespace):
            if message.key == key:
                return message.payload
        return None

    # The lease

    def begin(self) -> None:
        """Create the run unless it exists. This needs no lease."""
        if self.reader() is None:
            settings, facts = self.settings, {"scope": self.scope.to_data()}
            volatile, sources = settings.volatile, settings.sources
            with suppress(RunExists):
                create_header(settings.store, self.run, settings.namespace, facts, volatile=volatile, sources=sources)

    def lease(self) -> Lease:
        if self._is_lost:
            self.lose()
        age, lease_seconds = time.monotonic() - self._claimed_at, self.settings.lease_seconds
        if self.journal is not None and age > lease_seconds * 2 / RENEWALS_PER_LEASE:
            self._renew(self.journal)
        if self.journal is not None:
            return Lease.OURS
        return Lease.LIVE if self._was_refused else Lease.OPEN

    def take_over(self) -> None:
        """Claim the lease; `lease` returns the result."""
        settings = self.settings
        self.begin()
        asked_at = time.monotonic()
        try:
            self.journal = Journal.open(
                settings.store,
                self.run,
                settings.namespace,
                sources=settings.sources,
                lease_seconds=settings.lease_seconds,
            )
        except Refused as refusal:
            if refusal.code != "run_busy":
                raise
            self._was_refused = True
            return
        self._was_refused = False
        self._claimed_at = asked_at  # the lease may have begun then
        self._up_to_date = False
        self._keep()

    def ask_again(self) -> None:
        """Forget that the lease was refused."""
        self._was_refused = False

    def _renew(self, journal: Journal) -> None:
        asked_at = time.monotonic()
        try:
            journal.renew(self.settings.lease_seconds)
        except Refused:
            self.lose()
        else:
            self._claimed_at = asked_at

    def lose(self) -> None:
        if self.journal is not None:
            keeper.let_go_lease(self.journal)
        self.journal = None
        self._up_to_date = self._is_lost = False

    def release(self) -> None:
        if self.journal is not None:
            self.journal.release()
            self.lose()

    # While an effect is executed, a thread renews the lease.

    def begin_work(self) -> None:
        self._at_work += 1
        self._keep()

    def end_work(self) -> None:
        self._at_work -= 1
        if not self._at_work and self.journal is not None:
            keeper.let_go_lease(self.journal)

    def _keep(self) -> None:
        if self.journal is not None and self._at_work:
            keeper.keep_lease(self.journal, self.settings.lease_seconds, self._note_lost, self._claimed_at)

    def _note_lost(self) -> None:
        self._is_lost = True

    # Appending

    async def append(
        self, journal: Journal, drafts: Sequence[Draft], *, sync: bool, match: bytes | None = None
    ) -> None:
        """Append what comes before an effect, one append after the other within the scope.

        `match` is the match digest of a request among the drafts. Raise MovedHead if another instance has taken the
        scope over: nothing was executed, and its records are to be read.
        """
        async with self._lock():
            try:
                await self._append_surely(journal, drafts, sync, match)
            except StaleEpoch as error:
                raise MovedHead(error.message) from None

    async def append_outcome(self, journal: Journal, entry: Entry, drafts: Sequence[Draft]) -> None:
        """Append the outcome of an effect, also if the task is cancelled meanwhile.

        Raise StaleEpoch if another instance has taken the scope over: nothing was recorded, and a note in the
        operations journal says so.
        """
        lock = self._lock()
        cancelled = await _acquire_surely(lock)
        try:
            await self._append_surely(journal, drafts)
        except (StaleEpoch, MovedHead) as error:
            self.lose()
            self._note_abandoned(journal, entry)
            if isinstance(error, StaleEpoch):
                raise
            raise StaleEpoch(f"run {self.run} was taken over while an effect was executed") from None
        finally:
            lock.release()
        if cancelled:
            raise asyncio.CancelledError

    async def _append_surely(
        self, journal: Journal, drafts: Sequence[Draft], sync: bool = True, match: bytes | None = None
    ) -> None:
        """Append. An append of unknown result is looked up, and repeated if it did not happen."""
        for _ in range(MAX_UNKNOWN_APPENDS):
            try:
                return await self._append_now(journal, drafts, sync, match)
            except Poisoned:
                journal.reopen()  # an earlier append was interrupted
            except OutcomeUnknown:
                committed = journal.reopen()
                if committed is not None:
                    return self._take_in(committed.sequenced, match)
        return await self._append_now(journal, drafts, sync, match)

    async def _append_now(self, journal: Journal, drafts: Sequence[Draft], sync: bool, match: bytes | None) -> None:
        try:
            appended = await journal.append_async(drafts) if sync else journal.append(drafts, sync=False)
        except BaseException:
            self._up_to_date = False
            raise
        self._take_in(appended, match)

    def _take_in(self, appended: Sequence[SequencedEvent], match: bytes | None) -> None:
        for event in appended:
            self.index.take_in(event.seq, event.kind, event.key, event.parent, match)

    def _note_abandoned(self, journal: Journal, entry: Entry) -> None:
        detail = {"run": self.run, "seq": entry.request_seq, "epoch": journal.epoch}
        with suppress(OnrecordError):  # the caller must learn that it lost the run, with or without the note
            operations = OperationsJournal.open_for(self.settings.store, self.settings.namespace)
            operations.note(OperationNoted(operation="abandoned_attempt", detail=detail))

    def _lock(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._lock_of is None or self._lock_of[0] is not loop:
            self._lock_of = (loop, asyncio.Lock())
        return self._lock_of[1]


async def _acquire_surely(lock: asyncio.Lock) -> bool:
    """Take the lock, also if the task is cancelled meanwhile. Return True if it was cancelled."""
    cancelled = False
    while True:
        try:
            await lock.acquire()
            return cancelled
        except asyncio.CancelledError:
            cancelled = True
