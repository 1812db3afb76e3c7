"""The lineage of a fork. A fork holds only its own events; earlier ones are read from its parents.

Positions: a fork counts its own events from 1, as every run does. The last shared event has position 0, earlier ones
negative positions: the parent's event `seq` has position `seq + shift`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from onrecord.core.hashing import render
from onrecord.core.links import Link, parse_header
from onrecord.errors import Damaged, NotFound
from onrecord.journal.reachability import all_runs
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import EventRow, Store

FORK = "fork"
_FORK_MARK = b'"relation":"fork"'
LONGEST = 1000
"""Limit for forks of forks. More is an error or an attack."""


class Stretch(NamedTuple):
    """The events of one run of a lineage up to `last`, with positions as the youngest run counts them."""

    reader: JournalReader
    last: int
    shift: int

    def rows(self, after: int = 0, *, contents: bool = True) -> Iterator[tuple[EventRow, Link]]:
        """Yield the events after the run's own seq `after`, each at its position, its link checked."""
        reader, placed = self.reader, self.placed
        for row in reader.store.scan(reader.namespace, reader.run, after + 1, self.last + 1, contents=contents):
            yield (row, reader.link(row)) if not self.shift else placed(row)

    def placed(self, row: EventRow) -> tuple[EventRow, Link]:
        link = self.reader.link(row)
        parent = link.parent + self.shift if link.parent is not None else None
        return row._replace(seq=row.seq + self.shift), msgspec.structs.replace(link, parent=parent)

    def own(self, row: EventRow) -> EventRow:
        """Return the row with the seq of its own run."""
        return row._replace(seq=row.seq - self.shift)


def shared_stretches(reader: JournalReader) -> list[Stretch]:
    """Return what a fork shares with its parents, oldest first; empty for any other run."""
    found: list[Stretch] = []
    child, shift = reader, 0
    while (parent := child.header.parent) is not None and parent.relation == FORK:
        parent_reader = _open_parent(child, parent.run, parent.seq, parent.head)
        shift -= parent.seq
        found.append(Stretch(parent_reader, parent.seq, shift))
        child = parent_reader
        if len(found) > LONGEST:
            raise Damaged(f"run {reader.run} is a fork of a fork more than {LONGEST} times", code="endless_lineage")
    return found[::-1]


def _open_parent(child: JournalReader, run: str, seq: int, head: str) -> JournalReader:
    try:
        parent = JournalReader(child.store, run, child.namespace)
    except NotFound:
        raise NotFound(
            f"run {child.run} is a fork of run {run[:128]}, which is not in this store",
            hint="Import the run it was forked from; it holds the shared events.",
            code="missing_parent",
        ) from None
    row = parent.store.event(parent.namespace, parent.run, seq) if seq else None
    found = row.hash if row is not None else (parent.header_row.hash if not seq else None)
    if found is None or render(found) != head:
        raise Damaged(
            f"run {child.run} was forked from run {run}, but the run of that id here has another history",
            hint="The parent was altered or replaced after the fork; restore the original one.",
            code="other_parent",
        )
    return parent


def forked_runs(store: Store, namespace: str) -> set[str]:
    """Return the runs that have forks."""
    found: set[str] = set()
    for row in all_runs(store, namespace):
        if _FORK_MARK in row.header.header:  # skips parsing the others
            parent = parse_header(row.header.header).parent
            if parent is not None and parent.relation == FORK:
                found.add(parent.run)
    return found


def stretch_of(stretches: list[Stretch], position: int) -> Stretch:
    """Return the stretch with the event at that position."""
    found = next((stretch for stretch in stretches if position <= stretch.last + stretch.shift), None)
    if found is None or position <= found.shift:
        raise Damaged(f"there is no event at position {position}", code="missing_event")
    return found
