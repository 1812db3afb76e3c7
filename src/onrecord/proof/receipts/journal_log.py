"""Receipts over a store: a view of its journals, and nothing beside them.

The receipts of a recorded run are minted from its journal whenever they are asked for. Receipts that come from no
journal get a run of their own for each flow, under the flow's name: one `SignalReceived` each, which holds all of the
receipt in one content. So erasing any value of it takes the nonce along, and the hash by which the next receipt names
this one gives nothing away. The index is an idea of what stands where, checked whenever it is used.
"""

from __future__ import annotations

import threading
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from reenact.core.codec import UnknownTag
from reenact.core.events import SignalReceived
from reenact.core.hashing import parse_hash
from reenact.core.links import OPERATIONS_RUN, check_namespace, is_name
from reenact.errors import Damaged, InvalidInput, InvalidValue, MovedHead, NotFound, Refused, StaleEpoch
from reenact.journal.journal import Journal
from reenact.journal.reach import all_runs
from reenact.journal.reader import JournalReader, NodeReader
from reenact.journal.sources import Sources, SystemSources
from reenact.store.contract import Store
from reenact.tokens.log import check_acceptable, check_follows, selected, unknown_flow, unknown_token
from reenact.tokens.minting import RECEIPT_SIGNAL, keeps_receipts, mint, mint_placed, receipt_tree
from reenact.tokens.token import FORMAT, ReplayToken, artifacts_named


class _Spot(NamedTuple):
    """Where a receipt ends, and what is needed to mint it alone."""

    run: str
    seq: int
    previous: str | None


class _Seen(NamedTuple):
    """How far a run has been looked through."""

    header: bytes
    seq: int
    last: str | None


class JournalReplayLog:
    """The receipts of one namespace of a store. `close` lets go of the flows that were appended to."""

    def __init__(self, store: Store, namespace: str = "default", *, sources: Sources | None = None) -> None:
        self.store = store
        self.namespace = check_namespace(namespace)
        self._sources = sources or SystemSources()
        self._lock = threading.RLock()
        self._writing: dict[str, Journal] = {}
        self._spots: dict[str, _Spot] = {}
        self._seen: dict[str, _Seen] = {}

    def __enter__(self) -> JournalReplayLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            while self._writing:
                self._writing.popitem()[1].release()

    # Reading

    def get(self, token_hash: str) -> ReplayToken:
        with self._lock:
            found = self._at(token_hash)
            if found is not None:
                return found
            damaged = self._look_through_all()
            found = self._at(token_hash)
        if found is not None:
            return found
        # A damaged run hides nobody else's receipts; but with one, nobody can say that there is no such receipt.
        raise damaged or unknown_token(self.namespace)

    def tokens_for_flow(self, flow: str) -> list[ReplayToken]:
        return list(mint(self._reader(flow)))

    def query(
        self, tags: Mapping[str, str | None] | None = None, *, since: int | None = None, until: int | None = None
    ) -> list[ReplayToken]:
        everything = (token for run in self._runs() for token in mint(self._reader(run)))
        return selected(everything, tags, since, until)

    def artifact(self, address: bytes) -> bytes:
        return NodeReader(self.store, self.namespace).artifact(address)

    def _reader(self, flow: str) -> JournalReader:
        if not is_name(flow) or flow == OPERATIONS_RUN:
            raise unknown_flow(flow, self.namespace)
        try:
            return JournalReader(self.store, flow, self.namespace)
        except NotFound:
            raise unknown_flow(flow, self.namespace) from None

    def _runs(self) -> Iterator[str]:
        for row in all_runs(self.store, self.namespace):
            if row.header.run != OPERATIONS_RUN:
                yield row.header.run

    # The index

    def _at(self, token_hash: str) -> ReplayToken | None:
        """The receipt where it was seen last; None when it is not there (a content may have been erased since)."""
        spot = self._spots.get(token_hash)
        if spot is None or self.store.run_row(self.namespace, spot.run) is None:
            return None
        for seq, token in mint_placed(self._reader(spot.run), spot.seq, spot.previous):
            return token if (seq, token.token_hash) == (spot.seq, token_hash) else None
        return None

    def _look_through_all(self) -> Damaged | None:
        damaged = None
        for run in self._runs():
            try:
                self._look_through(self._reader(run))
            except Damaged as damage:
                damaged = damage
        return damaged

    def _look_through(self, reader: JournalReader) -> _Seen:
        """Goes on where it stopped; what was erased meanwhile is found out when a spot is used."""
        seen = self._seen.get(reader.run)
        if seen is None or seen.header != reader.header_row.hash:
            seen = _Seen(reader.header_row.hash, 0, None)
        last = reader.head().seq
        if last > seen.seq:
            previous = seen.last
            for seq, token in mint_placed(reader, seen.seq + 1, previous):
                self._spots[token.token_hash] = _Spot(reader.run, seq, previous)
                previous = token.token_hash
                last = max(last, seq)
            seen = _Seen(reader.header_row.hash, last, previous)
        self._seen[reader.run] = seen
        return seen

    # Appending

    def append(self, token: ReplayToken) -> None:
        check_acceptable(token, self.namespace)
        with self._lock:
            for attempt in (1, 2):
                try:
                    return self._append(token)
                except (StaleEpoch, MovedHead):  # somebody else had the flow meanwhile: look at what it did
                    self._writing.pop(token.flow, None)
                    if attempt == 2:
                        raise

    def _append(self, token: ReplayToken) -> None:
        exists = self.store.run_row(self.namespace, token.flow) is not None
        last = None
        if exists:
            reader = self._reader(token.flow)
            last = self._look_through(reader).last
            if token.token_hash in self._spots:
                return
            if not keeps_receipts(reader):
                raise Refused(
                    f"flow {token.flow} is a recorded run: its receipts are minted from it",
                    hint="Give receipts of your own a flow of their own.",
                    code="recorded_flow",
                )
        check_follows(token, last)
        self._keep_artifacts(token)
        journal = self._journal(token.flow, exists)
        # The receipt is encoded already; UnknownTag is how a tree is written as it is.
        journal.append(SignalReceived(RECEIPT_SIGNAL, UnknownTag(receipt_tree(token))))

    def _journal(self, flow: str, exists: bool) -> Journal:
        journal = self._writing.get(flow)
        if journal is None:
            if exists:
                journal = Journal.open(self.store, flow, self.namespace, sources=self._sources)
            else:
                facts = {"receipts": FORMAT}
                journal = Journal.create(self.store, flow, self.namespace, facts=facts, sources=self._sources)
            self._writing[flow] = journal
        return journal

    def _keep_artifacts(self, token: ReplayToken) -> None:
        for digest in artifacts_named(token):
            try:
                address = parse_hash(digest)
            except InvalidValue:
                raise InvalidInput(
                    "the receipt names bytes by something that is no address", code="bad_token"
                ) from None
            carried = token.artifacts.get(digest)
            if carried is not None:
                self.store.put_artifact(self.namespace, address, b64decode(carried))
            elif self.store.artifact(self.namespace, address) is None:
                raise InvalidInput(
                    "the receipt names bytes that neither it nor the store has",
                    hint="Append the receipt as it was minted.",
                    code="missing_artifact",
                )
