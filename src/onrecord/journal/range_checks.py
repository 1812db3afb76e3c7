"""The checks of one stretch of a run, event by event.

A `RangeVerifier` takes the rows of a stretch in order and finds what is wrong in them. Where a stretch begins in the
middle it trusts the stored hash and prefix digests right before it, which whoever verifies the stretch before has to
confirm; what reaches over its ends (answers to earlier requests, the chain of states) it hands back, and `merge` puts
the stretches together. So one process or several come to the same report.

Two methods look at events. `_usual` is quick and takes only events of a usual sort in which all is as it should be;
`_event` takes any event and says what is wrong with it. Whatever `_usual` does not take goes to `_event`, which begins
anew with it: so `_usual` must never take what `_event` would complain of, and need not be right in anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256

import msgspec

from reenact.core.events import (
    ANSWERS,
    BEHAVIOURAL_KINDS,
    KINDS,
    MAY_ANSWER_NOTHING,
    OPENING_KINDS,
    OPERATIONS_KINDS,
    TERMINAL_KINDS,
)
from reenact.core.hashing import ERASED_MARKER, HASH_BYTES, SALT_BYTES, ZERO, commitment, link_hash, next_prefix, render
from reenact.core.links import (
    MAX_ID_CHARACTERS,
    MAX_KEY_CHARACTERS,
    MAX_TIME,
    Link,
    OwnMembers,
    is_name,
    link_problem,
    parse_link,
    written_text,
)
from reenact.core.matching import MatchRules
from reenact.core.packing import unpack
from reenact.core.sharing import Fetch
from reenact.core.state import Reducer
from reenact.errors import Damaged, ReenactError
from reenact.journal.content_checks import ContentChecks
from reenact.journal.findings import MAX_PROBLEMS, Answer, Problem, RangeResult
from reenact.store.contract import EventRow

_LINK = b"reenact.link/1\0"
_COMMIT = b"reenact.commit/1\0"
_PREFIX = b"reenact.prefix/1\0"
_LANE_BEGINS = (0, ZERO)
_NO_DISTANCE = bytes(8)
_DOLLAR = ord("$")  # a number is found in bytes much faster than bytes are
_own_members = msgspec.json.Decoder(OwnMembers).decode
_NOT_WRITTEN_SO = (ValueError, RecursionError, ReenactError)
"""What reading and writing a link's text may raise. `ValueError` is that of msgspec, of numbers and of Unicode."""


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
        self.result = RangeResult(start, stop)
        self._run = run
        self._prev = prev.hex()
        self._expected_seq = start
        self._ended = ""
        self._lanes = lanes
        self._lane_place = lane_place
        self._erased_by_right = erased_by_right
        self._opened: dict[int, tuple[str, str, int]] = {}
        self._foreign_kinds = frozenset() if operations else OPERATIONS_KINDS
        self._usual_lanes = {"0"}
        self._contents = ContentChecks(
            self.result,
            fetch_nodes=fetch_nodes,
            fetch_artifact=fetch_artifact,
            rules=rules,
            reducer=reducer,
            builtin_state=builtin_state,
            foreign=foreign,
        )
        self._traits = {
            kind: (kind in OPENING_KINDS, ANSWERS.get(kind), kind in BEHAVIOURAL_KINDS, self._contents.opens(kind))
            for kind in KINDS.keys() - TERMINAL_KINDS - self._foreign_kinds
            if is_name(run)
        }
        """Of the usual kinds: whether they open a pair, what they answer, whether they are behavioural, whether their
        contents are opened.
        """

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
        remaining = iter(rows)
        while (row := self._usual(remaining)) is not None:
            self._event(row)
        self.result.last_hash = bytes.fromhex(self._prev)
        self._finish()

    def _usual(self, rows: Iterator[EventRow]) -> EventRow | None:
        """The hot loop. Takes rows until one is unusual or bad, which it gives back; None when there are no more.

        It does not look at a link member by member, but writes the one text that this link may have (see
        `write_link`) and compares the bytes.
        """
        traits = self._traits if not self._ended else {}
        run, lanes, opened, usual_lanes = self._run, self._lanes, self._opened, self._usual_lanes
        seq, prev = self._expected_seq, self._prev
        lane_now, (last_seq, last_prefix) = "0", lanes.get("0", _LANE_BEGINS)
        try:
            for row in rows:
                row_seq, event_id, kind, lane, lane_seq, written, stored_hash, salt, match, prefix, blob = row
                if (
                    row_seq != seq
                    or kind not in traits
                    or lane not in usual_lanes
                    or not blob
                    or salt is None
                    or match is None
                    or len(salt) != SALT_BYTES
                    or len(match) != HASH_BYTES
                    or hex(seq) != "0x" + event_id.rpartition("_")[2]
                    or not event_id.isidentifier()
                    or len(event_id) > MAX_ID_CHARACTERS
                ):
                    return row
                # The link, and the content it commits to
                try:
                    own = _own_members(written)
                    key, parent, time = own.key, own.parent, own.time
                    stored = blob[1:] if blob[0] == 0 else unpack(blob)
                    content = sha256(_COMMIT + salt + match + stored).hexdigest()
                    written_key = "null" if key is None else written_text(key)
                    cause = "null" if parent is None else parent
                    text = (
                        f'{{"content":"sha256:{content}","id":"{event_id}","key":{written_key},"kind":"{kind}",'
                        f'"lane":"{lane}","parent":{cause},"prev":"sha256:{prev}","run":"{run}","seq":{seq},"time":{time}}}'
                    )
                    if written != text.encode("ascii"):
                        return row
                except _NOT_WRITTEN_SO:
                    return row
                digest = sha256(_LINK + written).digest()
                if (
                    digest != stored_hash
                    or not 0 <= time <= MAX_TIME
                    or (key is not None and len(key) > MAX_KEY_CHARACTERS)
                    or (parent is not None and not 0 < parent < seq)
                ):
                    return row
                # What it answers, and its place in its lane
                opens, answers, behavioural, looked_into = traits[kind]
                distance = _NO_DISTANCE
                if answers:
                    place = opened.get(parent)  # type: ignore[arg-type]  # None is never a key
                    if place is None or place[0] != answers or lane_seq is None:
                        return row
                    if place[1] == lane and place[2] < lane_seq:
                        distance = (lane_seq - place[2]).to_bytes(8, "big")
                if behavioural:
                    if lane != lane_now:
                        lanes[lane_now] = (last_seq, last_prefix)
                        lane_now, (last_seq, last_prefix) = lane, lanes.get(lane, _LANE_BEGINS)
                    if lane_seq != last_seq + 1 or prefix != sha256(_PREFIX + last_prefix + match + distance).digest():
                        return row
                    last_seq, last_prefix = lane_seq, prefix
                elif prefix is not None or lane_seq is not None:
                    return row
                # Nothing is wrong with it
                if opens:
                    opened[seq] = (kind, lane, lane_seq or 0)
                elif answers:
                    del opened[parent]  # type: ignore[arg-type]
                if looked_into or (_DOLLAR in stored and b'{"$' in stored):
                    self._inside(row, stored)
                prev = digest.hex()
                seq += 1
        finally:
            self.result.events += seq - self._expected_seq
            self._expected_seq, self._prev = seq, prev
            lanes[lane_now] = (last_seq, last_prefix)
        return None

    def _inside(self, row: EventRow, stored: bytes) -> None:
        before = self.result.problem_count
        if b'{"$' in stored:
            self._contents.parts(row.seq, stored)
        if self._contents.opens(row.kind):
            self._contents.opened(row)
        if self.result.problem_count != before:
            self.result.bad += 1

    def _event(self, row: EventRow) -> None:
        """Any event, and everything that is wrong with it."""
        result, before = self.result, self.result.problem_count
        digest = link_hash(row.link)
        link = self._link(row, digest)
        if link is not None:
            self._content(row, link)
            self._place(row, link, content_holds=result.problem_count == before)
            if self._contents.opens(row.kind):
                self._contents.opened(row)
            if row.kind in TERMINAL_KINDS:
                self._ended = row.kind
        self._expected_seq, self._prev = row.seq + 1, digest.hex()
        result.events += 1
        if result.problem_count != before:
            result.bad += 1
        else:
            self._usual_lanes.add(row.lane)

    def _problem(self, seq: int, sort: str, code: str, message: str) -> None:
        self.result.problem(seq, sort, code, message)

    def _link(self, row: EventRow, digest: bytes) -> Link | None:
        """The link, everything that it has to agree with checked; None if it cannot be read."""
        try:
            link = parse_link(row.link)
        except ReenactError:
            self._problem(row.seq, "failure", "bad_link", "the link is not well formed")
            return None
        if digest != row.hash:
            self._problem(row.seq, "failure", "bad_link", "the link does not match its hash")
        if row.seq != self._expected_seq:
            missing = f"event {self._expected_seq} is missing"
            message = missing if row.seq > self._expected_seq else "it is out of order"
            self._problem(self._expected_seq, "mismatch", "bad_sequence", message)
        problem = link_problem(link, run=self._run, seq=row.seq, prev=f"sha256:{self._prev}")
        if problem is not None:
            self._problem(row.seq, "mismatch", "bad_chain", f"the link {problem}")
        if (link.id, link.kind, link.lane) != (row.id, row.kind, row.lane):
            self._problem(row.seq, "failure", "bad_row", "the store's index disagrees with the link")
        if row.kind in self._foreign_kinds:
            self._problem(row.seq, "mismatch", "bad_kind", f"{row.kind} has no place in this journal")
        if self._ended:
            self._problem(row.seq, "mismatch", "after_end", f"it follows {self._ended}, which ends a run")
        return link

    def _content(self, row: EventRow, link: Link) -> None:
        """That the content is the one the link commits to, and that what it refers to is there."""
        seq, salt, match, blob = row.seq, row.salt, row.match, row.content
        if blob is None or salt is None or match is None:
            self._erased(row)
            return
        try:
            if len(salt) != SALT_BYTES or len(match) != HASH_BYTES:
                raise Damaged("salt or match digest has a wrong length", code="bad_content")
            stored = unpack(blob)
            if render(commitment(salt, match, stored)) != link.content:
                raise Damaged("the content does not match the link", code="bad_content")
        except Damaged as damage:
            self._problem(seq, "failure", damage.code, damage.message)
            return
        if b'{"$' in stored:
            self._contents.parts(seq, stored)

    def _erased(self, row: EventRow) -> None:
        if row.content is not None or row.salt is not None or row.match is not None:
            self._problem(row.seq, "failure", "bad_content", "the content is half erased")
        elif not self._erased_by_right(row.seq):
            self._problem(row.seq, "failure", "missing_content", "the content is missing and no erasure is on record")
        else:
            self.result.erased.append(row.seq)

    def _place(self, row: EventRow, link: Link, *, content_holds: bool) -> None:
        """What it opens or answers, and that the prefix digest of its lane follows."""
        distance = self._distance(row, link)
        lane, lane_seq, prefix = row.lane, row.lane_seq, row.prefix
        if lane_seq is not None:
            last_seq, last_prefix = self._lanes.get(lane, _LANE_BEGINS)
            expected = next_prefix(last_prefix, row.match if row.match is not None else ERASED_MARKER, distance)
            if prefix != expected or lane_seq != last_seq + 1 or row.kind not in BEHAVIOURAL_KINDS:
                self._problem(row.seq, "mismatch", "bad_prefix", "the prefix digest of its lane does not follow")
            # Go on from what can be trusted, so that one bad digest is one problem and not one for each event
            # behind it.
            self._lanes[lane] = (lane_seq, expected if content_holds or prefix is None else prefix)
        elif prefix is not None or row.kind in BEHAVIOURAL_KINDS:
            self._problem(row.seq, "mismatch", "bad_prefix", "a behavioural event has no place in its lane")

    def _distance(self, row: EventRow, link: Link) -> int:
        """How far behind it in its lane that stands which it answers."""
        if row.kind in OPENING_KINDS:
            self._opened[row.seq] = (row.kind, row.lane, row.lane_seq or 0)
        elif row.kind in ANSWERS:
            place = self._opened.pop(link.parent, None)  # type: ignore[arg-type]  # None is never a key
            if place is None or place[0] != ANSWERS[row.kind]:
                return self._answers_elsewhere(row, link)
            if place[1] == row.lane and row.lane_seq is not None:
                return max(0, row.lane_seq - place[2])
        return 0

    def _answers_elsewhere(self, row: EventRow, link: Link) -> int:
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


__all__ = ["MAX_PROBLEMS", "Answer", "Problem", "RangeResult", "RangeVerifier"]
