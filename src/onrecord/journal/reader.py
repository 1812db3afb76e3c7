"""Read a run: from the rows of a store to events. Every digest is checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from onrecord.core.codec import decode
from onrecord.core.events import TERMINAL_KINDS, Event, UnknownEvent, read_event
from onrecord.core.hashing import artifact_address, commitment, link_hash, node_address, render
from onrecord.core.links import Header, Link, parse_header, parse_link
from onrecord.core.matching import MatchRules
from onrecord.core.merkle import expand
from onrecord.core.packing import unpack
from onrecord.errors import BadPosition, Damaged, NotFound, Refused
from onrecord.journal.sequenced_event import ErasedEvent, SequencedEvent
from onrecord.store.contract import EventRow, Head, HeaderRow, RunRow, Store

NODE_CACHE_BYTES = 16 * 1024 * 1024
MOST_PARENTS = 1000
RUNS_AT_ONCE = 200


class NodeReader:
    """Reads nodes of a namespace by address: unpacked, checked, and cached."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._cache: dict[bytes, bytes] = {}
        self._cached_bytes = 0

    def fetch(self, addresses: Sequence[bytes]) -> dict[bytes, bytes]:
        found = {address: self._cache[address] for address in addresses if address in self._cache}
        absent = [address for address in addresses if address not in found]
        if absent:
            for address, blob in self._store.nodes(self._namespace, absent).items():
                found[address] = self._keep(address, check_node(address, blob))
        return found

    def artifact(self, address: bytes) -> bytes:
        data = self._store.artifact(self._namespace, address)
        if data is None:
            raise Damaged(f"an artifact is missing: {render(address)}", code="missing_artifact")
        if artifact_address(data) != address:
            raise Damaged(f"an artifact does not match its address: {render(address)}", code="bad_artifact")
        return data

    def _keep(self, address: bytes, stored: bytes) -> bytes:
        self._cached_bytes += len(stored)
        if self._cached_bytes > NODE_CACHE_BYTES:
            self._cache.clear()
            self._cached_bytes = len(stored)
        self._cache[address] = stored
        return stored


def check_node(address: bytes, blob: bytes) -> bytes:
    stored = unpack(blob)
    if node_address(stored) != address:
        raise Damaged(f"a shared value does not match its address: node {render(address)}", code="bad_node")
    return stored


def each_run(
    store: Store, namespace: str, before: tuple[int, str] | None = None, *, at_once: int | None = None
) -> Iterator[RunRow]:
    """Yield the runs of a namespace, newest first, `at_once` rows with a query.

    `before` is the creation time and id of a run: only older runs are yielded.
    """
    limit = min(at_once or RUNS_AT_ONCE, RUNS_AT_ONCE)
    while True:
        page = store.list_runs(namespace, before=before, limit=limit)
        yield from page
        if len(page) < limit:
            return
        before = page[-1].header.created, page[-1].header.run


