"""Recovery:

the valid prefix of a damaged run, copied to a new store. Nothing is repaired in place, and nothing is made up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from reenact.core.hashing import render
from reenact.core.packing import unpack
from reenact.core.sharing import artifacts_in, reachable
from reenact.errors import Damaged
from reenact.journal.operations import OperationsJournal
from reenact.journal.reader import JournalReader
from reenact.journal.records import erasure_record, import_record
from reenact.journal.verify import VerificationReport, verify_run
from reenact.store.contract import EventRow, NodeRow, Store

BATCH_EVENTS = 500


class Recovered(NamedTuple):
    run: str
    events: int
    """How many were copied: the valid prefix."""
    lost: int
    report: VerificationReport


def recover_run(source: Store, run: str, target: Store, namespace: str = "default") -> Recovered:
    """Copies the events before the first bad one. A run whose header is damaged has no valid prefix."""
    report = verify_run(source, run, namespace, deep=True)
    # A snapshot is derived: a bad one costs nothing, it is not copied.
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
    first_nodes = [] if header.content is None else copier.parts([unpack(header.content)])
    target.import_run(namespace, header, first_nodes, copier.batches(stop))
    return Recovered(run, stop - 1, report.events - stop + 1, report)


class _Copier:
    def __init__(self, reader: JournalReader, target: Store) -> None:
        self._reader = reader
        self._target = target
        self._given: set[bytes] = set()

    def batches(self, stop: int) -> Iterator[tuple[list[EventRow], list[NodeRow]]]:
        batch: list[EventRow] = []
        for row in self._reader.store.scan(self._reader.namespace, self._reader.run, 1, stop):
            batch.append(row)
            if len(batch) >= BATCH_EVENTS:
                yield batch, self._parts_of(batch)
                batch = []
        if batch:
            yield batch, self._parts_of(batch)

    def _parts_of(self, batch: list[EventRow]) -> list[NodeRow]:
        return self.parts([unpack(row.content) for row in batch if row.content is not None])

    def parts(self, contents: list[bytes]) -> list[NodeRow]:
        """Nodes that were not copied yet; artifacts are copied on the way."""
        store, namespace = self._reader.store, self._reader.namespace

        def missing(address: bytes) -> None:
            raise Damaged(f"a shared value is missing: node {render(address)}", code="missing_node")

        nodes = reachable(contents, self._reader.nodes.fetch, missing)
        for text in [*contents, *nodes.values()]:
            for address in artifacts_in(text):
                self._target.put_artifact(namespace, address, self._reader.nodes.artifact(address))
        fresh = [address for address in nodes if address not in self._given]
        self._given.update(fresh)
        blobs = store.nodes(namespace, fresh)
        return [NodeRow(address, blobs[address]) for address in fresh]
