"""The runs of the processes that a run has started, and of those that they have, found by where they began."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from typing import Any, NamedTuple

from reenact.capture.processes.tickets import process_run
from reenact.errors import ReenactError
from reenact.journal.reader import JournalReader
from reenact.store.contract import Store

MOST_MISSING = 64
"""Items of a pool that are looked for behind one that is not there: they are begun in any order."""
DEEPEST = 50
MOST_TOLD = 50
"""Processes that are named when a run is shown."""


class EndOfChild(NamedTuple):
    status: int
    time_us: int


def notes_of(reader: JournalReader) -> Iterator[tuple[dict[str, Any], int]]:
    """What a run says of its processes, and when it did."""
    for row in reader.store.scan(reader.namespace, reader.run, contents=False):
        if row.kind == "ProcessAttached":
            note = reader.event(row.seq).event.content().get("process")
            if isinstance(note, dict):
                yield note, reader.link(row).time


def ended_children(reader: JournalReader) -> dict[str, EndOfChild]:
    """How the processes of a run ended, by their runs."""
    found = ((note["ended"], time_us) for note, time_us in notes_of(reader) if isinstance(note.get("ended"), dict))
    return {str(ended["run"]): EndOfChild(int(ended["status"]), time_us) for ended, time_us in found}


class Child(NamedTuple):
    run: str
    parent: str
    how: str
    name: str


def children_of(store: Store, namespace: str, run: str) -> Iterator[Child]:
    """Those that the run itself has started."""
    reader = JournalReader(store, run, namespace)
    try:
        notes = [note["started"] for note, _ in notes_of(reader) if isinstance(note.get("started"), dict)]
    except ReenactError:
        return  # what cannot be read is told by `verify`
    for note in notes:
        yield from _begun_at(store, namespace, run, note)


def processes_report(reader: JournalReader) -> list[dict[str, Any]]:
    """The first of them, as data. Only programs and their processes start any: other runs are not read for it."""
    from reenact.reports.summaries import facts_of  # not with every program: it may have no processes

    facts = facts_of(reader.store, reader.namespace, reader.run)
    if facts is not None and not {"program", "process"} & facts.keys():
        return []
    children = children_of(reader.store, reader.namespace, reader.run)
    return [one._asdict() for one in islice(children, MOST_TOLD)]


def _begun_at(store: Store, namespace: str, run: str, note: dict[str, Any]) -> Iterator[Child]:
    place, how, command = str(note.get("place")), str(note.get("how")), note.get("command")
    name = str(command[0]) if isinstance(command, list) and command else how
    places = _many(place) if how == "job" else ((place, number) for number in count())
    missing = 0
    for at, number in places:
        found = process_run(run, at, number)
        if store.run_row(namespace, found) is not None:
            missing = 0
            yield Child(found, run, how, name)
            continue
        missing += 1
        if how != "job" or missing > MOST_MISSING:
            return


def _many(place: str) -> Iterator[tuple[str, int]]:
    """A job alone, and the items of many."""
    yield place, 0
    for number in count():
        yield f"{place}#{number}", 0


def family_of(store: Store, namespace: str, run: str, depth: int = 0) -> Iterator[Child]:
    """Those below it, at whatever depth."""
    for child in children_of(store, namespace, run):
        yield child
        if depth < DEEPEST:
            yield from family_of(store, namespace, child.run, depth + 1)
