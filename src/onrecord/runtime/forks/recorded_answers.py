"""The record of another run, that answers for the world: by what was asked for, each answer once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from reenact.core.events import ANSWERS, OPENING_KINDS
from reenact.effect.past import Past
from reenact.effect.recorded import CANCELLED
from reenact.effect.stopping import NotReplayable
from reenact.errors import Damaged
from reenact.journal.lineage import Stretch, shared_stretches, stretch_of
from reenact.journal.reader import JournalReader

if TYPE_CHECKING:
    from reenact.core.links import Link
    from reenact.store.contract import EventRow


class Found(NamedTuple):
    """A request of the other record that has an answer."""

    seq: int
    key: str


def _found(row: EventRow, link: Link) -> Found:
    return Found(row.seq, link.key or str(row.seq))


class OtherRecord:
    """The other record, from some event on, by what was asked for. Read when it is first needed."""

    def __init__(self, reader: JournalReader, after: int, used: set[int]) -> None:
        self.reader = reader
        self._whole: Past | None = None
        self._stretches = [*shared_stretches(reader), Stretch(reader, reader.head().seq, 0)]
        self._used = used
        self.by_match: dict[tuple[str, bytes], deque[Found]] = {}
        self.answers: dict[int, int] = {}
        self.given_up: set[int] = set()
        self.asked: dict[int, tuple[EventRow, Link]] = {}
        self.draws: dict[tuple[str, str], list[Any]] = {}
        try:
            self._read(after)
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
            raise Damaged(f"the record of run {reader.run} is not well formed", code="bad_content") from error

    def _read(self, after: int) -> None:
        asked = self.asked
        for row, link in self._rows(after):
            if row.kind in OPENING_KINDS:
                asked[row.seq] = row, link
            elif row.kind in ANSWERS and link.parent is not None:
                self.answers[link.parent] = row.seq
                if link.key == CANCELLED:
                    self.given_up.add(link.parent)
                if link.parent not in asked:  # it was under way where the other one parted
                    asked[link.parent] = self.event(link.parent)
            elif row.kind == "ValuesDrawn":
                for lane, kind, value in self.members(row.seq)["draws"]:
                    self.draws.setdefault((lane, kind), []).append(value)
        for seq in sorted(set(asked) & set(self.answers) - self._used):
            row, link = asked[seq]
            if row.match is not None:
                self.by_match.setdefault((row.kind, row.match), deque()).append(_found(row, link))

    def _rows(self, after: int) -> Iterator[tuple[EventRow, Link]]:
        for stretch in self._stretches:
            if after < stretch.last + stretch.shift:
                yield from stretch.rows(max(0, after - stretch.shift), contents=False)

    def take(self, kind: str, match: bytes, key: str) -> Found | None:
        found = self.by_match.get((kind, match))
        if not found:
            return None
        one = next((one for one in found if one.key == key), found[0])
        found.remove(one)
        return one

    def taken_before(self, seq: int, kind: str, match: bytes) -> Found | None:
        """What a process that died had taken for the same request."""
        row, link = self.asked.get(seq, (None, None))
        if row is None or link is None or seq not in self.answers or (row.kind, row.match) != (kind, match):
            return None
        return _found(row, link)

    def chunks(self, found: Found) -> list[Any]:
        """The parts of a stream, as whoever read it there was handed them."""
        if self._whole is None:
            self._whole = Past.read(self.reader)
        request = self._whole.by_key.get(found.key)
        chunks = request.chunks if request is not None else ()
        return [self._whole.members(chunk.row)["chunk"] for chunk in chunks]

    def event(self, position: int) -> tuple[EventRow, Link]:
        stretch = stretch_of(self._stretches, position)
        reader = stretch.reader
        row = reader.store.event(reader.namespace, reader.run, position - stretch.shift)
        if row is None:
            raise Damaged(f"event {position - stretch.shift} of run {reader.run} is missing", code="missing_event")
        return stretch.placed(row) if stretch.shift else (row, reader.link(row))

    def owner(self, found: Found) -> str:
        """The run that asked for it: the other one, or one that it was forked from."""
        return stretch_of(self._stretches, found.seq).reader.run

    def tree(self, position: int) -> tuple[str, Any, JournalReader]:
        """Kind and encoded content of an event, and who reads it."""
        stretch = stretch_of(self._stretches, position)
        row, link = self.event(position)
        return row.kind, stretch.reader.tree_of(row, link.content), stretch.reader

    def members(self, position: int) -> Any:
        _, tree, reader = self.tree(position)
        if tree is None:
            raise NotReplayable(f"the content of event {position} of run {reader.run} was erased")
        return reader.decoded(tree)


def child_id(idempotency_key: str) -> str:
    """The id of a run that an effect calls: it follows from the request."""
    return sha256(f"child\0{idempotency_key}".encode()).hexdigest()[:20]
