"""Linking: drafts in, rows out. Only this module creates the hashes of links.

A `Chain` is one writer's view of its run: head, lanes, open requests, the last state link. `link` advances the view and
remembers how to go back; the writer calls `keep` when the store has accepted the rows, else `undo`. No I/O happens
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from onrecord.core.canonical import canonical_bytes, parse_stored, plain_text, stored_bytes
from onrecord.core.codec import decode, encode
from onrecord.core.events import (
    ANSWERS,
    KINDS,
    OPENING_KINDS,
    OPERATIONS_KINDS,
    Event,
    StateUpdated,
    event_from_content,
)
from onrecord.core.hashing import SALT_BYTES, ZERO, commitment, link_hash, next_prefix, render, state_link_of
from onrecord.core.lane_names import ROOT_LANE
from onrecord.core.links import OPERATIONS_RUN, check_event_id, check_key, check_lane, check_time, write_link
from onrecord.core.matching import MatchRules
from onrecord.core.member_checks import CHECKED_KINDS, find_member_problem
from onrecord.core.merkle import SHARED_FROM_BYTES, Sharer
from onrecord.core.packing import pack
from onrecord.core.state import Reducer, StateUpdatedOnlyReducer, check_state, encode_state, next_state
from onrecord.errors import (
    ClosedRun,
    ConflictingDuplicate,
    InvalidInput,
    MissingParent,
    UnknownKind,
    WrongRun,
    WrongSequence,
)
from onrecord.journal.sequenced_event import SequencedEvent
from onrecord.journal.sources import Sources
from onrecord.store.contract import EventRow, Head, NodeRow


class Draft(msgspec.Struct, frozen=True):
    """An event to append. `run` and `seq` are claims that are checked; `id` makes the append idempotent."""

    event: Event
    lane: str = ROOT_LANE
    key: str | None = None
    parent: int | None = None
    id: str | None = None
    time: int | None = None
    run: str | None = None
    seq: int | None = None
    salt: bytes | None = None
    """The salt of an event whose content refers to it; otherwise random. A salt is never used twice."""


NewId = Callable[[int, int], str]
"""(microseconds, seq) → a unique event id that begins with `_` and ends with `_` and the seq in hex."""


class OpenPair(NamedTuple):
    seq: int
    lane: str
    lane_seq: int


SALTS_DRAWN = 32
_make_tuple = tuple.__new__
"""Creates a named tuple from its members in order, several times faster than its class does."""


class LaneEnd(NamedTuple):
    lane_seq: int
    prefix: bytes


class Linked(NamedTuple):
    """The rows of a batch, the nodes and artifacts that they need first, and the head that they follow."""

    before: Head
    rows: list[EventRow]
    details: list[tuple[Event, str | None, int | None, int]]
    """The members that rows hold only within their links: event, key, causal parent and time."""
    nodes: list[NodeRow]
    artifacts: dict[bytes, bytes]

    @property
    def time(self) -> int:
        """Return the time of the last event."""
        return self.details[-1][3]

    @property
    def sequenced(self) -> list[SequencedEvent]:
        return [
            SequencedEvent(row.seq, event, row.id, row.kind, row.lane, key, parent, time, render(row.hash))
            for row, (event, key, parent, time) in zip(self.rows, self.details, strict=True)
        ]


class Chain:
    """The view of a run that one writer has."""

    def __init__(self, run: str, head: Head, rules: MatchRules, reducer: Reducer | None = None) -> None:
        self.run = run
        self.head = head
        self.rules = rules
        self.reducer: Reducer = reducer or StateUpdatedOnlyReducer()
        self._folds = not isinstance(self.reducer, StateUpdatedOnlyReducer)
        """False for the default reducer: its state is the last payload."""
        self.sharer = Sharer()
        self.closed_by: str | None = None
        self.state: Any = self.reducer.initial()
        self.state_after: str | None = None
        self.lanes: dict[str, LaneEnd] = {}
        self._open: dict[tuple[str, str], OpenPair] = {}
        self._open_names: dict[int, tuple[str, str]] = {}
        self._usual_kinds = OPERATIONS_KINDS if run == OPERATIONS_RUN else KINDS.keys() - OPERATIONS_KINDS
        self._salts: list[bytes] = []
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []
        self._shared = False
        """True if the sharer has split a content since the last `keep`."""
        self._saved: tuple[Head, str | None, Any, str | None] = (head, None, self.state, None)

    def link(self, drafts: Sequence[Draft], sources: Sources, new_id: NewId) -> Linked:
        """Return the rows of a batch. If an event may not be appended, raise and change nothing."""
        self._saved = (self.head, self.closed_by, self.state, self.state_after)
        linked = _make_tuple(Linked, (self.head, [], [], [], {}))
        try:
            for draft in drafts:
                self._link_one(draft, sources, new_id, linked)
        except BaseException:
            self.undo()
            raise
        if self._shared and self.sharer.new_nodes:
            linked.nodes.extend(NodeRow(address, pack(stored)) for address, stored in self.sharer.new_nodes.items())
        return linked

    def keep(self) -> None:
        self._undo.clear()
        if self._shared:
            self._shared = False
            self.sharer.commit()

    def undo(self) -> None:
        for mapping, name, old in reversed(self._undo):
            if old is None:
                mapping.pop(name, None)
            else:
                mapping[name] = old
        self._undo.clear()
        self.head, self.closed_by, self.state, self.state_after = self._saved
        self._shared = False
        self.sharer.discard()

    def _link_one(self, draft: Draft, sources: Sources, new_id: NewId, linked: Linked) -> None:
        """Link one event. Caches are cold right after a sync: fewer calls matter more here than less arithmetic."""
        event = draft.event
        kind, lane, before = event.kind, draft.lane, self.head
        seq = before[0] + 1
        end = self.lanes.get(lane)
        if (
            self.closed_by is not None
            or kind not in self._usual_kinds
            or draft.run is not None
            or draft.seq is not None
            or draft.parent is not None
            or (end is None and lane != ROOT_LANE)
        ):
            self._check(draft, kind, seq)
        tree = event.content()
        if kind in CHECKED_KINDS or "meta" in tree:
            problem = find_member_problem(kind, tree)
            if problem is not None:
                raise InvalidInput(problem, code="bad_member")
        salt = draft.salt
        if salt is None:
            salt = self._salts.pop() if self._salts else self._draw_salts(sources)
        elif type(salt) is not bytes or len(salt) != SALT_BYTES:
            raise InvalidInput(f"a salt is {SALT_BYTES} bytes", code="bad_salt")
        parent, distance, lane_seq = self._locate(draft, kind, seq, end)
        stored, odd = plain_text(tree) or (None, None)
        if stored is None:
            encoded = check_state(encode(tree)) if kind == "StateUpdated" else encode(tree)
            tree, odd = encoded.tree, encoded.odd
            linked.artifacts.update(encoded.artifacts)
        if self._folds or kind == "StateUpdated":
            tree, stored, odd = self._fold(kind, tree, salt, linked.artifacts), None, None
        match = self.rules.match(kind, tree, odd=odd)
        if stored is None or len(stored) >= SHARED_FROM_BYTES:
            self._shared = True
            stored = self.sharer.share(tree, stored)
        now = sources.now_us() if draft.time is None else check_time(draft.time)
        event_id = new_id(now, seq) if draft.id is None else check_event_id(draft.id)
        key = draft.key if draft.key is None else check_key(draft.key)
        content = commitment(salt, match, stored)
        link = write_link(content, event_id, key, kind, lane, parent, before[1], self.run, seq, now)
        digest = link_hash(link)
        self.head = _make_tuple(Head, (seq, digest))
        prefix = None
        if lane_seq is not None:
            prefix = next_prefix(ZERO if end is None else end[1], match, distance)
            self._undo.append((self.lanes, lane, end))
            self.lanes[lane] = _make_tuple(LaneEnd, (lane_seq, prefix))
        if event.terminal:
            self.closed_by = kind
        linked.rows.append(
            _make_tuple(
                EventRow, (seq, event_id, kind, lane, lane_seq, link, digest, salt, match, prefix, pack(stored))
            )
        )
        linked.details.append((event, key, parent, now))

    def _draw_salts(self, sources: Sources) -> bytes:
        """Draw many salts at once: each system call costs more than all other work on a salt."""
        drawn = sources.entropy(SALT_BYTES * SALTS_DRAWN)
        self._salts = [drawn[at : at + SALT_BYTES] for at in range(0, len(drawn), SALT_BYTES)]
        return self._salts.pop()

    def _check(self, draft: Draft, kind: str, seq: int) -> None:
        if kind not in KINDS:
            raise UnknownKind("an event of an unknown kind cannot be written")
        if draft.run is not None and draft.run != self.run:
            raise WrongRun(f"the event belongs to run {draft.run[:128]!r}, this journal is of run {self.run!r}")
        if self.closed_by is not None:
            raise ClosedRun(f"run {self.run} ended with {self.closed_by} at seq {self.head.seq}; nothing follows it")
        if draft.seq is not None and draft.seq != seq:
            raise WrongSequence(f"the event claims seq {draft.seq}, the next one of run {self.run} is {seq}")
        if draft.parent is not None and not 1 <= draft.parent < seq:
            raise MissingParent(f"run {self.run} has no event {draft.parent} that could have caused seq {seq}")
        if KINDS[kind].operations_only != (self.run == OPERATIONS_RUN):
            where = "the operations journal" if self.run == OPERATIONS_RUN else "a run"
            raise UnknownKind(f"{kind} is not allowed in {where}")
        if draft.lane != ROOT_LANE:
            check_lane(draft.lane)

    def _fold(self, kind: str, tree: dict[str, Any], salt: bytes, artifacts: Mapping[bytes, bytes]) -> dict[str, Any]:
        """Advance the state, and add the state links to a `StateUpdated`.

        A reducer sees the event as a reader will, never the caller's own objects.
        """
        if self._folds:
            members = decode(
                parse_stored(stored_bytes(tree, trusted=True)), loaded_classes=True, artifact=artifacts.__getitem__
            )
            self.state = next_state(self.reducer, self.state, event_from_content(kind, members))
            canonical = canonical_bytes(encode_state(self.state).tree) if kind == "StateUpdated" else b""
        else:
            canonical = canonical_bytes(tree["payload"])
        if kind != "StateUpdated":
            return tree
        before, self.state_after = self.state_after, render(state_link_of(salt, canonical))
        return {**tree, "before": before, "after": self.state_after}

    def _locate(self, draft: Draft, kind: str, seq: int, end: LaneEnd | None) -> tuple[int | None, int, int | None]:
        """Return the causal parent, the distance to it in the lane, and the position in the lane after `end`."""
        event, parent, distance = draft.event, draft.parent, 0
        lane_seq: int | None = None
        if event.behavioural:
            lane_seq = 1 if end is None else end[0] + 1
        if event.answers is not None:
            opened = self._find_request(event, event.answers, parent, draft.lane)
            if opened is not None:
                parent = opened.seq
                if lane_seq is not None and opened.lane == draft.lane:
                    distance = lane_seq - opened.lane_seq
        if kind in OPENING_KINDS:
            assert lane_seq is not None
            name = (kind, _read_pair_name(event) or str(seq))
            if name in self._open:
                raise ConflictingDuplicate(f"{kind} at seq {seq} repeats the id of one that is still open")
            self._undo += ((self._open, name, None), (self._open_names, seq, None))
            self._open[name] = _make_tuple(OpenPair, (seq, draft.lane, lane_seq))
            self._open_names[seq] = name
        return parent, distance, lane_seq

    def _find_request(self, event: Event, opening: str, parent: int | None, lane: str) -> OpenPair | None:
        pair_name = _read_pair_name(event)
        if pair_name is not None:
            name = (opening, pair_name)
        elif parent is not None:
            name = self._open_names.get(parent, (opening, ""))
        else:  # the last one in its own lane: other open ones there ask something else
            opened = [key for key in reversed(self._open) if key[0] == opening]
            own = (key for key in opened if self._open[key].lane == lane)
            name = next(own, opened[0] if opened else (opening, ""))
        pair = self._open.get(name)
        if pair is None and parent is None and not event.answers_something:
            return None
        if pair is None or name[0] != opening or (parent is not None and pair.seq != parent):
            raise MissingParent(f"{event.kind} answers no open {opening} of run {self.run}")
        self._close_pair(name, pair)
        return pair

    def _close_pair(self, name: tuple[str, str], pair: OpenPair) -> None:
        self._undo += ((self._open, name, pair), (self._open_names, pair.seq, name))
        del self._open[name], self._open_names[pair.seq]

    def forget(self, seqs: Iterable[int]) -> None:
        """Forget requests that are open."""
        for seq in seqs:
            name = self._open_names.pop(seq, None)
            if name is not None:
                del self._open[name]

    def open_requests(self) -> list[OpenPair]:
        return list(self._open.values())

    def observe(self, row: EventRow, parent: int | None, event: Event | None) -> None:
        """Apply a recorded event (None if erased) to open requests and state. Lanes and head come from the store."""
        if row.kind in ANSWERS and parent is not None:
            name = self._open_names.get(parent)
            if name is not None:
                self._close_pair(name, self._open[name])
        if row.kind in OPENING_KINDS:
            name = (row.kind, (_read_pair_name(event) if event is not None else None) or str(row.seq))
            self._open[name] = OpenPair(row.seq, row.lane, row.lane_seq or 0)
            self._open_names[row.seq] = name
        if event is not None:
            if self._folds:
                self.state = next_state(self.reducer, self.state, event)
            if isinstance(event, StateUpdated):
                self.state_after = event.after
        self._undo.clear()


def _read_pair_name(event: Event) -> str | None:
    name = event.pair_id
    return None if name is None else str(getattr(event, name))
