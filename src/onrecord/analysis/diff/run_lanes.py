"""The lanes of one run: their tree, their ends and their folds.

A store returns the end of every lane in one call. The tree and the folds (docs/format.md, section 2), and with them
whether two subtrees are equal, follow without another read. Single prefix digests are read one by one, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from onrecord.analysis.diff.lineage import ForkReader
from onrecord.core.hashing import ZERO, lane_fold
from onrecord.core.lane_names import parent_lane
from onrecord.errors import Damaged
from onrecord.journal.operation_records import erased_seqs
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import EventRow

ROOT = ""
"""The parent of lane `main`, which all other lanes come from."""


class RunLanes:
    def __init__(self, reader: JournalReader) -> None:
        self.reader = reader
        self._line = reader.line if isinstance(reader, ForkReader) else None
        ends = reader.store.lanes(reader.namespace, reader.run) if self._line is None else self._line.lanes()
        self.ends = {row.lane: row for row in ends}
        self.last_seq = max((row.seq for row in self.ends.values()), default=0)
        """The end of the comparison: events appended later are not read."""
        self.reads: Counter[str] = Counter()
        """Digests read in each lane, without its end."""
        self.children: dict[str, list[str]] = {}
        self.folds: dict[str, bytes] = {}
        self._make_tree()
        for lane in reversed(self.below(ROOT)):
            self.folds[lane] = lane_fold(self.prefix(lane), [self.folds[one] for one in self.children.get(lane, ())])

    @property
    def events(self) -> int:
        return sum(self.length(lane) for lane in self.ends)

    def length(self, lane: str) -> int:
        """Return the number of behavioural events."""
        end = self.ends.get(lane)
        return 0 if end is None or end.lane_seq is None else end.lane_seq

    def prefix(self, lane: str) -> bytes:
        """Return the digest of the whole lane."""
        end = self.ends.get(lane)
        return ZERO if end is None or end.prefix is None else end.prefix

    def at(self, lane: str, place: int) -> EventRow:
        """Return the event at this position of the lane (from 1), without its content. Costs one read."""
        end = self.ends[lane]
        if place == end.lane_seq:
            return end
        self.reads[lane] += 1
        reader = self.reader
        if self._line is not None:
            row = self._line.lane_event(lane, place)
        else:
            row = reader.store.lane_event(reader.namespace, reader.run, lane, place)
        if row is None or row.prefix is None:
            raise Damaged(f"run {reader.run} lacks event {place} of lane {lane}", code="missing_event")
        return row

    def below(self, lane: str) -> list[str]:
        """Return the lane and all its descendants."""
        found = [lane]
        for one in found:
            found.extend(self.children.get(one, ()))
        return found

    def first(self, lane: str) -> EventRow:
        """Return the first event of the lane; of its first descendant by name where it has none of its own."""
        while lane not in self.ends:
            lane = self.children[lane][0]
        return self.at(lane, 1)

    def row(self, seq: int) -> EventRow | None:
        """Return an event with its content."""
        reader = self.reader
        if isinstance(reader, ForkReader):
            return reader.row(seq)
        return reader.store.event(reader.namespace, reader.run, seq)

    def scan(self, start: int) -> Iterator[EventRow]:
        """Return the events from `start` to the end that the run had when the comparison began, without contents."""
        reader, stop = self.reader, self.last_seq + 1
        if self._line is not None:
            return self._line.scan(start, stop)
        return reader.store.scan(reader.namespace, reader.run, start, stop, contents=False)

    def erased(self) -> set[int]:
        """Return the seqs of erased contents."""
        reader = self.reader
        if isinstance(reader, ForkReader):
            return reader.erased()
        return erased_seqs(reader.store, reader.namespace, reader.run)

    def request_of(self, row: EventRow, parent: int | None) -> int | None:
        """Return the position of the request that an event answers."""
        return self.reader.parent_at(row.seq) if isinstance(self.reader, ForkReader) else parent

    def origin(self, row: EventRow) -> tuple[str, int]:
        """Return the run that stores the event, and its seq there."""
        return self.reader.origin(row.seq) if isinstance(self.reader, ForkReader) else (self.reader.run, row.seq)

    def _make_tree(self) -> None:
        known: set[str] = set()
        for lane in self.ends:
            while lane not in known and lane != ROOT:
                known.add(lane)
                above = parent_lane(lane) or ROOT
                self.children.setdefault(above, []).append(lane)
                lane = above
        for siblings in self.children.values():
            siblings.sort()
