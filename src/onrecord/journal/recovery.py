"""Recovery: copy the valid prefix of a damaged run to a new store. Nothing is repaired or invented."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from onrecord.core.hashing import render
from onrecord.core.merkle import artifacts_in, fetch_reachable
from onrecord.core.packing import unpack
from onrecord.errors import Damaged
from onrecord.journal.operation_records import erasure_record, import_record
from onrecord.journal.operations import OperationsJournal
from onrecord.journal.reader import JournalReader
from onrecord.journal.verify import VerificationReport, verify_run
from onrecord.store.contract import EventRow, NodeRow, Store

BATCH_EVENTS = 500


class Recovered(NamedTuple):
    run: str
    events: int
    """The number of copied events: the valid prefix."""
    lost: int
    report: VerificationReport


def recover_run(source: Store, run: str, target: Store, namespace: str = "default") -> Recovered:
    """Copy the events before the first bad one. A run with a damaged header has no valid prefix."""
    report = verify_run(source, run, namespace, deep=True)
    # Snapshots are derived and are not copied, so a bad one costs nothing.
    first_bad = min((problem.seq for problem in report.problems if problem.code != "bad_snapshot"), default=None)
    if first_bad == 0:
        raise Damaged(f"the header of run {run} is damaged: there is no valid prefix", code="bad_header")
    stop = report.events + 1 if first_bad is None else first_bad
    reader = JournalReader(source, run, namespace)
    copier = _Copier(reader, target)
    header = reader.header_row
    erased = [seq for seq in [*([0] if header.content is None else []), *report.erased] if seq < stop]
    if erased:
        record = erasure_record(run, erased, header.hash, "erased before it was recovered")
        OperationsJournal.open_for(target, namespace).note(record)
    if header.imported:
        OperationsJournal.open_for(target, namespace).note(import_record(run, header.hash))
    first_nodes = [] if header.content is None else copier.copy_parts([unpack(header.content)])
    target.import_run(namespace, header, first_nodes, copier.read_batches(stop))
    return Recovered(run, stop - 1, report.events - stop + 1, report)


class _Copier:
    def __init__(self, reader: JournalReader, target: Store) -> None:
        self._reader = reader
        self._target = target
        self._copied: set[bytes] = set()

    def read_batches(self, stop: int) -> Iterator[tuple[list[EventRow], list[NodeRow]]]:
        batch: list[EventRow] = []
        for row in self._reader.store.scan(self._reader.namespace, self._reader.run, 1, stop):
            batch.append(row)
            if len(batch) >= BATCH_EVENTS:
                yield batch, self._copy_batch_parts(batch)
                batch = []
        if batch:
            yield batch, self._copy_batch_parts(batch)

    def _copy_batch_parts(self, batch: list[EventRow]) -> list[NodeRow]:
        return self.copy_parts([unpack(row.content) for row in batch if row.content is not None])

    def copy_parts(self, contents: list[bytes]) -> list[NodeRow]:
        """Return the nodes that are not copied yet, and copy the artifacts."""
        store, namespace = self._reader.store, self._reader.namespace

        def missing(address: bytes) -> None:
            raise Damaged(f"a shared value is missing: node {render(address)}", code="missing_node")

        nodes = fetch_reachable(contents, self._reader.nodes.fetch, missing)
        for text in [*contents, *nodes.values()]:
            for address in artifacts_in(text):
                self._target.put_artifact(namespace, address, self._reader.nodes.artifact(address))
        fresh = [address for address in nodes if address not in self._copied]
        self._copied.update(fresh)
        blobs = store.nodes(namespace, fresh)
        return [NodeRow(address, blobs[address]) for address in fresh]
