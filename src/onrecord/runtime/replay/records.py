"""What a record is made of, as a run that comes back sees it: requests, answers, turns, marks, checkpoints, lanes."""

from __future__ import annotations

from typing import Any, NamedTuple

from onrecord.core.links import Link
from onrecord.store.contract import EventRow

CANCELLED = "cancelled"
"""The key of an answer that nobody was handed: the agent itself had cancelled its request."""
OUTSIDE = "outside"
"""The key of an end that was put to a run while nobody carried it."""
CHECKPOINT = "checkpoint"
"""The key of a state from which a process may begin."""
TIMER, JOB, START, TAKE, WAKE = "timer", "job", "start", "take", "wake"
MISS = "miss"
"""A lock that a thread tried to take, and did not wait for."""
LOCK = "lock"
"""The turn of a lock in earlier recordings, where it was counted how many a lane had waited for. `take` is known by how
many it had taken, waited for or not: what was held then and is free now, or the other way around, is the same one."""
LATE, LATE_LOCK = "late", "late lock"
"""A wait for others, or for a lock, that ended because its time did."""

BORN = "born"
"""Which thread or job got a number among its siblings."""


class Birth(NamedTuple):
    """How a thread or a job is known before it has asked for anything."""

    above: str
    """The lane that it was begun in."""
    number: int
    """How many were begun there up to it."""
    label: str
    """What it was begun with."""


class RecordedAnswer:
    __slots__ = ("committed", "handed", "kind", "row", "seq", "time")

    def __init__(self, row: EventRow, link: Link) -> None:
        self.row = row
        self.committed = link.content
        """What the link, checked when the record was read, says of the content."""
        self.seq = row.seq
        self.kind = row.kind
        self.time = link.time
        self.handed = False


class RecordedRequest:
    """A request (or wait, or interrupt) of the past. `made`: the agent has made it again."""

    __slots__ = (
        "answer",
        "attempts",
        "chunks",
        "is_parents",
        "key",
        "kind",
        "lane",
        "made",
        "match",
        "not_begun",
        "rank",
        "row",
        "seq",
        "settled",
        "time",
    )

    def __init__(self, row: EventRow, link: Link, rank: int) -> None:
        self.row = row
        """In a fork that has asked for it again, the row of that; its place in the order stays what it was."""
        self.rank = rank
        """How many requests came before it, since the last checkpoint."""
        self.seq = row.seq
        self.kind = row.kind if row.kind != "ActionDenied" else "ActionRequested"
        self.key = link.key or str(row.seq)
        self.lane = row.lane
        self.match = row.match
        self.time = link.time
        self.made = False
        self.answer: RecordedAnswer | None = None
        self.attempts = 0
        self.chunks: list[RecordedChunk] = []
        self.settled: EventRow | None = None
        self.not_begun = False
        """It is known that nobody has begun to carry it out."""
        self.is_parents = False
        """It had no answer where a fork began, and is the business of the run that was forked."""


class RecordedTurn(NamedTuple):
    """Something without an event of its own that was handed over."""

    kind: str
    lane: str
    ordinal: int
    after: int
    """Seq of the answer handed over before it."""
    at: int
    """How far the journal had come."""
    busy: int = 0
    """How many steps of its own the agent had taken when this came without waiting for a rest; 0: it rested."""


class RecordedMark(NamedTuple):
    """A behavioural event that nobody answers: a state update, a signal, the end."""

    seq: int
    kind: str
    row: EventRow

    @property
    def lane(self) -> str:
        return self.row.lane

    @property
    def match(self) -> bytes | None:
        return self.row.match

    @property
    def key(self) -> None:
        return None


class RecordedCheckpoint(NamedTuple):
    """A state from which a process that comes back may begin. What came before it is over."""

    seq: int
    time: int
    row: EventRow

    @property
    def lane(self) -> str:
        return self.row.lane


class RecordedChunk(NamedTuple):
    """A part of a stream."""

    seq: int
    key: str
    number: int
    row: EventRow


HandOver = RecordedRequest | RecordedTurn | RecordedMark | RecordedChunk | RecordedCheckpoint
"""What the record has to hand over: the answer to a request, a turn, a signal, a part of a stream. A checkpoint is
handed to nobody: the agent passes it, and what comes behind it comes then."""


class RecordedLane:
    __slots__ = ("bound", "first", "main", "marks", "path", "requests")

    def __init__(self, path: str) -> None:
        self.path = path
        self.main = path == "0"
        """The agent's own: the first one, or one behind a checkpoint."""
        self.requests: list[RecordedRequest] = []
        self.marks: list[RecordedMark] = []
        self.first: RecordedRequest | RecordedMark | None = None
        """The first request or state update in this lane or below it."""
        self.bound: Any = None

    @property
    def own_first(self) -> RecordedRequest | RecordedMark | None:
        """The first request or state update in this very lane."""
        begun: list[RecordedRequest | RecordedMark] = [*self.requests[:1], *self.marks[:1]]
        return min(begun, key=lambda one: one.seq, default=None)


class Beginning(NamedTuple):
    """Where a process comes in that does not begin at the beginning."""

    row: EventRow
    state: Any
    time: int
