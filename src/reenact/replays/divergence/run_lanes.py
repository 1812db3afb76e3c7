"""One run as its lanes: how they stand below each other, where each ends, and what they fold to.

A store tells the end of every lane in one call; the tree, the folds (docs/format.md, section 2) and whether two
subtrees are alike follow from that without another read. Single prefix digests are asked for one by one, and counted.
"""

from __future__ import annotations

from collections import Counter

from reenact.core.hashing import ZERO, lane_fold
from reenact.errors import Damaged
from reenact.journal.reader import JournalReader
from reenact.store.contract import EventRow

ROOT = ""
"""Above all lanes: lane `0` is its child, and in foreign recordings perhaps others are."""


class RunLanes:
    def __init__(self, reader: JournalReader) -> None:
        self.reader = reader
        self.ends = {row.lane: row for row in reader.store.lanes(reader.namespace, reader.run)}
        self.last_seq = max((row.seq for row in self.ends.values()), default=0)
        """What is appended from now on is not looked at: the comparison is of one moment."""
        self.reads: Counter[str] = Counter()
        """Digests read in each lane, its end not counted."""
        self.children: dict[str, list[str]] = {}
        self.folds: dict[str, bytes] = {}
        self._make_tree()
        self._fold()

    @property
    def events(self) -> int:
        return sum(self.length(lane) for lane in self.ends)

    def length(self, lane: str) -> int:
        """How many behavioural events it has."""
        end = self.ends.get(lane)
        return 0 if end is None or end.lane_seq is None else end.lane_seq

    def prefix(self, lane: str) -> bytes:
        """The digest of all of it."""
        end = self.ends.get(lane)
        return ZERO if end is None or end.prefix is None else end.prefix

    def at(self, lane: str, place: int) -> EventRow:
        """The event at this place of the lane (from 1), without its content: one read."""
        end = self.ends[lane]
        if place == end.lane_seq:
            return end
        self.reads[lane] += 1
        reader = self.reader
        row = reader.store.lane_event(reader.namespace, reader.run, lane, place)
        if row is None or row.prefix is None:
            raise Damaged(f"run {reader.run} lacks event {place} of lane {lane}", code="missing_event")
        return row

    def below(self, lane: str) -> list[str]:
        """The lane and all those below it."""
        found = [lane]
        for one in found:
            found.extend(self.children.get(one, ()))
        return found

    def first(self, lane: str) -> EventRow:
        """The first event in the lane or below it. Siblings are numbered as they begin: the lowest began first."""
        rows = []
        while True:
            if lane in self.ends:
                rows.append(self.at(lane, 1))
            if not self.children.get(lane):
                return min(rows, key=lambda row: row.seq)
            lane = self.children[lane][0]

    def name(self, lane: str) -> str | None:
        """The name that the program gave the lane; its first request carries it."""
        first = self.first(lane)
        row = self.reader.store.event(self.reader.namespace, self.reader.run, first.seq)
        tree = None if row is None else self.reader.content_tree(row, self.reader.link(row))
        meta = tree.get("meta") if isinstance(tree, dict) else None
        name = meta.get("lane") if isinstance(meta, dict) else None
        return name if isinstance(name, str) else None

    def _make_tree(self) -> None:
        known: set[str] = set()
        for lane in self.ends:
            while lane not in known and lane != ROOT:
                known.add(lane)
                above = lane.rpartition(".")[0]
                self.children.setdefault(above, []).append(lane)
                lane = above
        for siblings in self.children.values():
            siblings.sort(key=lambda lane: int(lane.rpartition(".")[2]))

    def _fold(self) -> None:
        for lane in reversed(self.below(ROOT)):
            self.folds[lane] = lane_fold(self.prefix(lane), [self.folds[one] for one in self.children.get(lane, ())])
