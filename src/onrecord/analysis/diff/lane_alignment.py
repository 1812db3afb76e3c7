"""Align two lanes: give every event a status (matched, changed, added, removed, moved or unknown).

Two events match if their match digests are equal and, for answers, the requests they answer match too. The others:

1. An event that occurs on both sides, but out of order, has *moved*.
2. Between two matched events, a call, state or wait has *changed* into the unmatched one of the other side: one of the
   same tool first, then one of the same kind.
3. An answer follows its request: if the request has a partner, the two answers are compared.
4. An event without a partner was *removed* (only in the first run) or *added*.
5. If a content is erased, its status is *unknown*.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Literal, NamedTuple

from onrecord.analysis.compare.sequence_alignment import MatchingBlock, align
from onrecord.analysis.diff.lane_events import ERASED, LaneEvents, Numbers

Status = Literal["matched", "changed", "added", "removed", "moved", "unknown"]
NO_PARTNER = -1


class AlignedStep(NamedTuple):
    """A status with the indexes of its event on each side, in the aligned stretches."""

    status: Status
    a: int
    b: int


class LaneAlignment:
    """Alignment of two paired lane stretches, with a status for every event of either side."""

    def __init__(self, a: LaneEvents, b: LaneEvents) -> None:
        self.a, self.b = a, b
        self.matched = 0
        self.steps: list[AlignedStep] = []
        """The events that did not match: those of the first run in order, then the added ones."""
        self._partner_a = array("q", [NO_PARTNER]) * len(a)
        self._partner_b = array("q", [NO_PARTNER]) * len(b)
        self._moved: set[int] = set()
        tokens_a, tokens_b = _number_events(a, b)
        blocks = align(tokens_a, tokens_b)
        for block in blocks:
            for offset in range(block.length):
                self._make_partners(block.expected + offset, block.actual + offset)
        self._find_moved(tokens_a, tokens_b)
        self._find_changed(blocks)
        self._compare_answers()
        self._list_steps()

    def status_of_a(self, index: int) -> Status:
        partner = self._partner_a[index]
        if partner == NO_PARTNER:
            return "removed"
        if ERASED in (self.a.matches[index], self.b.matches[partner]):
            return "unknown"
        if self.a.matches[index] != self.b.matches[partner]:
            return "changed"
        return "moved" if index in self._moved else "matched"

    def status_of_b(self, index: int) -> Status:
        partner = self._partner_b[index]
        return "added" if partner == NO_PARTNER else self.status_of_a(partner)

    def are_partners(self, a: int, b: int) -> bool:
        return self._partner_a[a] == b

    def _make_partners(self, a: int, b: int) -> None:
        self._partner_a[a], self._partner_b[b] = b, a

    def _find_moved(self, tokens_a: list[int], tokens_b: list[int]) -> None:
        free: dict[int, list[int]] = {}
        for index in range(len(tokens_b) - 1, -1, -1):
            if self._partner_b[index] == NO_PARTNER:
                free.setdefault(tokens_b[index], []).append(index)
        for index, token in enumerate(tokens_a):
            if self._partner_a[index] == NO_PARTNER and free.get(token):
                self._make_partners(index, free[token].pop())
                self._moved.add(index)

    def _find_changed(self, blocks: list[MatchingBlock]) -> None:
        at_a = at_b = 0
        for block in [*blocks, MatchingBlock(len(self.a), len(self.b), 0)]:
            gap_a = [
                at
                for at in range(at_a, block.expected)
                if self._partner_a[at] == NO_PARTNER and not self.a.distances[at]
            ]
            gap_b = [
                at for at in range(at_b, block.actual) if self._partner_b[at] == NO_PARTNER and not self.b.distances[at]
            ]
            if gap_a and gap_b:
                self._pair_gap(gap_a, gap_b)
            at_a, at_b = block.expected + block.length, block.actual + block.length

    def _pair_gap(self, gap_a: list[int], gap_b: list[int]) -> None:
        """Pair events of equal labels in order, and the events between them by kind."""
        labels_a, labels_b = [self.a.labels[at] for at in gap_a], [self.b.labels[at] for at in gap_b]
        at_a = at_b = 0
        for block in [*align(labels_a, labels_b), MatchingBlock(len(gap_a), len(gap_b), 0)]:
            for one, other in zip(gap_a[at_a : block.expected], gap_b[at_b : block.actual], strict=False):
                if self.a.kinds[one] == self.b.kinds[other]:
                    self._make_partners(one, other)
            for offset in range(block.length):
                self._make_partners(gap_a[block.expected + offset], gap_b[block.actual + offset])
            at_a, at_b = block.expected + block.length, block.actual + block.length

    def _compare_answers(self) -> None:
        """Pair the answers to paired requests, and to requests before the stretches."""
        answers_b = {
            index - distance: index
            for index, distance in enumerate(self.b.distances)
            if distance and self._partner_b[index] == NO_PARTNER
        }
        for index, distance in enumerate(self.a.distances):
            if not distance or self._partner_a[index] != NO_PARTNER:
                continue
            request = index - distance
            request_b = self._partner_a[request] if request >= 0 else request
            other = answers_b.get(request_b) if request < 0 or request_b != NO_PARTNER else None
            if other is not None:
                self._make_partners(index, other)
                if request in self._moved:
                    self._moved.add(index)

    def _list_steps(self) -> None:
        for index in range(len(self.a)):
            status = self.status_of_a(index)
            if status == "matched":
                self.matched += 1
            else:
                self.steps.append(AlignedStep(status, index, self._partner_a[index]))
        self.steps.extend(
            AlignedStep("added", NO_PARTNER, index)
            for index in range(len(self.b))
            if self._partner_b[index] == NO_PARTNER
        )


def _number_events(a: LaneEvents, b: LaneEvents) -> tuple[list[int], list[int]]:
    """Return a number for each event's meaning and the request it answers. An erased event gets a unique number."""
    numbers = Numbers()
    unique = iter(range(-1, -2 - len(a) - len(b), -1))

    def tokens_of(events: LaneEvents) -> Iterator[int]:
        for index, match in enumerate(events.matches):
            if match == ERASED:
                yield next(unique)
                continue
            distance = events.distances[index]
            request = index - distance
            # A request before the stretches is in the part that both runs share: its position identifies it.
            request_token = NO_PARTNER if not distance else events.matches[request] if request >= 0 else request - 1
            yield numbers[(match, request_token)]

    return list(tokens_of(a)), list(tokens_of(b))


def steps_in_order(alignments: list[LaneAlignment]) -> list[tuple[int, LaneAlignment, AlignedStep]]:
    """Return the steps of all lanes by seq: that of the first run, or of the second for added events."""
    found = [
        (one.a.seqs[step.a] if step.a != NO_PARTNER else one.b.seqs[step.b], one, step)
        for one in alignments
        for step in one.steps
    ]
    found.sort(key=lambda entry: entry[0])
    return found
