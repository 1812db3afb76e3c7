"""Read stretches of lanes for alignment, in one pass over a run and without contents.

An event is a few numbers here. Match digests are numbered in order of appearance in either run, so that equal numbers
mean equal digests and no digest is kept twice.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import msgspec

from onrecord.analysis.diff.run_lanes import RunLanes
from onrecord.core.events import ANSWERS, OPENING_KINDS, TERMINAL_KINDS
from onrecord.core.links import OwnMembers
from onrecord.errors import Damaged
from onrecord.store.contract import EventRow

ERASED = -1
"""The number of an erased event's match digest: it equals no other."""

_OWN = msgspec.json.Decoder(OwnMembers)


class Numbers(dict[object, int]):
    """A dict that gives each new key the next number."""

    def __missing__(self, key: object) -> int:
        number = self[key] = len(self)
        return number


class LaneEvents:
    """Behavioural events of one lane from position `start` on, indexed from 0."""

    __slots__ = ("distances", "kinds", "labels", "lane", "matches", "seqs", "start")

    def __init__(self, lane: str, start: int) -> None:
        self.lane = lane
        self.start = start
        self.seqs = array("q")
        self.matches = array("q")
        self.distances = array("q")
        """Distance in lane events to the request that the event answers; 0 if it answers none of this lane."""
        self.labels = array("q")
        """The number of the event's tool, or else of its kind."""
        self.kinds: list[str] = []

    def __len__(self) -> int:
        return len(self.seqs)


class LaneReader:
    """Reader of both runs' lanes with one numbering."""

    def __init__(self) -> None:
        self._matches = Numbers()
        self._labels = Numbers()

    def read(self, run: RunLanes, starts: Mapping[str, EventRow]) -> dict[str, LaneEvents]:
        """Return the lanes from these events on, up to their ends when the comparison began."""
        found = {lane: LaneEvents(lane, row.lane_seq or 1) for lane, row in starts.items()}
        if not starts:
            return found
        first = min(row.seq for row in starts.values())
        open_requests: dict[int, tuple[str, int]] = {}
        for row in run.scan(first):
            events = found.get(row.lane)
            if row.lane_seq is None or events is None or row.lane_seq < events.start:
                continue
            own = _own_members(run, row)
            distance = 0
            if row.kind in OPENING_KINDS:
                open_requests[row.seq] = (row.lane, row.lane_seq)
            elif row.kind in ANSWERS and (request_seq := run.request_of(row, own.parent)) is not None:
                noted = open_requests.pop(request_seq, ("", 0))
                lane, place = noted if noted[1] else _lane_position(run, request_seq)
                distance = row.lane_seq - place if lane == row.lane else 0
            events.seqs.append(row.seq)
            events.matches.append(ERASED if row.match is None else self._matches[row.match])
            events.distances.append(distance)
            events.labels.append(self._labels[_label(row, own)])
            events.kinds.append(row.kind)
        return found


def _own_members(run: RunLanes, row: EventRow) -> OwnMembers:
    try:
        return _OWN.decode(row.link)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Damaged(
            f"event {row.seq} of run {run.reader.run}: its link is not well formed", code="bad_link"
        ) from None


def _lane_position(run: RunLanes, seq: int) -> tuple[str, int]:
    """Return the lane and position of a request before the stretch."""
    row = run.row(seq)
    return ("", 0) if row is None or row.lane_seq is None else (row.lane, row.lane_seq)


def _label(row: EventRow, own: OwnMembers) -> str:
    if row.kind in TERMINAL_KINDS:
        return "end"
    if row.kind in ("ActionRequested", "ActionDenied"):
        return f"call {called_name(row.lane, own.key)}"
    return row.kind


def called_name(lane: str, key: str | None) -> str:
    """Return the tool in a derived key; an explicit key is returned unchanged."""
    if key is None:
        return ""
    name, slash, ordinal = key.rpartition("/")
    derived = slash and ordinal.isdecimal() and name.startswith(f"{lane}/")
    return name[len(lane) + 1 :] if derived else key
