"""Stretches of lanes, read in one pass over a run and without contents: what aligning works on.

An event is a handful of numbers here. Match digests are numbered in the order in which they turn up in either run, so
that equal numbers are equal meanings and nothing of 32 bytes is kept twice.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import msgspec

from reenact.core.events import ANSWERS, OPENING_KINDS, TERMINAL_KINDS
from reenact.core.links import OwnMembers
from reenact.errors import Damaged
from reenact.replays.divergence.run_lanes import RunLanes
from reenact.store.contract import EventRow

ERASED = -1
"""Stands for the match digest of an event whose content is gone: it is equal to nothing."""

_OWN = msgspec.json.Decoder(OwnMembers)


class Numbers(dict[object, int]):
    """Whatever is looked up gets the next number when it is new."""

    def __missing__(self, key: object) -> int:
        number = self[key] = len(self)
        return number


class LaneEvents:
    """The behavioural events of one lane from `start` on. Indexes count from 0 there."""

    __slots__ = ("distances", "kinds", "labels", "lane", "matches", "seqs", "start")

    def __init__(self, lane: str, start: int) -> None:
        self.lane = lane
        self.start = start
        self.seqs = array("q")
        self.matches = array("q")
        self.distances = array("q")
        """How many events of the lane ago the request is that this one answers; 0: it answers none of this lane."""
        self.labels = array("q")
        """Numbers of what the event is about: the tool, or else its kind."""
        self.kinds: list[str] = []

    def __len__(self) -> int:
        return len(self.seqs)


class LaneReader:
    """Reads stretches of both runs under one numbering."""

    def __init__(self) -> None:
        self._matches = Numbers()
        self._labels = Numbers()

    def read(self, run: RunLanes, starts: Mapping[str, EventRow]) -> dict[str, LaneEvents]:
        """The lanes from these events on, to where they ended when the comparison began."""
        found = {lane: LaneEvents(lane, row.lane_seq or 1) for lane, row in starts.items()}
        if not starts:
            return found
        first = min(row.seq for row in starts.values())
        open_places: dict[int, tuple[str, int]] = {}
        for row in run.scan(first):
            events = found.get(row.lane)
            if row.lane_seq is None or events is None or row.lane_seq < events.start:
                continue
            own = _own_members(run, row)
            distance = 0
            if row.kind in OPENING_KINDS:
                open_places[row.seq] = (row.lane, row.lane_seq)
            elif row.kind in ANSWERS and (asked := run.asked(row, own.parent)) is not None:
                known = open_places.pop(asked, ("", 0))
                lane, place = known if known[1] else _place(run, asked)
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


def _place(run: RunLanes, seq: int) -> tuple[str, int]:
    """Of a request before the stretch."""
    row = run.row(seq)
    return ("", 0) if row is None or row.lane_seq is None else (row.lane, row.lane_seq)


def _label(row: EventRow, own: OwnMembers) -> str:
    if row.kind in TERMINAL_KINDS:
        return "end"
    if row.kind in ("ActionRequested", "ActionDenied"):
        return f"call {called_name(row.lane, own.key)}"
    return row.kind


def called_name(lane: str, key: str | None) -> str:
    """The tool that a derived key names; an explicit key stands for itself."""
    if key is None:
        return ""
    name, slash, ordinal = key.rpartition("/")
    derived = slash and ordinal.isdecimal() and name.startswith(f"{lane}/")
    return name[len(lane) + 1 :] if derived else key
