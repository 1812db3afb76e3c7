"""Records of the operations journal about runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onrecord.core.events import ContentErased, Event, OperationNoted
from onrecord.core.hashing import render
from onrecord.core.links import OPERATIONS_RUN
from onrecord.errors import Damaged, NotFound
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import Store


def erasure_record(run: str, seqs: Sequence[int], header: bytes, reason: str) -> ContentErased:
    """Return the record that these contents were erased. It names the header hash: an id may be reused."""
    return ContentErased(contents=[[run, seq, render(header)] for seq in seqs], reason=reason)


def read_operations(store: Store, namespace: str) -> Iterator[Event]:
    """Yield the events of the operations journal. Events after damage are left out; verify reports the damage."""
    try:
        for event in JournalReader(store, OPERATIONS_RUN, namespace).scan():
            yield event.event
    except (NotFound, Damaged):
        return


def erased_seqs(store: Store, namespace: str, run: str) -> set[int]:
    """Return the seqs of the run whose erasure is recorded for this header hash."""
    row = store.run_row(namespace, run)
    if row is None:
        return set()
    wanted = [run, render(row.header.hash)]
    found: set[int] = set()
    for event in read_operations(store, namespace):
        if isinstance(event, ContentErased):
            found.update(seq for of, seq, header in event.contents if [of, header] == wanted)
    return found


def is_imported(store: Store, namespace: str, run: str, header: bytes) -> bool:
    """Return True if the operations journal records the import of this run."""
    record = import_record(run, header)
    return any(
        isinstance(event, OperationNoted) and (event.operation, event.detail) == (record.operation, record.detail)
        for event in read_operations(store, namespace)
    )


def import_record(run: str, header: bytes) -> OperationNoted:
    return OperationNoted(operation="run_imported", detail={"run": run, "header_hash": render(header)})
