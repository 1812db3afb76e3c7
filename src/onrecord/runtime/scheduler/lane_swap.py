"""Two recorded lanes change holders: what each of them was handed, asked for and waits for goes with the place.

What the one that is ahead has had is given back, for the one that is behind; what the other record has in its place
counts as taken. Turns are written with the next commit, so the last ones before the process died are on record nowhere:
whoever has had one of those keeps it, and the record is told of it once the run is live.

All of this is called with the run's lock held, while the run comes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from onrecord.runtime.replay.history import History
from onrecord.runtime.replay.records import RecordedChunk, RecordedLane, RecordedRequest, RecordedTurn
from onrecord.runtime.scheduler.delivery_item import ANSWER, name_of

if TYPE_CHECKING:
    from onrecord.runtime.engine.open_effect import OpenEffect
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.runtime.replay.cursor import ReplayCursor
    from onrecord.runtime.replay.records import HandOver
    from onrecord.runtime.scheduler.lanes import Lane


class LanePlaces(NamedTuple):
    """Two recorded lanes whose holders are to change places. One of them may have none."""

    one: RecordedLane
    other: RecordedLane


class LaneSwap:
    """Who is bound to which recorded lane, as something that can be exchanged."""

    def __init__(self, run: LiveRun, past: History) -> None:
        self._run = run
        self._past = past

    @property
    def _order(self) -> ReplayCursor:
        order = self._run.turns.order
        assert order is not None
        return order

    def exchange(self, pairs: list[LanePlaces]) -> None:
        """The same pairs once more, and everything is as it was."""
        order = self._order
        moved = {id(lane) for pair in pairs for lane in (pair.one.bound, pair.other.bound) if lane is not None}
        tickets = [one for one in self._run.waiting if id(one.lane) in moved and one.recorded is not None]
        items = [item for item in order.expected.values() if item.ticket in tickets]
        for item in items:
            del order.expected[name_of(item)]
        given_back: list[HandOver] = []
        taken: list[HandOver] = []
        instead: dict[int, RecordedRequest] = {}
        for pair in pairs:
            self._exchange_taken(pair, given_back, taken)
            given_back += _exchange_requests(pair, instead)
            self._exchange_holders(pair)
        order.change(given_back, taken)
        for ticket in tickets:
            self._rebind(ticket, instead)
        for item in items:
            if item.kind != ANSWER:
                order.expected[name_of(item)] = item
        assert self._run.coming_back is not None
        self._run.coming_back.changed_places(tickets)

    def _exchange_taken(self, pair: LanePlaces, given_back: list[HandOver], taken: list[HandOver]) -> None:
        holders: list[Lane | None] = [pair.one.bound, pair.other.bound]
        before = [lane.taken if lane is not None else [] for lane in holders]
        turns = self.turns_of(*pair) if any(before) else {}
        after: list[list[Any]] = [
            [self.counterpart_of(entry, lane, own, place, turns) for entry in lane.taken] if lane is not None else []
            for lane, own, place in ((holders[0], *pair), (holders[1], pair.other, pair.one))
        ]
        had, has = ({id(entry): entry for entry in (*lists[0], *lists[1])} for lists in (before, after))
        given_back += [entry for key, entry in had.items() if key not in has]
        taken += [entry for key, entry in has.items() if key not in had]
        for lane, entries in zip(holders, after, strict=True):
            if lane is not None:
                lane.taken = entries

    def _exchange_holders(self, pair: LanePlaces) -> None:
        one, other = pair.one.bound, pair.other.bound
        for lane, own, place in ((one, pair.one, pair.other), (other, pair.other, pair.one)):
            place.bound = lane
            if lane is None:
                self._past.is_free_again(place)
                continue
            lane.recorded, lane.path, lane.made = place, place.path, place.requests[: len(lane.made)]
            for kind, count in list(draws_of(lane, own.path)):
                lane.ordinals[f"draw:{kind}:{place.path}"] = count
                del lane.ordinals[f"draw:{kind}:{own.path}"]

    def _rebind(self, ticket: OpenEffect, instead: dict[int, RecordedRequest]) -> None:
        assert ticket.recorded is not None
        recorded = instead.get(ticket.recorded.seq, ticket.recorded)
        ticket.recorded, ticket.key, ticket.request_seq = recorded, recorded.key, recorded.seq
        if recorded.answer is not None and not recorded.answer.handed:
            self._run.turns.expect(ticket.item)

    def turns_of(self, *places: RecordedLane) -> dict[tuple[Any, ...], RecordedTurn]:
        """The turns of these lanes, whether they have been taken or not."""
        known: list[HandOver] = self._order.rest
        for place in places:
            known += place.bound.taken if place.bound is not None else ()
        paths = {place.path for place in places}
        turns = [entry for entry in known if isinstance(entry, RecordedTurn) and entry.lane in paths]
        return {(turn.kind, turn.lane, turn.ordinal): turn for turn in turns}

    def counterpart_of(
        self,
        entry: RecordedTurn | RecordedChunk,
        lane: Lane,
        own: RecordedLane,
        place: RecordedLane,
        turns: dict[tuple[Any, ...], RecordedTurn],
    ) -> RecordedTurn | RecordedChunk | None:
        """What the other record has instead of what the lane was handed."""
        there = _recorded_instead(entry, own, place, turns)
        is_over = self._past.is_open_ended and len(place.requests) <= len(lane.made)
        if there is None and isinstance(entry, RecordedTurn) and is_over:
            # Turns are written with the next commit: the last ones before the process died are on record nowhere.
            return entry._replace(lane=place.path)
        return there

    def turns_beyond_the_record(self) -> list[RecordedTurn]:
        """Turns that lanes have had and the record does not have: it has to be told of them."""
        beyond: list[RecordedTurn] = []
        for place in self._past.lanes.values():
            known = {(turn.kind, turn.ordinal) for turn in self._past.turns_of(place.path)}
            taken = place.bound.taken if place.bound is not None else ()
            own = [one for one in taken if isinstance(one, RecordedTurn) and one.lane == place.path]
            beyond += [one for one in own if (one.kind, one.ordinal) not in known]
        return beyond


def _exchange_requests(pair: LanePlaces, instead: dict[int, RecordedRequest]) -> list[HandOver]:
    """Which of their requests were made, and which answers handed over. Returns the ones that are given back."""
    given_back: list[HandOver] = []
    made = max(len(lane.made) if lane is not None else 0 for lane in (pair.one.bound, pair.other.bound))
    for one, other in zip(pair.one.requests[:made], pair.other.requests[:made], strict=True):
        instead[one.seq], instead[other.seq] = other, one
        one.made, other.made = other.made, one.made
        if one.answer is None or other.answer is None or one.answer.handed is other.answer.handed:
            continue
        one.answer.handed, other.answer.handed = other.answer.handed, one.answer.handed
        given_back.append(other if one.answer.handed else one)
    return given_back


def _recorded_instead(
    entry: RecordedTurn | RecordedChunk,
    own: RecordedLane,
    place: RecordedLane,
    turns: dict[tuple[Any, ...], RecordedTurn],
) -> RecordedTurn | RecordedChunk | None:
    if isinstance(entry, RecordedTurn):
        # What came before the lane's first request is known by its birth, and stays the lane's own.
        return turns.get((entry.kind, place.path, entry.ordinal)) if entry.lane == own.path else entry
    for mine, others in zip(own.requests, place.requests, strict=False):
        if mine.key == entry.key:
            return others.chunks[entry.number] if entry.number < len(others.chunks) else None
    return None


def draws_of(lane: Lane, path: str) -> Iterator[tuple[str, int]]:
    """How many values the lane drew by its record, of each kind."""
    for name, count in lane.ordinals.items():
        if name.startswith("draw:") and name.endswith(f":{path}"):
            yield name.removeprefix("draw:").removesuffix(f":{path}"), count
