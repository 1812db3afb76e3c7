"""Read a fork as one run: the events it shares with its parents, then its own, numbered consecutively.

Links and contents stay where they are stored. Position, lane and prefix digest are those of a fork recorded from the
beginning. A request that was open where the fork began, and that the fork made again, keeps its first position.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from onrecord.core.events import ANSWERS, OPENING_KINDS
from onrecord.core.links import Link
from onrecord.core.matching import advance_prefix
from onrecord.journal.lineage import Stretch, shared_stretches
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import EventRow, Store


class _Origin(NamedTuple):
    stretch: Stretch
    seq: int


class ForkReader(JournalReader):
    """Reader of a fork from the beginning of its line. Only the methods that a comparison needs use these positions."""

    def __init__(self, fork: JournalReader, shared: list[Stretch]) -> None:
        super().__init__(fork.store, fork.run, fork.namespace)
        self._origins: list[_Origin] = []
        self._parents: dict[int, int] = {}
        self.line = _LineRows()
        own = Stretch(fork, fork.head().seq, 0)
        open_keys: dict[str, int] = {}
        for stretch in (*shared, own):
            open_keys = self._read(stretch, open_keys)

    def _read(self, stretch: Stretch, open_before: dict[str, int]) -> dict[str, int]:
        """Read a stretch and return the keys and positions of the requests that are still open."""
        positions: dict[int, int] = {}
        open_now: dict[int, str] = {}
        for row, _ in stretch._replace(shift=0).rows(contents=False):
            link = stretch.reader.link(row)
            first_position = open_before.pop(link.key or "", None) if row.kind in OPENING_KINDS else None
            if first_position is not None:
                positions[row.seq] = first_position
                open_now[row.seq] = link.key or ""
                continue
            position = len(self._origins) + 1
            request_position = positions.get(link.parent or 0)
            if row.kind in OPENING_KINDS:
                open_now[row.seq] = link.key or ""
            elif row.kind in ANSWERS:
                open_now.pop(link.parent or 0, None)
            self._origins.append(_Origin(stretch, row.seq))
            positions[row.seq] = position
            if request_position is not None:
                self._parents[position] = request_position
            self.line.add(row, position, request_position if row.kind in ANSWERS else None)
        return {**open_before, **{key: positions[seq] for seq, key in open_now.items()}}

    def origin(self, position: int) -> tuple[str, int]:
        """Return the run that stores an event, and its seq there."""
        stretch, seq = self._origins[position - 1]
        return stretch.reader.run, seq

    def parent_at(self, position: int) -> int | None:
        """Return the position of the request that the event answers."""
        return self._parents.get(position)

    def erased(self) -> set[int]:
        return {row.seq for row in self.line.rows if row.match is None}

    def row(self, position: int) -> EventRow | None:
        """Return the event at a position, with its content."""
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


class _LineRows:
    """Event rows of the whole line, with the queries that a comparison makes of a store."""

    def __init__(self) -> None:
        self.rows: list[EventRow] = []
        self._lanes: dict[str, list[int]] = {}

    def add(self, row: EventRow, position: int, request_position: int | None) -> None:
        if row.lane_seq is None:
            self.rows.append(row._replace(seq=position))
            return
        lane = self._lanes.setdefault(row.lane, [])
        last = self.rows[lane[-1] - 1].prefix if lane else None
        lane.append(position)
        request = self.rows[request_position - 1] if request_position is not None else None
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


def open_lineage(store: Store, run: str, namespace: str) -> JournalReader:
    """Return a reader of the run, from the beginning of its line if it is a fork."""
    reader = JournalReader(store, run, namespace)
    shared = shared_stretches(reader)
    return ForkReader(reader, shared) if shared else reader
