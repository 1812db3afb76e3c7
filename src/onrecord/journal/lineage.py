"""The line of runs that a fork comes from. A fork has its own events only; what was before them is read where it is.

Positions: a fork counts its own events from 1, as every run does. What it shares with its parents comes before that, so
its positions are 0 for the last shared event, and downwards: the parent's event `seq` stands at `seq + shift`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from reenact.core.hashing import render
from reenact.core.links import Link, parse_header
from reenact.errors import Damaged, NotFound
from reenact.journal.reach import all_runs
from reenact.journal.reader import JournalReader
from reenact.store.contract import EventRow, Store

FORK = "fork"
_FORK_MARK = b'"relation":"fork"'
LONGEST = 1000
"""Forks of forks. More than this is a mistake, or meant to keep somebody busy."""


class Stretch(NamedTuple):
    """The events of one run, up to `last`, as the youngest run of the line counts them."""

    reader: JournalReader
    last: int
    shift: int

    def rows(self, after: int = 0, *, contents: bool = True) -> Iterator[tuple[EventRow, Link]]:
        """Its events behind its own seq `after`, each at its position, its link checked."""
        reader, placed = self.reader, self.placed
        for row in reader.store.scan(reader.namespace, reader.run, after + 1, self.last + 1, contents=contents):
            yield (row, reader.link(row)) if not self.shift else placed(row)

    def placed(self, row: EventRow) -> tuple[EventRow, Link]:
        link = self.reader.link(row)
        parent = link.parent + self.shift if link.parent is not None else None
        return row._replace(seq=row.seq + self.shift), msgspec.structs.replace(link, parent=parent)

    def own(self, row: EventRow) -> EventRow:
        """A row as its own run has it."""
        return row._replace(seq=row.seq - self.shift)


def shared_stretches(reader: JournalReader) -> list[Stretch]:
    """What a fork shares with the runs it comes from, oldest first; empty for any other run."""
    found: list[Stretch] = []
    child, shift = reader, 0
    while (parent := child.header.parent) is not None and parent.relation == FORK:
        above = _parent_of(child, parent.run, parent.seq, parent.head)
        shift -= parent.seq
        found.append(Stretch(above, parent.seq, shift))
        child = above
        if len(found) > LONGEST:
            raise Damaged(f"run {reader.run} is a fork of a fork more than {LONGEST} times", code="endless_lineage")
    return found[::-1]


def _parent_of(child: JournalReader, run: str, seq: int, head: str) -> JournalReader:
    try:
        parent = JournalReader(child.store, run, child.namespace)
    except NotFound:
        raise NotFound(
            f"run {child.run} is a fork of run {run[:128]}, which is not in this store",
            hint="Import the run that it was forked from: what they share is kept there.",
            code="missing_parent",
        ) from None
    row = parent.store.event(parent.namespace, parent.run, seq) if seq else None
    found = row.hash if row is not None else (parent.header_row.hash if not seq else None)
    if found is None or render(found) != head:
        raise Damaged(
            f"run {child.run} was forked from another run {run} than the one that is here",
            hint="Its parent has been altered or exchanged since: nothing of it is taken for shared.",
            code="other_parent",
        )
    return parent


def forked_runs(store: Store, namespace: str) -> set[str]:
    """Runs whose events are shared by others."""
    found: set[str] = set()
    for row in all_runs(store, namespace):
        if _FORK_MARK in row.header.header:  # the rest are not even looked into
            parent = parse_header(row.header.header).parent
            if parent is not None and parent.relation == FORK:
                found.add(parent.run)
    return found


def stretch_of(stretches: list[Stretch], position: int) -> Stretch:
    """The one that has the event at that position."""
    found = next((one for one in stretches if position <= one.last + one.shift), None)
    if found is None or position <= found.shift:
        raise Damaged(f"there is no event at position {position}", code="missing_event")
    return found
