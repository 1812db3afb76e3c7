"""Receipts of a store: a view of its journals that stores nothing else.

The receipts of a recorded run are minted from its journal on every request. Other receipts get a run for each flow,
under the flow's name: one `SignalReceived` for each, with the whole receipt in one content. So erasing any of its
values erases the nonce too, and the hash in the next receipt reveals nothing. The index is a cache of positions, which
are checked on every use.
"""

from __future__ import annotations

import threading
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from onrecord.core.codec import UnknownTag
from onrecord.core.events import SignalReceived
from onrecord.core.hashing import parse_hash
from onrecord.core.links import OPERATIONS_RUN, check_namespace, is_name
from onrecord.errors import Damaged, InvalidInput, InvalidValue, MovedHead, NotFound, Refused, StaleEpoch
from onrecord.journal.journal import Journal
from onrecord.journal.reachability import all_runs
from onrecord.journal.reader import JournalReader, NodeReader
from onrecord.journal.sources import Sources, SystemSources
from onrecord.proof.receipts.log import check_acceptable, check_follows, select_tokens, unknown_flow, unknown_token
from onrecord.proof.receipts.mint import RECEIPT_SIGNAL, keeps_receipts, mint, mint_with_seqs, receipt_tree
from onrecord.proof.receipts.token import FORMAT, ReplayToken, named_artifacts
from onrecord.store.contract import Store


class _ReceiptPosition(NamedTuple):
    """The position of a receipt's answer, and the previous hash that minting it needs."""

    run: str
    seq: int
    previous: str | None


class _IndexedRun(NamedTuple):
    """The indexed part of a run."""

    header: bytes
    seq: int
    last: str | None


class JournalReplayLog:
    """Receipts of one namespace of a store. `close` releases the flows that were appended to."""

    def __init__(self, store: Store, namespace: str = "default", *, sources: Sources | None = None) -> None:
        self.store = store
        self.namespace = check_namespace(namespace)
        self._sources = sources or SystemSources()
        self._lock = threading.RLock()
        self._writing: dict[str, Journal] = {}
        self._positions: dict[str, _ReceiptPosition] = {}
        self._indexed: dict[str, _IndexedRun] = {}

    def __enter__(self) -> JournalReplayLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            while self._writing:
                self._writing.popitem()[1].release()

    def get(self, token_hash: str) -> ReplayToken:
        with self._lock:
            found = self._read_indexed(token_hash)
            if found is not None:
                return found
            damaged = self._index_all()
            found = self._read_indexed(token_hash)
        if found is not None:
            return found
        # Receipts of other runs are found despite a damaged run, but then none can be reported as unknown.
        raise damaged or unknown_token(self.namespace)

    def tokens_for_flow(self, flow: str) -> list[ReplayToken]:
        return list(mint(self._reader(flow)))

    def query(
        self, tags: Mapping[str, str | None] | None = None, *, since: int | None = None, until: int | None = None
    ) -> list[ReplayToken]:
        everything = (token for run in self._runs() for token in mint(self._reader(run)))
        return select_tokens(everything, tags, since, until)

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

    def _read_indexed(self, token_hash: str) -> ReplayToken | None:
        """Return the receipt at its indexed position, or None if it is not there, e.g. after an erasure."""
        position = self._positions.get(token_hash)
        if position is None or self.store.run_row(self.namespace, position.run) is None:
            return None
        for seq, token in mint_with_seqs(self._reader(position.run), position.seq, position.previous):
            return token if (seq, token.token_hash) == (position.seq, token_hash) else None
        return None

    def _index_all(self) -> Damaged | None:
        damaged = None
        for run in self._runs():
            try:
                self._index_run(self._reader(run))
            except Damaged as damage:
                damaged = damage
        return damaged

    def _index_run(self, reader: JournalReader) -> _IndexedRun:
        """Index the events added since the last time. Later erasures are found when a position is used."""
        indexed = self._indexed.get(reader.run)
        if indexed is None or indexed.header != reader.header_row.hash:
            indexed = _IndexedRun(reader.header_row.hash, 0, None)
        last = reader.head().seq
        if last > indexed.seq:
            previous = indexed.last
            for seq, token in mint_with_seqs(reader, indexed.seq + 1, previous):
                self._positions[token.token_hash] = _ReceiptPosition(reader.run, seq, previous)
                previous = token.token_hash
                last = max(last, seq)
            indexed = _IndexedRun(reader.header_row.hash, last, previous)
        self._indexed[reader.run] = indexed
        return indexed

    def append(self, token: ReplayToken) -> None:
        check_acceptable(token, self.namespace)
        with self._lock:
            for attempt in (1, 2):
                try:
                    return self._append(token)
                except (StaleEpoch, MovedHead):  # another holder wrote to the flow: read it again
                    self._writing.pop(token.flow, None)
                    if attempt == 2:
                        raise

    def _append(self, token: ReplayToken) -> None:
        exists = self.store.run_row(self.namespace, token.flow) is not None
        last = None
        if exists:
            reader = self._reader(token.flow)
            last = self._index_run(reader).last
            if token.token_hash in self._positions:
                return
            if not keeps_receipts(reader):
                raise Refused(
                    f"flow {token.flow} is a recorded run, whose receipts are minted from its journal",
                    hint="Append your own receipts to another flow.",
                    code="recorded_flow",
                )
        check_follows(token, last)
        self._keep_artifacts(token)
        journal = self._open_journal(token.flow, exists)
        # The receipt is already encoded; UnknownTag writes a tree unchanged.
        journal.append(SignalReceived(RECEIPT_SIGNAL, UnknownTag(receipt_tree(token))))

    def _open_journal(self, flow: str, exists: bool) -> Journal:
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
        for digest in named_artifacts(token):
            try:
                address = parse_hash(digest)
            except InvalidValue:
                raise InvalidInput("the receipt refers to bytes by an invalid address", code="bad_token") from None
            data = token.artifacts.get(digest)
            if data is not None:
                self.store.put_artifact(self.namespace, address, b64decode(data))
            elif self.store.artifact(self.namespace, address) is None:
                raise InvalidInput(
                    "the receipt refers to bytes that neither it nor the store has",
                    hint="Append the receipt as it was minted, with its artifacts.",
                    code="missing_artifact",
                )
