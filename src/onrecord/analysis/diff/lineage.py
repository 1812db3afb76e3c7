"""A fork as one run: what it shares with its parents, then its own events, numbered through.

Events keep their links and contents where they are; place, lane and prefix digest are those that they would have if the
fork had been recorded from the beginning. A request that had no answer where the fork began, and that the fork has made
again in its own name, stands where it was made first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from reenact.core.events import ANSWERS, OPENING_KINDS
from reenact.core.links import Link
from reenact.core.matching import advance_prefix
from reenact.journal.lineage import Stretch, shared_stretches
from reenact.journal.reader import JournalReader
from reenact.store.contract import EventRow, Store


class _Origin(NamedTuple):
    stretch: Stretch
    seq: int


class ForkReader(JournalReader):
    """Reads a fork from the beginning of its line. Only what comparing needs is given such positions."""

    def __init__(self, fork: JournalReader, shared: list[Stretch]) -> None:
        super().__init__(fork.store, fork.run, fork.namespace)
        self._origins: list[_Origin] = []
        self._parents: dict[int, int] = {}
        self.line = _Line()
        own = Stretch(fork, fork.head().seq, 0)
        open_keys: dict[str, int] = {}
        for stretch in (*shared, own):
            open_keys = self._read(stretch, open_keys)

    def _read(self, stretch: Stretch, open_before: dict[str, int]) -> dict[str, int]:
        """Returns the keys of what is still open, and where it stands."""
        places: dict[int, int] = {}
        open_now: dict[int, str] = {}
        for row, _ in stretch._replace(shift=0).rows(contents=False):
            link = stretch.reader.link(row)
            again = open_before.pop(link.key or "", None) if row.kind in OPENING_KINDS else None
            if again is not None:
                places[row.seq] = again
                open_now[row.seq] = link.key or ""
                continue
            position = len(self._origins) + 1
            asked = places.get(link.parent or 0)
            if row.kind in OPENING_KINDS:
                open_now[row.seq] = link.key or ""
            elif row.kind in ANSWERS:
                open_now.pop(link.parent or 0, None)
            self._origins.append(_Origin(stretch, row.seq))
            places[row.seq] = position
            if asked is not None:
                self._parents[position] = asked
            self.line.add(row, position, asked if row.kind in ANSWERS else None)
        return {**open_before, **{key: places[seq] for seq, key in open_now.items()}}

    def origin(self, position: int) -> tuple[str, int]:
        """The run that an event is kept in, and its seq there."""
        stretch, seq = self._origins[position - 1]
        return stretch.reader.run, seq

    def parent_at(self, position: int) -> int | None:
        """Where the request stands that the event answers."""
        return self._parents.get(position)

    def erased(self) -> set[int]:
        return {row.seq for row in self.line.rows if row.match is None}

    def row(self, position: int) -> EventRow | None:
        """With its content."""
        if not 0 < position <= len(self._origins):
            return None
        stretch, seq = self._origins[position - 1]
        reader, placed = stretch.reader, self.line.rows[position - 1]
        kept = reader.store.event(reader.namespace, reader.run, seq)
        return None if kept is None else placed._replace(content=kept.content, salt=kept.salt)

    def link(self, row: EventRow) -> Link:
        stretch, seq = self._origins[row.seq - 1]
        link = stretch.reader.link(row._replace(seq=seq))
        return msgspec.structs.replace(link, parent=self.parent_at(row.seq))


class _Line:
    """What comparing asks a store for, of the line as a whole."""

    def __init__(self) -> None:
        self.rows: list[EventRow] = []
        self._lanes: dict[str, list[int]] = {}

    def add(self, row: EventRow, position: int, asked: int | None) -> None:
        if row.lane_seq is None:
            self.rows.append(row._replace(seq=position))
            return
        lane = self._lanes.setdefault(row.lane, [])
        last = self.rows[lane[-1] - 1].prefix if lane else None
        lane.append(position)
        request = self.rows[asked - 1] if asked is not None else None
        distance = 0
        if request is not None and request.lane == row.lane and request.lane_seq is not None:
            distance = len(lane) - request.lane_seq
        prefix = advance_prefix(last, row.match, distance)
        self.rows.append(row._replace(seq=position, lane_seq=len(lane), prefix=prefix))

    def lanes(self) -> list[EventRow]:
        return [self.rows[positions[-1] - 1] for positions in self._lanes.values()]

    def lane_event(self, lane: str, place: int) -> EventRow | None:
        positions = self._lanes.get(lane, [])
        return self.rows[positions[place - 1] - 1] if 0 < place <= len(positions) else None

    def scan(self, start: int, stop: int) -> Iterator[EventRow]:
        yield from self.rows[start - 1 : stop - 1]


def whole_line(store: Store, run: str, namespace: str) -> JournalReader:
    """The run, from the beginning of its line if it is a fork."""
    reader = JournalReader(store, run, namespace)
    shared = shared_stretches(reader)
    return ForkReader(reader, shared) if shared else reader
