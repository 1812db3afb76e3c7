"""The checks of one stretch of a run, event by event.

A `RangeVerifier` takes the rows of a stretch in order and finds what is wrong in them. Where a stretch begins in the
middle it trusts the stored hash and prefix digests right before it, which whoever verifies the stretch before has to
confirm; what reaches over its ends (answers to earlier requests, the chain of states) it hands back, and `merge` puts
the stretches together. So one process or several come to the same report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from reenact.core.canonical import canonical_bytes
from reenact.core.codec import decode, encode
from reenact.core.events import (
    ANSWERS,
    BEHAVIOURAL_KINDS,
    KINDS,
    MAY_ANSWER_NOTHING,
    OPENING_KINDS,
    OPERATIONS_KINDS,
    TERMINAL_KINDS,
    event_from_content,
)
from reenact.core.hashing import (
    ERASED_MARKER,
    HASH_BYTES,
    SALT_BYTES,
    ZERO,
    artifact_address,
    parse_hash,
    render,
    state_link_of,
)
from reenact.core.links import MAX_KEY_CHARACTERS, MAX_TIME, Link, link_problem, parse_link
from reenact.core.matching import MatchRules
from reenact.core.packing import unpack
from reenact.core.sharing import Fetch, artifacts_in, expand, reachable
from reenact.core.state import Reducer
from reenact.errors import Damaged, ReenactError
from reenact.store.contract import EventRow

_LINK = b"reenact.link/1\0"
_COMMIT = b"reenact.commit/1\0"
_PREFIX = b"reenact.prefix/1\0"
_LANE_BEGINS = (0, ZERO)
_STATE_KINDS = frozenset({"StateUpdated", "SnapshotTaken"})
_NODES_REMEMBERED = 500_000
MAX_PROBLEMS = 1000


class Problem(NamedTuple):
    """`failure`: the event's own bytes are not what was written. `mismatch`: it does not fit what stands around it."""

    seq: int
    sort: str
    code: str
    message: str


class Answer(NamedTuple):
    seq: int
    parent: int
    kind: str


class RangeResult(msgspec.Struct):
    """What one stretch showed. All of it can cross a process boundary."""

    start: int
    stop: int
    events: int = 0
    bad: int = 0
    erased: list[int] = []
    problems: list[Problem] = []
    problem_count: int = 0
    last_hash: bytes = b""
    last_kind: str = ""
    first_before: tuple[int, str | None] | None = None
    last_after: str | None = None
    last_state: bytes | None = None
    """Canonical bytes of the state after the last update, where it is known."""
    state_seen: bool = False
    opened: dict[int, str] = {}
    early_answers: list[Answer] = []
    early_vouchers: list[tuple[int, bytes, Any]] = []
    """Snapshots' vouchers (seq, salt, state link) before the first state of this stretch."""
    nodes: int = 0
    artifacts: int = 0
    uncomputed: int = 0


