"""What became of each event of a lane in the other run: matched, changed, added, removed, moved, or unknown.

Two events match when they mean the same and, if they answer something, answer the same. Of what is left over,

1. an event that occurs on both sides, at places that do not line up, has *moved*;
2. between two matched events, a call, a state, a wait has *changed* into the one of the other side that stands in its
   place: that of the same tool first, then that of the same kind;
3. an answer belongs to its request: where that one has a counterpart, the two answers are compared;
4. what has no counterpart was *removed* (it is in the first run only) or *added*;
5. where a content is erased, whether it changed is *unknown*.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Literal, NamedTuple

from reenact.replays.divergence.aligning import Block, align
from reenact.replays.divergence.lane_events import ERASED, LaneEvents, Numbers

Status = Literal["matched", "changed", "added", "removed", "moved", "unknown"]
NOBODY = -1


class Step(NamedTuple):
    """One event, or one of each side: indexes into the stretches that were aligned."""

    status: Status
    a: int
    b: int


class LaneAlignment:
    """Two stretches of lanes that belong together, every event on either side with its status."""

    def __init__(self, a: LaneEvents, b: LaneEvents) -> None:
        self.a, self.b = a, b
        self.matched = 0
        self.steps: list[Step] = []
        """All that did not match: those of the first run in its order, then what was added."""
        self._partner_a = array("q", [NOBODY]) * len(a)
        self._partner_b = array("q", [NOBODY]) * len(b)
        self._moved: set[int] = set()
        tokens_a, tokens_b = _tokens(a, b)
        blocks = align(tokens_a, tokens_b)
        for block in blocks:
            for offset in range(block.length):
                self._tie(block.a + offset, block.b + offset)
        self._find_moved(tokens_a, tokens_b)
        self._find_changed(blocks)
        self._compare_answers()
        self._tell()

    def status_of_a(self, index: int) -> Status:
        partner = self._partner_a[index]
        if partner == NOBODY:
            return "removed"
        if ERASED in (self.a.matches[index], self.b.matches[partner]):
            return "unknown"
        if self.a.matches[index] != self.b.matches[partner]:
            return "changed"
        return "moved" if index in self._moved else "matched"

    def status_of_b(self, index: int) -> Status:
        partner = self._partner_b[index]
        return "added" if partner == NOBODY else self.status_of_a(partner)

    def are_partners(self, a: int, b: int) -> bool:
        return self._partner_a[a] == b

    def _tie(self, a: int, b: int) -> None:
        self._partner_a[a], self._partner_b[b] = b, a

    def _find_moved(self, tokens_a: list[int], tokens_b: list[int]) -> None:
        waiting: dict[int, list[int]] = {}
        for index in range(len(tokens_b) - 1, -1, -1):
            if self._partner_b[index] == NOBODY:
                waiting.setdefault(tokens_b[index], []).append(index)
        for index, token in enumerate(tokens_a):
            if self._partner_a[index] == NOBODY and waiting.get(token):
                self._tie(index, waiting[token].pop())
                self._moved.add(index)

    def _find_changed(self, blocks: list[Block]) -> None:
        at_a = at_b = 0
        for block in [*blocks, Block(len(self.a), len(self.b), 0)]:
            gap_a = [at for at in range(at_a, block.a) if self._partner_a[at] == NOBODY and not self.a.distances[at]]
            gap_b = [at for at in range(at_b, block.b) if self._partner_b[at] == NOBODY and not self.b.distances[at]]
            if gap_a and gap_b:
                self._pair_gap(gap_a, gap_b)
            at_a, at_b = block.a + block.length, block.b + block.length

    def _pair_gap(self, gap_a: list[int], gap_b: list[int]) -> None:
        """Those of one label in order, and what lies between them by kind."""
        about_a, about_b = [self.a.labels[at] for at in gap_a], [self.b.labels[at] for at in gap_b]
        at_a = at_b = 0
        for block in [*align(about_a, about_b), Block(len(gap_a), len(gap_b), 0)]:
            for one, other in zip(gap_a[at_a : block.a], gap_b[at_b : block.b], strict=False):
                if self.a.kinds[one] == self.b.kinds[other]:
                    self._tie(one, other)
            for offset in range(block.length):
                self._tie(gap_a[block.a + offset], gap_b[block.b + offset])
            at_a, at_b = block.a + block.length, block.b + block.length

    def _compare_answers(self) -> None:
        """Answers to requests that have each other as counterparts, and to requests before the stretches."""
        answers_b = {
            index - distance: index
            for index, distance in enumerate(self.b.distances)
            if distance and self._partner_b[index] == NOBODY
        }
        for index, distance in enumerate(self.a.distances):
            if not distance or self._partner_a[index] != NOBODY:
                continue
            asked = index - distance
            asked_b = self._partner_a[asked] if asked >= 0 else asked
            other = answers_b.get(asked_b) if asked < 0 or asked_b != NOBODY else None
            if other is not None:
                self._tie(index, other)
                if asked in self._moved:
                    self._moved.add(index)

    def _tell(self) -> None:
        for index in range(len(self.a)):
            status = self.status_of_a(index)
            if status == "matched":
                self.matched += 1
            else:
                self.steps.append(Step(status, index, self._partner_a[index]))
        self.steps.extend(
            Step("added", NOBODY, index) for index in range(len(self.b)) if self._partner_b[index] == NOBODY
        )


def _tokens(a: LaneEvents, b: LaneEvents) -> tuple[list[int], list[int]]:
    """What an event means together with what it answers, as numbers. An erased event is like no other."""
    numbers = Numbers()
    alone = iter(range(-1, -2 - len(a) - len(b), -1))

    def of(events: LaneEvents) -> Iterator[int]:
        for index, match in enumerate(events.matches):
            if match == ERASED:
                yield next(alone)
                continue
            distance = events.distances[index]
            asked = index - distance
            # A request before the stretches stands in the part that both have: its place says which one it is.
            about = NOBODY if not distance else events.matches[asked] if asked >= 0 else asked - 1
            yield numbers[(match, about)]

    return list(of(a)), list(of(b))


def lanes_in_order(alignments: list[LaneAlignment]) -> list[tuple[int, LaneAlignment, Step]]:
    """The steps of all lanes as they came: by seq, of the first run where the event is in it."""
    found = [
        (one.a.seqs[step.a] if step.a != NOBODY else one.b.seqs[step.b], one, step)
        for one in alignments
        for step in one.steps
    ]
    found.sort(key=lambda entry: entry[0])
    return found


__all__ = ["NOBODY", "LaneAlignment", "Status", "Step", "lanes_in_order"]
