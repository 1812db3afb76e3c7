"""The events of a run, as far as they can be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from onrecord.core.events import ANSWERS
from onrecord.core.hashing import render
from onrecord.errors import BadPosition, Damaged, OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.reports.json_text import json_bytes
from onrecord.reports.runs import run_report
from onrecord.reports.times import iso_time
from onrecord.store.contract import EventRow

STRETCHES = (32, 256, 2_000)
"""How far from an event its answer, or the same call before it, is looked for: near first."""


class SeenEvent(NamedTuple):
    """An event as far as it can be read. `damage` says why the rest of it cannot."""

    seq: int
    kind: str
    lane: str
    time: int | None = None
    id: str | None = None
    key: str | None = None
    parent: int | None = None
    hash: str | None = None
    erased: bool = False
    content: Any = None
    damage: str | None = None

    def to_json(self) -> dict[str, Any]:
        members = self._asdict()
        members["time"] = iso_time(self.time) if self.time is not None else None
        return members


def seen(reader: JournalReader, row: EventRow) -> SeenEvent:
    found = SeenEvent(row.seq, row.kind, row.lane, hash=render(row.hash))
    try:
        link = reader.link(row)
        found = found._replace(time=link.time, id=link.id, key=link.key, parent=link.parent)
        # The encoded form is shown, never a decoded value: looking at a recording builds no objects.
        content = reader.content_tree(row, link)
    except Damaged as damage:
        return found._replace(damage=damage.message)
    return found._replace(content=content, erased=content is None)


def one_event(reader: JournalReader, seq: int) -> SeenEvent:
    """The event in full; raises where it is missing or damaged."""
    row = reader.store.event(reader.namespace, reader.run, seq)
    if row is None:
        raise BadPosition(f"run {reader.run} has no event {seq}", hint=f"Its last event is {reader.head().seq}.")
    found = seen(reader, row)
    if found.damage is not None:
        raise Damaged(found.damage)
    return found


def find_answer(reader: JournalReader, seq: int) -> int | None:
    """Return the seq of the answer to a request, if it is near. Rows that cannot be read are passed over."""
    start = seq + 1
    for size in STRETCHES:  # most answers follow at once
        for row in reader.store.scan(reader.namespace, reader.run, start, seq + 1 + size, contents=False):
            with suppress(OnrecordError):
                if row.kind in ANSWERS and reader.link(row).parent == seq:
                    return row.seq
        start = seq + 1 + size
    return None


def event_report(run: str, event: SeenEvent) -> dict[str, Any]:
    return {"run": run, **event.to_json()}


class TimelinePage(NamedTuple):
    header: dict[str, Any]
    events: list[SeenEvent]
    last: int
    """The run's last event when the page was read."""

    @property
    def next(self) -> int | None:
        """The event that the next page begins with; None when there is none yet."""
        return self.events[-1].seq + 1 if self.events and self.events[-1].seq < self.last else None

    def to_json(self) -> dict[str, Any]:
        return {**self.header, "timeline": [one.to_json() for one in self.events], "next": self.next}


def timeline_page(reader: JournalReader, start: int, limit: int, *, most_bytes: int | None = None) -> TimelinePage:
    """Events from `start` on. Beyond `most_bytes` of JSON the page ends early, but never before its first event."""
    reader.check_start(start)
    last = reader.head().seq
    events: list[SeenEvent] = []
    size = 0
    for event in events_between(reader, start, start + limit):
        size += len(json_bytes(event.to_json())) if most_bytes is not None else 0
        if most_bytes is not None and events and size > most_bytes:
            break
        events.append(event)
    return TimelinePage(run_report(reader), events, max(last, events[-1].seq if events else 0))


def events_between(reader: JournalReader, start: int, stop: int | None = None) -> Iterator[SeenEvent]:
    for row in reader.store.scan(reader.namespace, reader.run, start, stop):
        yield seen(reader, row)