class RangeVerifier:
    def __init__(
        self,
        *,
        run: str,
        start: int,
        stop: int,
        prev: bytes,
        lanes: dict[str, tuple[int, bytes]],
        fetch_nodes: Fetch,
        fetch_artifact: Callable[[bytes], bytes | None],
        lane_place: Callable[[int], tuple[str, int | None] | None],
        erased_by_right: Callable[[int], bool],
        rules: MatchRules | None = None,
        reducer: Reducer | None = None,
        builtin_state: bool = True,
        operations: bool = False,
        foreign: bool = True,
    ) -> None:
        self._run = run
        self._prev_text = render(prev)
        self._lanes = lanes
        self._fetch_nodes = fetch_nodes
        self._fetch_artifact = fetch_artifact
        self._lane_place = lane_place
        self._erased_by_right = erased_by_right
        self._rules = rules
        self._reducer = reducer
        self._state = reducer.initial() if reducer else None
        self._builtin_state = builtin_state
        self._foreign = foreign
        self._foreign_kinds = frozenset() if operations else OPERATIONS_KINDS
        self._opened: dict[int, tuple[str, str, int]] = {}
        self._seen_nodes: set[bytes] = set()
        self._seen_artifacts: set[bytes] = set()
        self._expected_seq = start
        self._ended = ""
        self.result = RangeResult(start, stop)

    def verify(self, rows: Iterable[EventRow]) -> RangeResult:
        """Feeds the rows; a store that cannot give one of them has named the damage, and the rest stays unverified."""
        try:
            self.feed(rows)
        except Damaged as damage:
            self._problem(self.result.start + self.result.events, "failure", damage.code, damage.message)
            self._finish()
        return self.result

    def _finish(self) -> None:
        self.result.opened = {seq: kind for seq, (kind, _, _) in self._opened.items()}
        self.result.last_kind = self._ended

    def feed(self, rows: Iterable[EventRow]) -> None:
        """The hot loop: what most events need is written out here, everything else is called."""
        result, opened, lanes = self.result, self._opened, self._lanes
        parse, write = msgspec.json.Decoder(Link).decode, msgspec.json.Encoder().encode
        opens_contents = self._rules is not None or self._reducer is not None
        run, prev_text, expected_seq, problems = self._run, self._prev_text, self._expected_seq, result.problem_count
        for row in rows:
            seq, event_id, kind, lane, lane_seq, written, stored_hash, salt, match, prefix, blob = row
            before = problems
            digest = sha256(_LINK + written).digest()
            try:
                link = parse(written)
                if write(link) != written:
                    link = parse_link(written)
            except (msgspec.DecodeError, UnicodeError, ReenactError):
                self._problem(seq, "failure", "bad_link", "the link is not well formed")
                problems, expected_seq, prev_text = result.problem_count, seq + 1, "sha256:" + digest.hex()
                result.events += 1
                result.bad += 1
                continue
            parent = link.parent
            if (
                digest != stored_hash
                or link.seq != expected_seq
                or seq != expected_seq
                or link.prev != prev_text
                or link.run != run
                or link.id != event_id
                or link.kind != kind
                or link.lane != lane
                or (parent is not None and not 0 < parent < seq)
                or not (event_id.endswith(f"_{seq:x}") and event_id.isidentifier() and event_id.isascii())
                or len(event_id) > 64
                or lane != "0"
                or not 0 <= link.time <= MAX_TIME
                or (link.key is not None and len(link.key) > MAX_KEY_CHARACTERS)
                or self._ended
                or kind in self._foreign_kinds
            ):
                self._relations(link, row, digest, expected_seq, prev_text)
            if blob is None or salt is None or match is None:
                self._erased(row)
            elif len(salt) != SALT_BYTES or len(match) != HASH_BYTES:
                self._problem(seq, "failure", "bad_content", "salt or match digest has a wrong length")
            elif blob and blob[0] == 0:
                stored = blob[1:]
                if "sha256:" + sha256(_COMMIT + salt + match + stored).hexdigest() != link.content:
                    self._problem(seq, "failure", "bad_content", "the content does not match the link")
                elif b"$" in stored and b'{"$' in stored:
                    self._parts(seq, stored)
            else:
                self._packed(seq, blob, salt, match, link)
            content_holds = result.problem_count == before
            distance = 0
            if kind in OPENING_KINDS:
                opened[seq] = (kind, lane, lane_seq or 0)
            elif kind in ANSWERS:
                place = opened.pop(parent, None)  # type: ignore[arg-type]  # None is never a key
                if place is None or place[0] != ANSWERS[kind]:
                    distance = self._answers_elsewhere(link, row)
                elif place[1] == lane and lane_seq is not None:
                    distance = max(0, lane_seq - place[2])
            if lane_seq is not None:
                last_seq, last_prefix = lanes.get(lane, _LANE_BEGINS)
                marker = match if match is not None else ERASED_MARKER
                expected = sha256(_PREFIX + last_prefix + marker + distance.to_bytes(8, "big")).digest()
                if prefix != expected or lane_seq != last_seq + 1 or kind not in BEHAVIOURAL_KINDS:
                    self._problem(seq, "mismatch", "bad_prefix", "the prefix digest of its lane does not follow")
                # Go on from what can be trusted, so that one bad digest is one problem and not one for each event
                # behind it.
                lanes[lane] = (lane_seq, expected if content_holds or prefix is None else prefix)
            elif prefix is not None or kind in BEHAVIOURAL_KINDS:
                self._problem(seq, "mismatch", "bad_prefix", "a behavioural event has no place in its lane")
            if opens_contents or kind in _STATE_KINDS:
                self._content(row)
            expected_seq, prev_text = seq + 1, "sha256:" + digest.hex()
            if kind in TERMINAL_KINDS:
                self._ended = kind
            if result.problem_count != before:
                problems = result.problem_count
                result.bad += 1
            result.events += 1
        self._expected_seq, self._prev_text = expected_seq, prev_text
        result.last_hash = parse_hash(prev_text)
        self._finish()

    def _problem(self, seq: int, sort: str, code: str, message: str) -> None:
        self.result.problem_count += 1
        if len(self.result.problems) < MAX_PROBLEMS:
            self.result.problems.append(Problem(seq, sort, code, message))

    def _relations(self, link: Link, row: EventRow, digest: bytes, expected_seq: int, prev: str) -> None:
        """Everything a link has to agree with, said in words."""
        if digest != row.hash:
            self._problem(row.seq, "failure", "bad_link", "the link does not match its hash")
        if row.seq != expected_seq:
            missing = f"event {expected_seq} is missing" if row.seq > expected_seq else "it is out of order"
            self._problem(expected_seq, "mismatch", "bad_sequence", missing)
        problem = link_problem(link, run=self._run, seq=row.seq, prev=prev)
        if problem is not None:
            self._problem(row.seq, "mismatch", "bad_chain", f"the link {problem}")
        if (link.id, link.kind, link.lane) != (row.id, row.kind, row.lane):
            self._problem(row.seq, "failure", "bad_row", "the store's index disagrees with the link")
        if row.kind in self._foreign_kinds:
            self._problem(row.seq, "mismatch", "bad_kind", f"{row.kind} has no place in this journal")
        if self._ended:
            self._problem(row.seq, "mismatch", "after_end", f"it follows {self._ended}, which ends a run")

    def _erased(self, row: EventRow) -> None:
        if row.content is not None or row.salt is not None or row.match is not None:
            self._problem(row.seq, "failure", "bad_content", "the content is half erased")
        elif not self._erased_by_right(row.seq):
            self._problem(row.seq, "failure", "missing_content", "the content is missing and no erasure is on record")
        else:
            self.result.erased.append(row.seq)

    def _packed(self, seq: int, blob: bytes, salt: bytes, match: bytes, link: Link) -> None:
        try:
            stored = unpack(blob)
        except Damaged as damage:
            self._problem(seq, "failure", damage.code, damage.message)
            return
        if sha256(_COMMIT + salt + match + stored).hexdigest() != link.content[7:]:
            self._problem(seq, "failure", "bad_content", "the content does not match the link")
        elif b'{"$' in stored:
            self._parts(seq, stored)

    def _parts(self, seq: int, stored: bytes) -> None:
        """Nodes and artifacts that a content refers to, each looked at once."""

        def fetch(addresses: Sequence[bytes]) -> dict[bytes, bytes]:
            wanted = [address for address in addresses if address not in self._seen_nodes]
            found = dict(self._fetch_nodes(wanted)) if wanted else {}
            # A part that was looked at before is not opened again: what it refers to was looked at then.
            found.update({address: b"null" for address in addresses if address in self._seen_nodes})
            return found

        def missing(address: bytes) -> None:
            self._problem(seq, "failure", "missing_node", f"a shared value is missing: node {render(address)}")

        try:
            nodes = reachable([stored], fetch, missing)
        except Damaged as damage:
            self._problem(seq, "failure", damage.code, damage.message)
            return
        for address, text in [(b"", stored), *nodes.items()]:
            if address and address not in self._seen_nodes:
                self.result.nodes += 1
                if len(self._seen_nodes) >= _NODES_REMEMBERED:
                    self._seen_nodes.clear()
                self._seen_nodes.add(address)
            self._artifacts(seq, text)

    def _artifacts(self, seq: int, text: bytes) -> None:
        for address in artifacts_in(text):
            if address in self._seen_artifacts:
                continue
            self._seen_artifacts.add(address)
            self.result.artifacts += 1
            data = self._fetch_artifact(address)
            if data is None:
                self._problem(seq, "failure", "missing_artifact", f"an artifact is missing: {render(address)}")
            elif artifact_address(data) != address:
                self._problem(seq, "failure", "bad_artifact", f"an artifact is damaged: {render(address)}")

    def _artifact(self, address: bytes) -> bytes:
        data = self._fetch_artifact(address)
        if data is None:
            raise Damaged(f"an artifact is missing: {render(address)}", code="missing_artifact")
        return data

    def _answers_elsewhere(self, link: Link, row: EventRow) -> int:
        """An answer whose request is not open in this stretch; returns the distance for the prefix digest."""
        answered = ANSWERS[row.kind]
        if link.parent is None:
            if row.kind not in MAY_ANSWER_NOTHING:
                self._problem(row.seq, "mismatch", "orphan_answer", f"{row.kind} answers nothing")
            return 0
        if link.parent >= self.result.start:
            message = f"event {link.parent} is no open {answered} to answer"
            self._problem(row.seq, "mismatch", "orphan_answer", message)
            return 0
        self.result.early_answers.append(Answer(row.seq, link.parent, row.kind))
        place = self._lane_place(link.parent)
        if place is None or place[0] != row.lane or place[1] is None or row.lane_seq is None:
            return 0
        return max(0, row.lane_seq - place[1])

    def _content(self, row: EventRow) -> None:
        """What needs the content opened: state links, and, when asked for, the match digest and every tag."""
        if row.content is None or row.salt is None or row.match is None:
            if row.kind == "StateUpdated":
                self._lose_state()
            return
        before = self.result.problem_count
        try:
            tree = expand(unpack(row.content), self._fetch_nodes)
            event_from_content(row.kind, tree)
            if self._rules is not None:
                self._deep(row, tree)
            self._states(row, tree)
        except ReenactError as problem:
            if row.kind == "StateUpdated":
                self._lose_state()
            if self.result.problem_count == before and not self._reported(row.seq):
                self._problem(row.seq, "failure", "bad_content", problem.message)

    def _reported(self, seq: int) -> bool:
        return bool(self.result.problems) and self.result.problems[-1].seq == seq

    def _lose_state(self) -> None:
        self.result.last_after, self.result.state_seen, self.result.last_state = None, True, None

    def _deep(self, row: EventRow, tree: Any) -> None:
        assert self._rules is not None
        if row.kind not in KINDS:
            self.result.uncomputed += 1
        elif self._rules.match(row.kind, tree) != row.match:
            self._problem(row.seq, "mismatch", "bad_match", "the match digest is not that of the content")
        decode(tree, loaded_classes=not self._foreign, artifact=self._artifact)

    def _states(self, row: EventRow, tree: Any) -> None:
        result = self.result
        if self._reducer is not None:
            event = event_from_content(row.kind, decode(tree, loaded_classes=True, artifact=self._artifact))
            self._state = self._reducer.apply(self._state, event)
        if row.kind == "SnapshotTaken":
            self._voucher(row, tree)
        if row.kind != "StateUpdated":
            return
        before, after = tree.get("before"), tree.get("after")
        if not result.state_seen:
            result.first_before = (row.seq, before)
        elif before != result.last_after and result.last_after is not None:
            self._problem(row.seq, "mismatch", "bad_state", "the state before is not the one left by the update before")
        state = encode(self._state).tree if self._reducer is not None else tree.get("payload")
        result.last_after, result.state_seen, result.last_state = after, True, None
        if self._reducer is not None or self._builtin_state:
            result.last_state = canonical_bytes(state)
            if after is not None and not self._is_state(row, result.last_state, after):
                self._problem(row.seq, "mismatch", "bad_state", "the state after is not the one recorded")

    def _voucher(self, row: EventRow, tree: Any) -> None:
        """A snapshot must be of a state that the log itself has."""
        if tree.get("position") != row.seq - 1:
            self._problem(row.seq, "mismatch", "bad_snapshot", "it vouches for another position than the one before it")
        if self._reducer is not None:
            state = canonical_bytes(encode(self._state).tree)
        elif self._builtin_state and self.result.last_state is not None:
            state = self.result.last_state
        elif self._builtin_state and not self.result.state_seen:
            assert row.salt is not None
            self.result.early_vouchers.append((row.seq, row.salt, tree.get("state")))
            return
        else:
            return
        if not self._is_state(row, state, tree.get("state")):
            self._problem(row.seq, "mismatch", "bad_snapshot", "it vouches for a state that the log does not have")

    @staticmethod
    def _is_state(row: EventRow, state: bytes, link: Any) -> bool:
        assert row.salt is not None
        return bool(render(state_link_of(row.salt, state)) == link)
