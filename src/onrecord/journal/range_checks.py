"""Verify one range of a run, event by event.

A `RangeVerifier` reads the rows of a range in order and reports what is wrong. A range that begins in the middle trusts
the stored hash and prefix digests right before it; the verifier of the previous range confirms them. Facts that cross
its ends (answers to earlier requests, the chain of states) go into the result, and `merge_results` combines the ranges.
So one process or several produce the same report.

Two methods check events. `_check_usual` is fast and accepts only common events without any error; `_check_event`
handles every event and names what is wrong. An event that `_check_usual` does not accept goes to `_check_event`, which
starts again with it. So `_check_usual` must never accept an event that `_check_event` would report, and may reject any
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256

import msgspec

from onrecord.core.events import (
    ANSWERS,
    BEHAVIOURAL_KINDS,
    KINDS,
    MAY_ANSWER_NOTHING,
    OPENING_KINDS,
    OPERATIONS_KINDS,
    TERMINAL_KINDS,
)
from onrecord.core.hashing import (
    ERASED_MARKER,
    HASH_BYTES,
    SALT_BYTES,
    ZERO,
    commitment,
    link_hash,
    next_prefix,
    render,
)
from onrecord.core.lane_names import ROOT_LANE
from onrecord.core.links import (
    MAX_ID_CHARACTERS,
    MAX_KEY_CHARACTERS,
    MAX_TIME,
    Link,
    OwnMembers,
    find_link_problem,
    is_name,
    parse_link,
    write_json_string,
)
from onrecord.core.packing import unpack
from onrecord.errors import Damaged, OnrecordError
from onrecord.journal.content_checks import ContentChecks
from onrecord.journal.findings import AnsweredRequest, RangeResult
from onrecord.store.contract import EventRow

_LINK = b"onrecord.link/1\0"
_COMMIT = b"onrecord.commit/1\0"
_PREFIX = b"onrecord.prefix/1\0"
_LANE_BEGINS = (0, ZERO)
_NO_DISTANCE = bytes(8)
_DOLLAR = ord("$")  # searching bytes for a number is much faster than for bytes
_decode_own_members = msgspec.json.Decoder(OwnMembers).decode
_LINK_ERRORS = (ValueError, RecursionError, OnrecordError)
"""Errors of reading and writing a link. `ValueError` is raised by msgspec, numbers and Unicode."""


class RangeVerifier:
    def __init__(
        self,
        contents: ContentChecks,
        *,
        run: str,
        prev: bytes,
        lanes: dict[str, tuple[int, bytes]],
        find_lane_position: Callable[[int], tuple[str, int | None] | None],
        is_erasure_recorded: Callable[[int], bool],
        operations: bool = False,
    ) -> None:
        self.result = contents.result
        self._run = run
        self._prev = prev.hex()
        self._expected_seq = self.result.start
        self._ended = ""
        self._lanes = lanes
        self._find_lane_position = find_lane_position
        self._is_erasure_recorded = is_erasure_recorded
        self._opened: dict[int, tuple[str, str, int]] = {}
        self._foreign_kinds = frozenset() if operations else OPERATIONS_KINDS
        self._usual_lanes = {ROOT_LANE: write_json_string(ROOT_LANE)}
        """Lanes of valid events → their text in a link."""
        self._contents = contents
        self._traits = {
            kind: (
                kind in OPENING_KINDS,
                ANSWERS.get(kind),
                kind in BEHAVIOURAL_KINDS,
                self._contents.needs_opening(kind),
            )
            for kind in KINDS.keys() - TERMINAL_KINDS - self._foreign_kinds
            if is_name(run)
        }
        """Common kind → (opens a pair, the kind it answers, is behavioural, its content is opened)."""

    def verify(self, rows: Iterable[EventRow]) -> RangeResult:
        """Verify the rows. If the store cannot read a row, report its damage and leave the rest unverified."""
        try:
            self.feed(rows)
        except Damaged as damage:
            self._add_problem(self.result.start + self.result.events, "failure", damage.code, damage.message)
            self._finish()
        return self.result

    def _finish(self) -> None:
        self.result.opened = {seq: kind for seq, (kind, _, _) in self._opened.items()}
        self.result.last_kind = self._ended

    def feed(self, rows: Iterable[EventRow]) -> None:
        remaining = iter(rows)
        while (row := self._check_usual(remaining)) is not None:
            self._check_event(row)
        self.result.last_hash = bytes.fromhex(self._prev)
        self._finish()

    def _check_usual(self, rows: Iterator[EventRow]) -> EventRow | None:
        """Check rows in a fast loop. Return the first row that is uncommon or wrong, or None at the end.

        The loop does not parse a link; it writes the only text that this link may have (see `write_link`) and compares
        the bytes.
        """
        traits = self._traits if not self._ended else {}
        run, lanes, opened, usual_lanes = self._run, self._lanes, self._opened, self._usual_lanes
        seq, prev = self._expected_seq, self._prev
        lane_now, (last_seq, last_prefix) = ROOT_LANE, lanes.get(ROOT_LANE, _LANE_BEGINS)
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
                    or not event_id.isascii()
                    or len(event_id) > MAX_ID_CHARACTERS
                ):
                    return row
                # The link and its content
                try:
                    own = _decode_own_members(written)
                    key, parent, time = own.key, own.parent, own.time
                    stored = blob[1:] if blob[0] == 0 else unpack(blob)
                    content = sha256(_COMMIT + salt + match + stored).hexdigest()
                    key_text = "null" if key is None else write_json_string(key)
                    parent_text = "null" if parent is None else parent
                    text = (
                        f'{{"content":"sha256:{content}","id":"{event_id}","key":{key_text},"kind":"{kind}",'
                        f'"lane":{usual_lanes[lane]},"parent":{parent_text},"prev":"sha256:{prev}",'
                        f'"run":"{run}","seq":{seq},"time":{time}}}'
                    )
                    if written != text.encode():
                        return row
                except _LINK_ERRORS:
                    return row
                digest = sha256(_LINK + written).digest()
                if (
                    digest != stored_hash
                    or not 0 <= time <= MAX_TIME
                    or (key is not None and len(key) > MAX_KEY_CHARACTERS)
                    or (parent is not None and not 0 < parent < seq)
                ):
                    return row
                # The request it answers, and its position in its lane
                opens, answers, behavioural, needs_opening = traits[kind]
                distance = _NO_DISTANCE
                if answers:
                    request = opened.get(parent)  # type: ignore[arg-type]  # None is never a key
                    if request is None or request[0] != answers or lane_seq is None:
                        return row
                    if request[1] == lane and request[2] < lane_seq:
                        distance = (lane_seq - request[2]).to_bytes(8, "big")
                if behavioural:
                    if lane != lane_now:
                        lanes[lane_now] = (last_seq, last_prefix)
                        lane_now, (last_seq, last_prefix) = lane, lanes.get(lane, _LANE_BEGINS)
                    if lane_seq != last_seq + 1 or prefix != sha256(_PREFIX + last_prefix + match + distance).digest():
                        return row
                    last_seq, last_prefix = lane_seq, prefix
                elif prefix is not None or lane_seq is not None:
                    return row
                # The event is valid
                if opens:
                    opened[seq] = (kind, lane, lane_seq or 0)
                elif answers:
                    del opened[parent]  # type: ignore[arg-type]
                if needs_opening or (_DOLLAR in stored and b'{"$' in stored):
                    self._check_inside(row, stored)
                prev = digest.hex()
                seq += 1
        finally:
            self.result.events += seq - self._expected_seq
            self._expected_seq, self._prev = seq, prev
            lanes[lane_now] = (last_seq, last_prefix)
        return None

    def _check_inside(self, row: EventRow, stored: bytes) -> None:
        before = self.result.problem_count
        if b'{"$' in stored:
            self._contents.check_parts(row.seq, stored)
        if self._contents.needs_opening(row.kind):
            self._contents.check_opened(row)
        if self.result.problem_count != before:
            self.result.bad += 1

    def _check_event(self, row: EventRow) -> None:
        """Check any event and report everything that is wrong with it."""
        result, before = self.result, self.result.problem_count
        digest = link_hash(row.link)
        link = self._check_link(row, digest)
        if link is not None:
            self._check_content(row, link)
            self._check_position(row, link, content_holds=result.problem_count == before)
            if self._contents.needs_opening(row.kind):
                self._contents.check_opened(row)
            if row.kind in TERMINAL_KINDS:
                self._ended = row.kind
        self._expected_seq, self._prev = row.seq + 1, digest.hex()
        result.events += 1
        if result.problem_count != before:
            result.bad += 1
        else:
            self._usual_lanes[row.lane] = write_json_string(row.lane)

    def _add_problem(self, seq: int, sort: str, code: str, message: str) -> None:
        self.result.add_problem(seq, sort, code, message)

    def _check_link(self, row: EventRow, digest: bytes) -> Link | None:
        """Parse and check the link. Return None if it cannot be read."""
        try:
            link = parse_link(row.link)
        except OnrecordError:
            self._add_problem(row.seq, "failure", "bad_link", "the link is not well formed")
            return None
        if digest != row.hash:
            self._add_problem(row.seq, "failure", "bad_link", "the link does not match its hash")
        if row.seq != self._expected_seq:
            missing = f"event {self._expected_seq} is missing"
            message = missing if row.seq > self._expected_seq else "it is out of order"
            self._add_problem(self._expected_seq, "mismatch", "bad_sequence", message)
        problem = find_link_problem(link, run=self._run, seq=row.seq, prev=f"sha256:{self._prev}")
        if problem is not None:
            self._add_problem(row.seq, "mismatch", "bad_chain", f"the link {problem}")
        if (link.id, link.kind, link.lane) != (row.id, row.kind, row.lane):
            self._add_problem(row.seq, "failure", "bad_row", "the store's index disagrees with the link")
        if row.kind in self._foreign_kinds:
            self._add_problem(row.seq, "mismatch", "bad_kind", f"{row.kind} is not allowed in this journal")
        if self._ended:
            self._add_problem(row.seq, "mismatch", "after_end", f"it follows {self._ended}, which ends a run")
        return link

    def _check_content(self, row: EventRow, link: Link) -> None:
        """Check that the content matches the link, and that its references exist."""
        seq, salt, match, blob = row.seq, row.salt, row.match, row.content
        if blob is None or salt is None or match is None:
            self._check_erased(row)
            return
        try:
            if len(salt) != SALT_BYTES or len(match) != HASH_BYTES:
                raise Damaged("salt or match digest has a wrong length", code="bad_content")
            stored = unpack(blob)
            if render(commitment(salt, match, stored)) != link.content:
                raise Damaged("the content does not match the link", code="bad_content")
        except Damaged as damage:
            self._add_problem(seq, "failure", damage.code, damage.message)
            return
        if b'{"$' in stored:
            self._contents.check_parts(seq, stored)

    def _check_erased(self, row: EventRow) -> None:
        if row.content is not None or row.salt is not None or row.match is not None:
            self._add_problem(row.seq, "failure", "bad_content", "the content is half erased")
        elif not self._is_erasure_recorded(row.seq):
            self._add_problem(
                row.seq, "failure", "missing_content", "the content is missing and no erasure is on record"
            )
        else:
            self.result.erased.append(row.seq)

    def _check_position(self, row: EventRow, link: Link, *, content_holds: bool) -> None:
        """Check the request that the event answers and the prefix digest of its lane."""
        distance = self._measure_distance(row, link)
        lane, lane_seq, prefix = row.lane, row.lane_seq, row.prefix
        if lane_seq is not None:
            last_seq, last_prefix = self._lanes.get(lane, _LANE_BEGINS)
            expected = next_prefix(last_prefix, row.match if row.match is not None else ERASED_MARKER, distance)
            if prefix != expected or lane_seq != last_seq + 1 or row.kind not in BEHAVIOURAL_KINDS:
                self._add_problem(row.seq, "mismatch", "bad_prefix", "the prefix digest of its lane does not follow")
            # Continue from the trusted digest, so that one bad digest is one problem, not one for each later event.
            self._lanes[lane] = (lane_seq, expected if content_holds or prefix is None else prefix)
        elif prefix is not None or row.kind in BEHAVIOURAL_KINDS:
            self._add_problem(row.seq, "mismatch", "bad_prefix", "a behavioural event has no position in its lane")

    def _measure_distance(self, row: EventRow, link: Link) -> int:
        """Return the distance in the lane between the event and the request that it answers, else 0."""
        if row.kind in OPENING_KINDS:
            self._opened[row.seq] = (row.kind, row.lane, row.lane_seq or 0)
        elif row.kind in ANSWERS:
            request = self._opened.pop(link.parent, None)  # type: ignore[arg-type]  # None is never a key
            if request is None or request[0] != ANSWERS[row.kind]:
                return self._check_early_answer(row, link)
            if request[1] == row.lane and row.lane_seq is not None:
                return max(0, row.lane_seq - request[2])
        return 0

    def _check_early_answer(self, row: EventRow, link: Link) -> int:
        """Check an answer whose request is not open in this range, and return its distance."""
        answered = ANSWERS[row.kind]
        if link.parent is None:
            if row.kind not in MAY_ANSWER_NOTHING:
                self._add_problem(row.seq, "mismatch", "orphan_answer", f"{row.kind} answers nothing")
            return 0
        if link.parent >= self.result.start:
            message = f"event {link.parent} is no open {answered} to answer"
            self._add_problem(row.seq, "mismatch", "orphan_answer", message)
            return 0
        self.result.early_answers.append(AnsweredRequest(row.seq, link.parent, row.kind))
        request = self._find_lane_position(link.parent)
        if request is None or request[0] != row.lane or request[1] is None or row.lane_seq is None:
            return 0
        return max(0, row.lane_seq - request[1])
