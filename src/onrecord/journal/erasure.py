"""Erase a value: every content of the namespace that reaches it, and everything from which it could be guessed.

The value is searched as text, inside bytes, and inside JSON text; in nodes, contents, facts and artifacts. Whole
contents are erased, with salt and match digest. The links stay, so every chain still verifies. Later prefix digests are
computed again, and snapshots and inboxes of those runs are removed. The operations journal records what was erased and
why, never the value.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from onrecord.core.canonical import parse_stored, stored_bytes
from onrecord.core.events import ANSWERS, OPENING_KINDS, TERMINAL_KINDS, ContentErased
from onrecord.core.hashing import render
from onrecord.core.links import OPERATIONS_RUN
from onrecord.core.matching import advance_prefix
from onrecord.core.merkle import artifacts_in, expand, references_in
from onrecord.core.packing import unpack
from onrecord.core.state import StateUpdatedOnlyReducer
from onrecord.errors import InvalidInput, NotFound, Refused
from onrecord.journal.operations import OperationsJournal
from onrecord.journal.reachability import Content, DeadParts, all_contents, all_runs, contents_of, parts_of
from onrecord.journal.reader import JournalReader, NodeReader
from onrecord.journal.sources import Sources
from onrecord.store.contract import PendingAppend, RunRow, Store

SHORTEST_VALUE_CHARACTERS = 4
MAX_ROUNDS = 10
ERASING = "erasure"
_BASE64_TAGS = frozenset({"$bytes", "$bytearray", "$text"})
_HIDING = re.compile(rb'"\$(?:string|bytes|bytearray|text)"')
LEASE_SECONDS = 600.0


class ErasurePlan(NamedTuple):
    """The contents (seq 0: the facts) and inboxes that an erasure removes.

    `blocked` lists the positions of the value that cannot be erased.
    """

    contents: list[tuple[str, int]]
    blocked: list[str]
    inboxes: list[str]

    @property
    def runs(self) -> list[str]:
        return list(dict.fromkeys([*(run for run, _ in self.contents), *self.inboxes]))


def plan_erasure(store: Store, value: str, namespace: str = "default") -> ErasurePlan:
    """List everything that reaches the value. Change nothing."""
    needles = _list_needles(value)
    taint = _ValueSearch(store, namespace, needles)
    contents: set[tuple[str, int]] = set()
    blocked: list[str] = []
    inboxes: list[str] = []
    for row in all_runs(store, namespace):
        run = row.header.run
        found = {content.seq for content in contents_of(store, namespace, row) if taint.reaches(content)}
        snapshots = store.snapshots(namespace, run)
        found |= {snapshot.seq + 1 for snapshot in snapshots if taint.holds(unpack(snapshot.blob))}
        if found:
            found |= set(_find_derived(store, namespace, run, min(found)))
        contents |= {(run, seq) for seq in found}
        messages = store.inbox(namespace, run)
        if any(taint.holds(item.payload) or taint.holds(stored_bytes(item.key)) for item in messages):
            inboxes.append(run)
        blocked.extend(_find_blocked(store, namespace, row, needles, bool(found)))
    return ErasurePlan(sorted(contents), blocked, inboxes)


def _find_blocked(store: Store, namespace: str, row: RunRow, needles: Sequence[bytes], found: bool) -> Iterator[str]:
    run = row.header.run
    if run == OPERATIONS_RUN and found:
        yield "the operations journal holds the value"
    if any(needle in row.header.header for needle in needles):
        yield f"the header of run {run} holds the value"
    for event in store.scan(namespace, run, contents=False):
        if any(needle in event.link for needle in needles):
            yield f"the link of event {event.seq} of run {run} holds the value"


def _find_derived(store: Store, namespace: str, run: str, first: int) -> Iterator[int]:
    """Yield contents that hold the hash of a state from which the value could be guessed.

    These are snapshot events and, if the reducer accumulates, every later update of the state.
    """
    accumulates = JournalReader(store, run, namespace).header.reducer != StateUpdatedOnlyReducer.id
    for event in store.scan(namespace, run, max(first, 1), contents=False):
        if event.salt is not None and (event.kind == "SnapshotTaken" or (accumulates and event.kind == "StateUpdated")):
            yield event.seq


def erase_value(
    store: Store, value: str, namespace: str = "default", *, reason: str, sources: Sources | None = None
) -> ErasurePlan:
    """Erase the value everywhere in the namespace, or raise and erase nothing."""
    if any(needle in stored_bytes(reason) for needle in _list_needles(value)):
        raise InvalidInput("the reason is recorded forever and may not hold the value", code="bad_reason")
    erased = ErasurePlan([], [], [])
    for _ in range(MAX_ROUNDS):
        plan = plan_erasure(store, value, namespace)
        if plan.blocked:
            raise Refused(
                f"the value cannot be erased: {plan.blocked[0]}",
                hint="Headers and links are never erased; keep such values out of run ids and replay keys.",
                code="erasure_refused",
            )
        if not plan.contents and not plan.inboxes:
            if not erased.runs:
                raise NotFound("nothing in the namespace reaches the value", code="value_not_found")
            return erased
        with _hold_leases(store, namespace, plan.runs):
            _erase(store, namespace, plan, reason, sources)
        erased = ErasurePlan(erased.contents + plan.contents, [], erased.inboxes + plan.inboxes)
    raise Refused("the value is being recorded faster than it can be erased", code="erasure_refused")


def _list_needles(value: str) -> list[bytes]:
    if len(value) < SHORTEST_VALUE_CHARACTERS:
        raise InvalidInput(
            f"a value to erase has at least {SHORTEST_VALUE_CHARACTERS} characters",
            hint="A shorter value occurs in too many places by chance.",
            code="value_too_short",
        )
    # As in stored text, and as in JSON text within it, which most tools return.
    forms = [value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]]
    return list(dict.fromkeys(stored_bytes(form)[1:-1] for form in forms))


class _ValueSearch:
    """The nodes and artifacts that reach the value."""

    def __init__(self, store: Store, namespace: str, needles: Sequence[bytes]) -> None:
        self._needles = needles
        # Within bytes: the text itself, and the text as JSON in those bytes would write it.
        self._raw = [parse_stored(b'"' + needle + b'"').encode() for needle in needles]
        self._reader = NodeReader(store, namespace)
        users: dict[bytes, list[bytes]] = {}
        self._nodes: set[bytes] = set()
        for address, blob in store.all_nodes(namespace):
            stored = unpack(blob)
            if self.holds(stored):
                self._nodes.add(address)
            for used in references_in(stored):
                users.setdefault(used, []).append(address)
        self._artifacts = {
            address
            for address in store.all_artifacts(namespace)
            if self._in_raw(store.artifact(namespace, address) or b"")
        }
        spreading = list(self._nodes)
        while spreading:
            for user in users.get(spreading.pop(), []):
                if user not in self._nodes:
                    self._nodes.add(user)
                    spreading.append(user)

    def reaches(self, content: Content) -> bool:
        return self.holds(content.stored) or any(address in self._nodes for address in references_in(content.stored))

    def holds(self, stored: bytes) -> bool:
        if any(needle in stored for needle in self._needles):
            return True
        if _HIDING.search(stored):
            # A long text is cut into nodes, and the value may cross a cut; bytes are stored as base64.
            tree = expand(stored, self._reader.fetch)
            whole = stored_bytes(tree)
            if any(needle in whole for needle in self._needles) or self._in_bytes(tree):
                return True
        return any(address in self._artifacts for address in artifacts_in(stored))

    def _in_raw(self, data: bytes) -> bool:
        return any(raw in data for raw in self._raw)

    def _in_bytes(self, tree: Any) -> bool:
        stack = [tree]
        while stack:
            value = stack.pop()
            if isinstance(value, list):
                stack.extend(value)
            elif isinstance(value, dict):
                name = next(iter(value), "")
                if len(value) == 1 and name in _BASE64_TAGS and isinstance(value[name], str):
                    if self._in_raw(b64decode(value[name])):
                        return True
                else:
                    stack.extend(value.values())
        return False


@contextmanager
def _hold_leases(store: Store, namespace: str, runs: Sequence[str]) -> Iterator[None]:
    """Hold the leases of runs that have not ended: erasure changes the prefix digests that their writers rely on."""
    held: list[tuple[str, int]] = []
    try:
        for run in runs:
            row = store.run_row(namespace, run)
            if row is not None and (row.last is None or row.last.kind not in TERMINAL_KINDS):
                claim = store.claim(namespace, run, ERASING, LEASE_SECONDS)
                if not claim.granted:
                    raise Refused(
                        f"run {run} holds the value and another process is writing it",
                        hint="Wait for it to end, then erase.",
                        code="run_busy",
                    )
                held.append((run, claim.epoch))
        yield
    finally:
        for run, epoch in held:
            store.release(namespace, run, epoch)


def _erase(store: Store, namespace: str, plan: ErasurePlan, reason: str, sources: Sources | None) -> None:
    erased = set(plan.contents)
    runs = set(dict.fromkeys(run for run, _ in plan.contents))
    erased_contents = (c for c in all_contents(store, namespace) if (c.run, c.seq) in erased)
    candidates = parts_of(store, namespace, erased_contents, runs)
    prefixes = [
        (run, seq, prefix)
        for run in runs
        for seq, prefix in _compute_prefixes(store, namespace, run, {seq for of, seq in erased if of == run})
    ]

    def act(record: PendingAppend) -> None:
        dead = DeadParts(store, namespace, lambda run, seq: (run, seq) in erased, runs, candidates)
        store.erase_contents(namespace, plan.contents, prefixes, record, dead.nodes, dead.artifacts, plan.inboxes)

    headers = {run: JournalReader(store, run, namespace).header_row.hash for run in runs}
    event = ContentErased(contents=[[run, seq, render(headers[run])] for run, seq in plan.contents], reason=reason)
    OperationsJournal.open_for(store, namespace, sources=sources).append_with(event, act)


def _compute_prefixes(store: Store, namespace: str, run: str, erased: set[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the new prefix digests from an erased content on, with the erased marker as its match digest."""
    reader = JournalReader(store, run, namespace)
    lanes: dict[str, bytes] = {}
    touched: set[str] = set()
    open_requests: dict[int, tuple[str, int]] = {}
    for row in store.scan(namespace, run, contents=False):
        if row.lane_seq is None or row.prefix is None:
            continue
        distance = 0
        if row.kind in OPENING_KINDS:
            open_requests[row.seq] = (row.lane, row.lane_seq)
        if row.kind in ANSWERS:
            parent = reader.link(row).parent
            place = open_requests.pop(parent, None) if parent is not None else None
            distance = row.lane_seq - place[1] if place is not None and place[0] == row.lane else 0
        if row.seq in erased:
            touched.add(row.lane)
        if row.lane in touched:
            match = None if row.seq in erased else row.match
            lanes[row.lane] = advance_prefix(lanes.get(row.lane), match, distance)
            yield row.seq, lanes[row.lane]
        else:
            lanes[row.lane] = row.prefix
