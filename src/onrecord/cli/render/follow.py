"""`onrecord show --follow`: the events of a run as they come, until it ends.

The store is asked again and again; whoever records is not held up by it. With --json each line is an event, and the
last one says where it ended, as `/runs/RUN/timeline` does over HTTP.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onrecord.cli.render.output import note, say
from onrecord.cli.render.text import inert, status_text
from onrecord.cli.render.timeline import LiveTimeline
from onrecord.cli.results import command_for
from onrecord.core.events import TERMINAL_KINDS
from onrecord.errors import NotFound

if TYPE_CHECKING:  # loaded when the command runs
    from onrecord.cli.settings import Settings
    from onrecord.journal.reader import JournalReader
    from onrecord.store.contract import EventRow

POLL_SECONDS = 0.1
STANDING_AFTER_SECONDS = 1.0
"""A run that has rested so long is asked how it stands."""
INTERRUPTED = 130


def follow(settings: Settings, reader: JournalReader, start: int | None, limit: int) -> int | None:
    """Begins at `start`; otherwise people are shown the last `limit` events, and programs all."""
    from onrecord.capture.usage import usage_of
    from onrecord.reports.effects import EffectWalk
    from onrecord.reports.timelines import seen

    if start is not None:
        reader.check_start(start)
    begin = start or (1 if settings.json else max(1, reader.head().seq - limit + 1))
    told = _Lines(reader) if settings.json else _FollowedRows(settings, reader)
    walk = EffectWalk(reader, usage_of)
    last = begin - 1
    try:
        for row in _rows(reader, begin, told):
            event = seen(reader, row)
            effect = None if settings.json else walk.take(row, event)
            told.event(event, effect)
            last = row.seq
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        told.interrupted(last)
        return INTERRUPTED
    told.end(last)
    return None


def _rows(reader: JournalReader, start: int, told: Any) -> Iterator[EventRow]:
    rested_since = time.monotonic()
    while True:
        for row in reader.store.scan(reader.namespace, reader.run, start):
            yield row
            start, rested_since = row.seq + 1, time.monotonic()
            if row.kind in TERMINAL_KINDS:
                return
        if start > 1 and _ended_before(reader, start):
            return
        if time.monotonic() - rested_since >= STANDING_AFTER_SECONDS:
            told.rests()
        time.sleep(POLL_SECONDS)


def _ended_before(reader: JournalReader, start: int) -> bool:
    """Return True if the run's terminal event is before `start`. One committed since the scan is still to be shown."""
    last = reader.store.last_event(reader.namespace, reader.run)
    if last is None and reader.store.run_row(reader.namespace, reader.run) is None:
        raise NotFound(f"run {reader.run} was removed meanwhile", code="unknown_run")
    return last is not None and last.seq < start and last.kind in TERMINAL_KINDS


class _FollowedRows:
    """For people."""

    def __init__(self, settings: Settings, reader: JournalReader) -> None:
        self._settings = settings
        self._reader = reader
        self._timeline = LiveTimeline()
        self._standing: tuple[str, tuple[str, ...]] | None = None

    def event(self, event: Any, effect: Any) -> None:
        self._timeline.add(event, effect)

    def rests(self) -> None:
        """Said once for each way in which it stands: why nothing comes."""
        from onrecord.reports.status import standing_of

        row = self._reader.store.run_row(self._reader.namespace, self._reader.run)
        if row is None:
            return
        standing = standing_of(self._reader.store, self._reader.namespace, row)
        found = standing.status, standing.about
        if found != self._standing and standing.status != "running":
            note(f"… the run is {status_text(*found)}")
        self._standing = found

    def interrupted(self, last: int) -> None:
        more = command_for(self._settings, "show", self._reader.run, "--follow", "--from", str(last + 1))
        note(f"\nnot followed any more behind event {last}; the run goes on without it\nGo on: {inert(more)}")

    def end(self, last: int) -> None:
        from onrecord.cli.render.output import suggest

        suggest(self._settings, (command_for(self._settings, "stats", self._reader.run), "tokens, cost and latency"))


class _Lines:
    """For programs."""

    def __init__(self, reader: JournalReader) -> None:
        self._reader = reader
        self._events = self._damaged = 0

    def event(self, event: Any, _: Any) -> None:
        from onrecord.reports.json_text import json_bytes

        self._events += 1
        self._damaged += event.damage is not None
        say(json_bytes(event.to_json()).decode())

    def rests(self) -> None:
        pass

    def interrupted(self, last: int) -> None:
        pass

    def end(self, last: int) -> None:
        from onrecord.core.hashing import render
        from onrecord.reports.json_text import json_bytes

        head = self._reader.head()
        end = {"run": self._reader.run, "events": self._events, "head": f"{head.seq}:{render(head.hash)}"}
        say(json_bytes({"end": {**end, "damaged": self._damaged}}).decode())
