"""Find the runs of the processes below a run, by the positions at which they were started."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from typing import Any, NamedTuple

from onrecord.capture.processes.ticket import child_run_id
from onrecord.errors import OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import Store

MOST_MISSING = 64
"""Items of a pool that are looked up after a missing one: items start in any order."""
DEEPEST = 50
MOST_LISTED = 50
"""Processes that a report lists."""


class ChildEnd(NamedTuple):
    status: int
    time_us: int


def process_notes(reader: JournalReader) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the notes of a run about its processes, each with its time in microseconds."""
    for row in reader.store.scan(reader.namespace, reader.run, contents=False):
        if row.kind == "ProcessAttached":
            note = reader.event(row.seq).event.content().get("process")
            if isinstance(note, dict):
                yield note, reader.link(row).time


def ended_children(reader: JournalReader) -> dict[str, ChildEnd]:
    """Return how the processes of a run ended, by run id."""
    found = ((note["ended"], time_us) for note, time_us in process_notes(reader) if isinstance(note.get("ended"), dict))
    return {str(ended["run"]): ChildEnd(int(ended["status"]), time_us) for ended, time_us in found}


class Child(NamedTuple):
    run: str
    parent: str
    how: str
    name: str


def children_of(store: Store, namespace: str, run: str) -> Iterator[Child]:
    """Yield the runs of the processes that this run started itself."""
    reader = JournalReader(store, run, namespace)
    try:
        notes = [note["started"] for note, _ in process_notes(reader) if isinstance(note.get("started"), dict)]
    except OnrecordError:
        return  # `verify` reports damage
    for note in notes:
        yield from _runs_started_at(store, namespace, run, note)


def processes_report(reader: JournalReader) -> list[dict[str, Any]]:
    """Return the first child processes as data. Only runs of programs and processes are read: others have none."""
    from onrecord.reports.summaries import facts_of  # slow to import, and few programs have processes

    facts = facts_of(reader.store, reader.namespace, reader.run)
    if facts is not None and not {"program", "process"} & facts.keys():
        return []
    children = children_of(reader.store, reader.namespace, reader.run)
    return [one._asdict() for one in islice(children, MOST_LISTED)]


def _runs_started_at(store: Store, namespace: str, run: str, note: dict[str, Any]) -> Iterator[Child]:
    place, how, command = str(note.get("place")), str(note.get("how")), note.get("command")
    name = str(command[0]) if isinstance(command, list) and command else how
    places = _job_positions(place) if how == "job" else ((place, number) for number in count())
    missing = 0
    for at, number in places:
        found = child_run_id(run, at, number)
        if store.run_row(namespace, found) is not None:
            missing = 0
            yield Child(found, run, how, name)
            continue
        missing += 1
        if how != "job" or missing > MOST_MISSING:
            return


def _job_positions(place: str) -> Iterator[tuple[str, int]]:
    """Yield the positions of a single job, then of the items of a map."""
    yield place, 0
    for number in count():
        yield f"{place}#{number}", 0


def descendants_of(store: Store, namespace: str, run: str, depth: int = 0) -> Iterator[Child]:
    """Yield the runs of all processes below this run, at any depth."""
    for child in children_of(store, namespace, run):
        yield child
        if depth < DEEPEST:
            yield from descendants_of(store, namespace, child.run, depth + 1)
