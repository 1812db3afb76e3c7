"""Lanes that began alike and were bound to each other's records change places.

1. A lane is bound to the recorded sibling that began as it did. Where several did that is a guess, and a wrong one
   shows later: the lane asks for what only the record of another has, or it ends where its record goes on.
2. Then the two change places, with everything below them. Whatever the one has had so far must be the same in the
   record of the other: requests, answers, turns, drawn values, states.
3. A lane that is bound by its birth, or to the only one that was begun with the same, is where it belongs, as long as
   it does not ask for something else and the run does not stand still: whoever is missing may just be slow. And where
   its record ends it may just be the first to go on.
4. The recorded order can be met again, whichever of them was ahead: deliveries move with the binding (`lane_swap`).

All of this is called with the run's lock held, while the run comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onrecord.runtime.replay.history import History
from onrecord.runtime.replay.records import START, TIMER, RecordedChunk, RecordedLane, RecordedRequest, RecordedTurn
from onrecord.runtime.scheduler.lane_swap import LanePlaces, LaneSwap, draws_of

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.runtime.replay.cursor import ReplayCursor
    from onrecord.runtime.scheduler.lanes import Lane


Fits = Callable[[RecordedLane], bool]
"""Whether a recorded lane is the right one for whoever asks."""


class LaneExchange:
    def __init__(self, run: LiveRun, past: History) -> None:
        self._run = run
        self._past = past
        self.holders = LaneSwap(run, past)
        self._trusts_births = False
        """What speaks for an exchange is no more than that somebody is not as far as the record is, or farther."""
        self._asks: Lane | None = None
        self._fits: Fits = _any_place
        self._begins: Fits | None = None
        self._tried: set[frozenset[str]] = set()
        self._tried_at: tuple[Any, ...] = ()

    @contextmanager
    def trusting_births(self, trusting: bool) -> Iterator[None]:
        self._trusts_births = trusting
        try:
            yield
        finally:
            self._trusts_births = False

    # When

    def for_request(self, lane: Lane, fits: Fits, *, at_rest: bool = False) -> bool:
        """The lane asks for what its own record does not have: binds it to one that fits, if it can."""
        exchange = self._try if at_rest else self._exchange
        self._asks, self._fits = lane, fits
        try:
            return lane.recorded is not None and any(
                exchange(own, sibling)
                for own in self._upwards(lane.recorded)  # it may be the one above that was bound wrongly
                for sibling in self._siblings(own)
            )
        finally:
            self._asks, self._fits = None, _any_place

    def for_beginning(self, above: Lane, begins: Fits) -> bool:
        """A new lane begins as none does in the record of the one above it: binds that one to one where it does."""
        self._begins = begins
        try:
            return self.for_request(above, lambda place: any(map(begins, self._past.children(place.path))))
        finally:
            self._begins = None

    def for_an_end(self, missing: RecordedLane) -> bool:
        """What the record has next does not come, and the lane that it should come from or go to has ended: its place
        is where the record has such an end."""
        own = self._lowest_bound(missing)
        if own is None or not own.bound.is_over:
            return False
        made, taken = self._made_below(own), sum(isinstance(one, RecordedTurn) for one in own.bound.taken)

        def ends_so(place: RecordedLane) -> bool:
            if place.bound is not None and place.bound.is_over:
                return False
            return self._recorded_below(place) == made and len(self._past.turns_of(place.path)) <= taken

        return self.for_request(own.bound, ends_so, at_rest=True)

    def for_a_turn(self, turn: RecordedTurn, *, sure: bool) -> bool:
        """What the record has next is nothing that the lane waits for, but a sibling does. Of timers that is sure at
        once: they are waited for as soon as they are made."""
        own = self._past.lanes.get(turn.lane)
        if own is None or (sure and turn.kind != TIMER) or self._order.find(turn) is not None:
            return False
        waiting = self._order.expected
        return self.for_an_end(own) or any(
            sibling.bound is not None
            and (turn.kind, id(sibling.bound), turn.ordinal) in waiting
            and self._try(own, sibling)
            for sibling in self._siblings(own)
        )

    def for_a_missing_one(self, missing: RecordedLane, first_unmade: Callable[[], int]) -> bool:
        """The next request of the record has not been made by the lane that should, but a sibling has made its like."""
        before = first_unmade()
        for own in self._upwards(missing):
            for sibling in self._siblings(own):
                pairs = self._pairs(own, sibling) if self._may_come_from(own, sibling) else None
                if pairs is not None:
                    self.holders.exchange(pairs)
                    if first_unmade() > before:
                        return True
                    self.holders.exchange(pairs)  # and back again
        return False

    def _may_come_from(self, own: RecordedLane, sibling: RecordedLane) -> bool:
        """Whoever has the sibling's place has made something, and may go on as this record does."""
        made, lane = self._made_below(sibling), sibling.bound
        if made == 0 or lane is None or self._recorded_below(own) <= made:
            return made > 0
        return not lane.is_over and not self._begins_what_is_not_in(own, lane)

    def for_a_start(self) -> bool:
        """The run stands still, and somebody begins a thread or a job that a sibling's record has, and not his own."""

        def has_it(place: RecordedLane) -> bool:
            return not self._begins_what_is_not_in(place, lane)

        for item in list(self._order.expected.values()):
            lane = item.lane
            is_elsewhere = item.kind == START and lane.recorded is not None and not has_it(lane.recorded)
            if is_elsewhere and self.for_request(lane, has_it, at_rest=True):
                return True
        return False

    def _begins_what_is_not_in(self, own: RecordedLane, lane: Lane) -> bool:
        begun = {turn.ordinal for turn in self._past.turns_of(own.path) if turn.kind == START}
        return any(
            item.kind == START and item.lane is lane and item.ordinal not in begun
            for item in self._order.expected.values()
        )

    def for_progress(self, missing: RecordedLane) -> bool:
        """The run stands still. Perhaps it is somebody else who asks for what the record has next: somebody who is not
        as far yet, so that this comes to an end."""
        own = self._lowest_bound(missing)
        if own is None:
            return False
        progress = _progress(own.bound)

        def is_behind(place: RecordedLane) -> bool:
            return place.bound is not None and _progress(place.bound) < progress

        return self.for_request(own.bound, is_behind, at_rest=True)

    def _lowest_bound(self, recorded: RecordedLane) -> RecordedLane | None:
        return next((one for one in self._upwards(recorded) if one.bound is not None), None)

    def _upwards(self, recorded: RecordedLane) -> Iterator[RecordedLane]:
        path = recorded.path
        while not self._past.lanes[path].main:
            yield self._past.lanes[path]
            path = path.rpartition(".")[0]

    def _siblings(self, recorded: RecordedLane) -> list[RecordedLane]:
        if recorded.main:
            return []
        beside = self._past.children(recorded.path.rpartition(".")[0])
        return [one for one in beside if one is not recorded and not one.main]

    def _recorded_below(self, recorded: RecordedLane) -> int:
        return len(recorded.requests) + sum(map(self._recorded_below, self._past.children(recorded.path)))

    def _made_below(self, recorded: RecordedLane) -> int:
        made = len(recorded.bound.made) if recorded.bound is not None else 0
        return made + sum(map(self._made_below, self._past.children(recorded.path)))

    @property
    def _order(self) -> ReplayCursor:
        order = self._run.turns.order
        assert order is not None
        return order

    # Whether they are alike

    def _exchange(self, one: RecordedLane, other: RecordedLane) -> bool:
        pairs = self._pairs(one, other)
        if pairs is None or not self._has_room(pairs):
            return False
        self.holders.exchange(pairs)
        return True

    def _has_room(self, pairs: list[LanePlaces]) -> bool:
        """There, a lane that begins as the new one does is not one of those that have begun already."""
        if self._begins is None:
            return True
        place = next(there for here, there in _both_ways(pairs) if here.bound is self._asks)
        taken = {id(there) for here, there in _both_ways(pairs) if here.bound is not None}
        gone = {id(there) for here, there in _both_ways(pairs) if here.bound is None}
        return any(
            self._begins(child) and id(child) not in taken and (child.bound is None or id(child) in gone)
            for child in self._past.children(place.path)
        )

    def _try(self, one: RecordedLane, other: RecordedLane) -> bool:
        """The same, but not to and fro as long as nothing comes of it."""
        turns, key = self._run.turns, frozenset((one.path, other.path))
        if self._tried_at != turns.progress:
            self._tried, self._tried_at = set(), turns.progress
        if key in self._tried or not self._exchange(one, other):
            return False
        self._tried.add(key)
        return True

    def _pairs(self, one: RecordedLane, other: RecordedLane) -> list[LanePlaces] | None:
        """What changes places with what, from these two downwards; None if they are not alike."""
        if not (self._suits(one.bound, one, other) and self._suits(other.bound, other, one)):
            return None
        pairs = [LanePlaces(one, other)]
        left, right = list(self._past.children(one.path)), list(self._past.children(other.path))
        for here, there in ((left, right), (right, left)):
            for below in sorted(here, key=self._has_who_asks, reverse=True):
                if below.bound is None or below not in here:
                    continue
                found = self._counterpart(below, there)
                if found is None:
                    return None
                here.remove(below)
                there.remove(found[0].other)
                pairs += found
        return pairs

    def _has_who_asks(self, recorded: RecordedLane) -> bool:
        own = self._asks.path if self._asks is not None else None
        return own is not None and f"{own}.".startswith(f"{recorded.path}.")

    def _counterpart(self, below: RecordedLane, among: list[RecordedLane]) -> list[LanePlaces] | None:
        number = below.path.rpartition(".")[2]
        for candidate in sorted(among, key=lambda one: one.path.rpartition(".")[2] != number):
            pairs = self._pairs(below, candidate)
            if pairs is not None:
                return pairs
        return None

    def _suits(self, lane: Lane | None, own: RecordedLane, place: RecordedLane) -> bool:
        """Everything that the lane has had of its own record is the same there."""
        if lane is None:
            return True
        book = self._run.book
        if self._trusts_births and (book.is_by_birth(own) or book.is_begun_as(own, place)):
            return False
        made, states = len(lane.made), lane.ordinals.get("state", 0)
        return (
            (lane is not self._asks or self._fits(place))
            and made <= len(place.requests)
            and lane.made == own.requests[:made]
            and all(map(self._is_alike, lane.made, place.requests))
            and [mark.match for mark in own.marks[:states]] == [mark.match for mark in place.marks[:states]]
            and self._has_taken(lane, own, place)
            and all(self._drew(own, kind, n) == self._drew(place, kind, n) for kind, n in draws_of(lane, own.path))
            and book.name_of(own) == book.name_of(place)
        )

    def _is_alike(self, own: RecordedRequest, other: RecordedRequest) -> bool:
        if own.match is None or own.match != other.match or own.kind != other.kind or _short(own) != _short(other):
            return False
        mine, others = own.answer, other.answer
        if mine is not None and mine.handed:
            return others is not None and mine.row.match is not None and mine.row.match == others.row.match
        # It waits for the answer, and may as well wait for that of the other; or it has given up waiting.
        waits = any(ticket.recorded is own for ticket in self._run.waiting)
        return waits and (others is None or others.kind != "ActionDenied")

    def _has_taken(self, lane: Lane, own: RecordedLane, place: RecordedLane) -> bool:
        turns = self.holders.turns_of(own, place) if lane.taken else {}
        for entry in lane.taken:
            there = self.holders.counterpart_of(entry, lane, own, place, turns)
            if there is None:
                return False
            if isinstance(entry, RecordedChunk) and isinstance(there, RecordedChunk):
                mine, others = (self._past.members(chunk.row)["chunk"] for chunk in (entry, there))
                if mine != others:
                    return False
        return True

    def _drew(self, place: RecordedLane, kind: str, count: int) -> list[Any]:
        return self._past.draws.get((place.path, kind), [])[:count]


def _any_place(_: RecordedLane) -> bool:
    return True


def _both_ways(pairs: list[LanePlaces]) -> Iterator[tuple[RecordedLane, RecordedLane]]:
    for pair in pairs:
        yield pair.one, pair.other
        yield pair.other, pair.one


def _short(request: RecordedRequest) -> str:
    """Its key without the lane; a key of the caller's own is like no other."""
    return request.key.removeprefix(request.lane) if request.key.startswith(f"{request.lane}/") else request.key


def _progress(lane: Lane) -> int:
    """How much of its record the lane has had."""
    return len(lane.taken) + sum(request.answer is not None and request.answer.handed for request in lane.made)
