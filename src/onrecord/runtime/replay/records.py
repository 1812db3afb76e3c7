"""Values of a recorded history: requests, notes, outcomes, chunks and the end, each with the row that holds it.

A recorded value compares itself with what the program does now, by match digest. Contents are opened when they are
needed, not before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from onrecord.core.events import Event
from onrecord.core.links import Link
from onrecord.core.matching import MatchRules
from onrecord.store.contract import EventRow

OUTSIDE = "outside"
"""The key of an end that was written while no process held the run."""
CHECKPOINT = "checkpoint"
"""The key of a state from which a resume may begin."""


class Asked:
    """An event of the program, as the record would have it."""

    _match: bytes | None = None

    def __init__(self, event: Event, rules: MatchRules, original: Event | None = None) -> None:
        self.event = event
        """Without secrets."""
        self.original = original or event
        """To be written: the writer replaces its secrets and seals them."""
        self._rules = rules

    @property
    def match(self) -> bytes:
        if self._match is None:
            self._match = self._rules.match_of(self.event.kind, self.event.content())
        return self._match


class Recorded:
    """An event of the record that the program is to make again."""

    __slots__ = ("committed", "match", "row", "seq", "time")

    def __init__(self, row: EventRow, link: Link) -> None:
        self.row = row
        self.seq = row.seq
        """The position in the history: 0 and below in what a fork shares."""
        self.match = row.match
        """None if the content was erased: then any event of that kind is the same."""
        self.time = link.time
        self.committed = link.content

    @property
    def kind(self) -> str:
        return self.row.kind

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Asked):
            return self.row.kind == other.event.kind and self.match in (None, other.match)
        return self is other

    __hash__ = object.__hash__


class RecordedRequest(Recorded):
    """A request, a wait or an interrupt."""

    __slots__ = ("attempts", "is_shared", "key", "lane", "settled")

    def __init__(self, row: EventRow, link: Link) -> None:
        self.row, self.seq, self.match, self.time, self.committed = row, row.seq, row.match, link.time, link.content
        self.key = link.key or str(row.seq)
        self.lane = row.lane
        self.attempts = 0
        """Executions that are on record, as far as the history was read."""
        self.settled = False
        self.is_shared = row.seq <= 0
        """A fork has it from its parent, and has not requested it in its own name."""


class RecordedDenial(Recorded):
    """A request that policy denied before it was recorded as one."""

    __slots__ = ("_find_match",)

    def __init__(self, row: EventRow, link: Link, find_match: Callable[[], bytes | None]) -> None:
        super().__init__(row, link)
        self._find_match = find_match

    def is_of(self, asked: Asked) -> bool:
        return asked.event.kind == "ActionRequested" and self._find_match() in (None, asked.match)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Asked) and super().__eq__(other))

    __hash__ = object.__hash__


class RecordedEnd(Recorded):
    """The terminal event."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Asked) and other.event.kind == "Cancelled":
            return self.kind == "Cancelled"
        return super().__eq__(other)

    __hash__ = object.__hash__


class RecordedOutcome(NamedTuple):
    """The recorded outcome of an effect."""

    row: EventRow
    committed: str
    """The commitment to the content in the link, which was checked when the history was read."""
    time: int

    @property
    def seq(self) -> int:
        return self.row.seq

    @property
    def kind(self) -> str:
        return self.row.kind


class RecordedChunk(NamedTuple):
    """A recorded part of a stream."""

    row: EventRow


class Beginning(NamedTuple):
    """The checkpoint from which a process starts."""

    row: EventRow
    state: Any
    time: int
    lane: str
    """The root lane after the checkpoint."""
