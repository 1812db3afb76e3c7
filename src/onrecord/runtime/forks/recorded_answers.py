"""The record of another run, which serves effects: an answer is found by its request, and used once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from onrecord.core.events import ANSWERS, OPENING_KINDS
from onrecord.errors import Damaged
from onrecord.journal.lineage import Stretch, shared_stretches, stretch_of
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.stops import NotReplayable
from onrecord.runtime.replay.delivery_marks import parse_mark

if TYPE_CHECKING:
    from onrecord.core.links import Link
    from onrecord.store.contract import EventRow


class SubstituteAnswer(NamedTuple):
    """A request of the other run that has an answer there."""

    seq: int
    key: str


def _make_answer(row: EventRow, link: Link) -> SubstituteAnswer:
    return SubstituteAnswer(row.seq, link.key or str(row.seq))


class SubstituteRecord:
    """The record of the other run after one event. `used` are the requests (seq) whose answers were served before."""

    def __init__(self, reader: JournalReader, after: int, used: set[int]) -> None:
        self.reader = reader
        self._stretches = [*shared_stretches(reader), Stretch(reader, reader.head().seq, 0)]
        self._used = used
        self.by_match: dict[tuple[str, bytes], deque[SubstituteAnswer]] = {}
        self.answers: dict[int, int] = {}
        self.cancelled: set[int] = set()
        self.requests: dict[int, tuple[EventRow, Link]] = {}
        self.draws: dict[tuple[str, str], deque[Any]] = {}
        """Values that were not served yet, by lane and site."""
        try:
            self._read(after)
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
            raise Damaged(f"the record of run {reader.run} is not well formed", code="bad_content") from error

    def _read(self, after: int) -> None:
        requests = self.requests
        for row, link in self._rows(after):
            if row.kind in OPENING_KINDS:
                requests[row.seq] = row, link
            elif row.kind in ANSWERS and link.parent is not None:
                self.answers[link.parent] = row.seq
                if parse_mark(link.key).is_cancelled:
                    self.cancelled.add(link.parent)
                if link.parent not in requests:  # it was made before `after` and answered later
                    requests[link.parent] = self.event(link.parent)
            elif row.kind == "ValuesDrawn":
                for lane, site, value in self.members(row.seq)["draws"]:
                    self.draws.setdefault((lane, site), deque()).append(value)
        for seq in sorted(set(requests) & set(self.answers) - self._used):
            row, link = requests[seq]
            if row.match is not None:
                self.by_match.setdefault((row.kind, row.match), deque()).append(_make_answer(row, link))

    def _rows(self, after: int) -> Iterator[tuple[EventRow, Link]]:
        for stretch in self._stretches:
            if after < stretch.last + stretch.shift:
                yield from stretch.rows(max(0, after - stretch.shift), contents=False)

    def take(self, kind: str, match: bytes, key: str) -> SubstituteAnswer | None:
        """Remove and return an answer to an equal request, preferably one with the same key."""
        candidates = self.by_match.get((kind, match))
        if not candidates:
            return None
        answer = next((one for one in candidates if one.key == key), candidates[0])
        candidates.remove(answer)
        return answer

    def find_taken(self, seq: int, kind: str, match: bytes) -> SubstituteAnswer | None:
        """Return the answer that an earlier process took for the same request."""
        row, link = self.requests.get(seq, (None, None))
        if row is None or link is None or seq not in self.answers or (row.kind, row.match) != (kind, match):
            return None
        return _make_answer(row, link)

    def chunks(self, answer: SubstituteAnswer) -> list[Any]:
        """Return the chunks of a stream, as its last execution gave them."""
        found: list[int] = []
        for row, link in self._rows(answer.seq):
            if row.seq >= self.answers[answer.seq]:
                break
            if row.kind == "ChunkReceived" and self._is_chunk_of(answer, row, link):
                found.append(row.seq)
            elif row.kind == "TurnTaken" and ["began", answer.key] in self.members(row.seq)["turns"]:
                found.clear()  # the stream was executed again
        return [self.members(position)["chunk"] for position in found]

    def _is_chunk_of(self, answer: SubstituteAnswer, row: EventRow, link: Link) -> bool:
        if link.parent is not None:
            return link.parent == answer.seq
        return bool(self.members(row.seq)["action_id"] == answer.key)

    def take_draw(self, lane: str, site: str) -> list[Any] | None:
        """Remove the next value of that lane and site, and return it in a list; None if there is none."""
        values = self.draws.get((lane, site))
        return [values.popleft()] if values else None

    def event(self, position: int) -> tuple[EventRow, Link]:
        stretch = stretch_of(self._stretches, position)
        reader = stretch.reader
        row = reader.store.event(reader.namespace, reader.run, position - stretch.shift)
        if row is None:
            raise Damaged(f"event {position - stretch.shift} of run {reader.run} is missing", code="missing_event")
        return stretch.placed(row) if stretch.shift else (row, reader.link(row))

    def owner(self, answer: SubstituteAnswer) -> str:
        """Return the run that made the request: the other run, or one that it was forked from."""
        return stretch_of(self._stretches, answer.seq).reader.run

    def tree(self, position: int) -> tuple[str, Any, JournalReader]:
        """Return the kind and the encoded content of an event, and the reader of its run."""
        stretch = stretch_of(self._stretches, position)
        row, link = self.event(position)
        return row.kind, stretch.reader.tree_of(row, link.content), stretch.reader

    def members(self, position: int) -> Any:
        _, tree, reader = self.tree(position)
        if tree is None:
            raise NotReplayable(f"the content of event {position} of run {reader.run} was erased")
        return reader.decoded(tree)


def child_id(idempotency_key: str) -> str:
    """Return the id of a called run, which is derived from the key of the request."""
    return sha256(f"child\0{idempotency_key}".encode()).hexdigest()[:20]