class JournalReader:
    """A run, read-only. `scan(n)` begins with event n; a position is the last applied seq."""

    def __init__(self, store: Store, run: str, namespace: str = "default") -> None:
        row = store.run_row(namespace, run)
        if row is None:
            raise NotFound(f"no run {run[:128]!r} in namespace {namespace[:128]!r}", code="unknown_run")
        self.store = store
        self.run = run
        self.namespace = namespace
        self.header_row: HeaderRow = row.header
        self.header: Header = parse_header(row.header.header)
        self.recorded_run = self.header.run
        """The run id in the links. An imported run may be stored under another id if its own is taken."""
        moved = self.header.run != run or self.header.namespace != namespace
        if moved and not row.header.imported:
            raise Damaged(f"the header kept for run {run} is that of another run", code="bad_header")
        self.nodes = NodeReader(store, namespace)

    @property
    def imported(self) -> bool:
        """Return True if the run was recorded elsewhere: its values stay plain data, its command line never runs."""
        return self.header_row.imported

    @cached_property
    def holds_foreign(self) -> bool:
        """Return True if the run or one of its ancestors was recorded elsewhere: its values stay plain data."""
        reader = self
        for _ in range(MOST_PARENTS):
            if reader.imported or reader.header.parent is None:
                return reader.imported
            try:
                reader = JournalReader(self.store, reader.header.parent.run, self.namespace)
            except NotFound:
                return False
        return True  # no real lineage is this long: do not trust it

    def facts(self) -> dict[str, Any] | None:
        """Return what was known when the run began; None if erased."""
        tree = self.facts_tree()
        members = None if tree is None else self.decoded(tree)
        if members is not None and not isinstance(members, dict):
            raise Damaged(f"the facts of run {self.run} are not an object", code="bad_content")
        return members

    def facts_tree(self) -> Any:
        """Return the facts as encoded; None if erased."""
        row = self.header_row
        if row.content is None or row.salt is None or row.match is None:
            return None
        stored = unpack(row.content)
        if render(commitment(row.salt, row.match, stored)) != self.header.content:
            raise Damaged(f"the facts of run {self.run} do not match its header", code="bad_content")
        return expand(stored, self.nodes.fetch)

    def rules(self) -> MatchRules:
        volatile = (self.facts() or {}).get("volatile") or []
        rules = MatchRules([(str(kind), str(pointer)) for kind, pointer in volatile])
        if rules.id != self.header.rules:
            raise Refused(
                f"the match rules of run {self.run} were erased with its facts",
                hint="The run can be read and verified; fork it to continue.",
                code="rules_erased",
            )
        return rules

    def head(self) -> Head:
        last = self.store.last_event(self.namespace, self.run)
        return Head(0, self.header_row.hash) if last is None else Head(last.seq, last.hash)

    def scan(self, start: int = 1, stop: int | None = None) -> Iterator[SequencedEvent]:
        """Yield events from `start` on (below `stop`), ascending. A start beyond the next event is refused."""
        self.check_start(start)
        for row in self.store.scan(self.namespace, self.run, start, stop):
            yield self.sequenced(row)

    def check_start(self, start: int) -> None:
        if start < 1:
            raise BadPosition(f"events are numbered from 1, there is no event {start}")
        if start > 1 and start > (last := self.head().seq) + 1:
            raise BadPosition(f"run {self.run} has {last} events, there is no event {start}")

    def event(self, seq: int) -> SequencedEvent:
        row = self.store.event(self.namespace, self.run, seq)
        if row is None:
            raise BadPosition(f"run {self.run} has no event {seq}")
        return self.sequenced(row)

    def follow(
        self,
        start: int = 1,
        *,
        poll_seconds: float = 0.05,
        timeout_seconds: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> Iterator[SequencedEvent]:
        """Yield events from `start` on and wait for more, until the run ends or none arrives for `timeout_seconds`."""
        self.check_start(start)
        waiting_since = monotonic()
        while True:
            for row in self.store.scan(self.namespace, self.run, start):
                yield self.sequenced(row)
                if row.kind in TERMINAL_KINDS:
                    return
                start = row.seq + 1
                waiting_since = monotonic()
            if timeout_seconds is not None and monotonic() - waiting_since >= timeout_seconds:
                return
            sleep(poll_seconds)

    def children(self, seq: int) -> Iterator[SequencedEvent]:
        """Yield the events that name `seq` as their causal parent."""
        self.event(seq)
        for row in self.store.scan(self.namespace, self.run, seq + 1):
            if self.link(row).parent == seq:
                yield self.sequenced(row)

    def link(self, row: EventRow) -> Link:
        """Return the row's link. Its hash and its agreement with the row are checked."""
        try:
            link = parse_link(row.link)
        except Damaged as damage:
            raise Damaged(f"event {row.seq} of run {self.run}: {damage.message}", code=damage.code) from None
        if (
            link_hash(row.link) != row.hash
            or link.seq != row.seq
            or link.run != self.recorded_run
            or link.kind != row.kind
        ):
            raise Damaged(f"event {row.seq} of run {self.run} does not match its hash", code="bad_link")
        return link

    def sequenced(self, row: EventRow) -> SequencedEvent:
        link = self.link(row)
        tree = self.content_tree(row, link)
        if tree is None:
            event: Event = ErasedEvent(link.kind)
        else:
            event = read_event(link.kind, self.decoded(tree))
        return SequencedEvent(
            seq=link.seq,
            event=event,
            id=link.id,
            kind=link.kind,
            lane=link.lane,
            key=link.key,
            parent=link.parent,
            time=link.time,
            hash=render(row.hash),
        )

    def content_tree(self, row: EventRow, link: Link) -> Any:
        """Return the encoded content with all its parts; None if erased."""
        return self.tree_of(row, link.content)

    def tree_of(self, row: EventRow, committed: str) -> Any:
        """Return the encoded content for a caller that has checked the link; `committed` is the link's `content`."""
        if row.content is None or row.salt is None or row.match is None:
            return None
        try:
            stored = unpack(row.content)
            if render(commitment(row.salt, row.match, stored)) != committed:
                raise Damaged("the content does not match the link", code="bad_content")
            return expand(stored, self.nodes.fetch)
        except Damaged as damage:
            raise Damaged(f"event {row.seq} of run {self.run}: {damage.message}", code=damage.code) from None

    def decoded(self, tree: Any, annotation: Any = None, *, missing: list[str] | None = None) -> Any:
        """Return the value of an encoded tree of this run. Loaded classes are used unless the run is foreign."""
        classes, artifact = not self.holds_foreign, self.nodes.artifact
        return decode(tree, loaded_classes=classes, annotation=annotation, artifact=artifact, missing=missing)


__all__ = ["ErasedEvent", "JournalReader", "NodeReader", "SequencedEvent", "UnknownEvent", "check_node"]
