"""What the operations journal says of runs, and how its records are worded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reenact.core.events import ContentErased, Event, OperationNoted
from reenact.core.hashing import render
from reenact.core.links import OPERATIONS_RUN
from reenact.errors import Damaged, NotFound
from reenact.journal.reader import JournalReader
from reenact.store.contract import Store


def erasure_record(run: str, seqs: Sequence[int], header: bytes, reason: str) -> ContentErased:
    """Says that these contents of this very run are gone by right: its header hash is part of the record."""
    return ContentErased(contents=[[run, seq, render(header)] for seq in seqs], reason=reason)


def operations_of(store: Store, namespace: str) -> Iterator[Event]:
    """What the operations journal records. What stands behind damage in it is not on record; verifying it shows why."""
    try:
        for event in JournalReader(store, OPERATIONS_RUN, namespace).scan():
            yield event.event
    except (NotFound, Damaged):
        return


def erased_seqs(store: Store, namespace: str, run: str) -> set[int]:
    """Which contents of the run were erased by right. A record is of one header: an id may come back with another."""
    row = store.run_row(namespace, run)
    if row is None:
        return set()
    wanted = [run, render(row.header.hash)]
    found: set[int] = set()
    for event in operations_of(store, namespace):
        if isinstance(event, ContentErased):
            found.update(seq for of, seq, header in event.contents if [of, header] == wanted)
    return found


def is_imported(store: Store, namespace: str, run: str, header: bytes) -> bool:
    """Whether the operations journal says that this run came from a file."""
    record = import_record(run, header)
    return any(
        isinstance(event, OperationNoted) and (event.operation, event.detail) == (record.operation, record.detail)
        for event in operations_of(store, namespace)
    )


def import_record(run: str, header: bytes) -> OperationNoted:
    return OperationNoted(operation="run_imported", detail={"run": run, "header_hash": render(header)})
