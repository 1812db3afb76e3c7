"""A store in memory: for tests and experiments, and the simplest implementation of the contract.

One lock surrounds every verb, so each is a transaction. Everything is checked before anything changes, so a refusal
changes nothing. Data lives as long as the process. A forked child has its own copy from the fork on.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from onrecord.errors import InvalidInput, MovedHead, NotFound, Refused, RunExists, StaleEpoch
from onrecord.store.contract import (
    DURABILITY_LEVELS,
    Claim,
    DuplicateIds,
    EventRow,
    Head,
    HeaderRow,
    InboxArrival,
    InboxRow,
    NodeRow,
    PendingAppend,
    RunRow,
    SnapshotRow,
)

SCAN_PAGE = 512


class _Run:
    def __init__(self, header: HeaderRow) -> None:
        self.header = header
        self.events: list[EventRow] = []
        self.seqs: list[int] = []
        self.ids: dict[str, int] = {}
        self.lanes: dict[str, dict[int, int]] = {}
        """lane → lane_seq → index into events"""
        self.epoch = 0
        self.holder = ""
        self.lease_until = 0.0
        self.inbox: dict[str, InboxRow] = {}
        self.snapshots: dict[int, SnapshotRow] = {}
        self.changed = 0
        """The number of the store's last change in this run."""

    def head(self) -> Head:
        if not self.events:
            return Head(0, self.header.hash)
        return Head(self.events[-1].seq, self.events[-1].hash)

    def index(self, seq: int) -> int | None:
        at = bisect_left(self.seqs, seq)
        return at if at < len(self.seqs) and self.seqs[at] == seq else None


class _Space:
    def __init__(self) -> None:
        self.runs: dict[str, _Run] = {}
        self.nodes: dict[bytes, bytes] = {}
        self.artifacts: dict[bytes, bytes] = {}


class MemoryStore:
    def __init__(self, name: str = "", durability: str = "full") -> None:
        if durability not in DURABILITY_LEVELS:
            raise InvalidInput(f"unknown durability {durability!r}; known: {', '.join(DURABILITY_LEVELS)}")
        self.url = f"memory://{name}"
        self.durability = durability
        self._spaces: dict[str, _Space] = {}
        self._arrivals: list[InboxArrival | None] = []
        self._changes = 0
        self._lock = threading.RLock()
        _alive.add(self)

    def sync(self) -> None:
        """Do nothing: memory cannot be more durable."""

    @property
    def private_url(self) -> str:
        return self.url

    def remove_artifacts(self, namespace: str, addresses: Iterable[bytes]) -> None:
        with self._lock:
            self._remove_values(namespace, [], list(addresses))

    def close(self) -> None:
        """Do nothing: the data lives as long as the object, which `memory://name` shares by name."""

    def _space(self, namespace: str) -> _Space:
        return self._spaces.get(namespace) or _Space()

    def _find(self, namespace: str, run: str) -> _Run | None:
        space = self._spaces.get(namespace)
        return None if space is None else space.runs.get(run)

    def _get(self, namespace: str, run: str) -> _Run:
        found = self._find(namespace, run)
        if found is None:
            raise NotFound(f"no run {run!r} in namespace {namespace!r} of {self.url}")
        return found

    def _mark_changed(self, run: _Run) -> _Run:
        self._changes += 1
        run.changed = self._changes
        return run

    # Runs

    def create_run(self, namespace: str, header: HeaderRow, nodes: Sequence[NodeRow] = ()) -> None:
        with self._lock:
            found = self._find(namespace, header.run)
            if found is not None:
                if found.header.header != header.header:
                    raise RunExists(f"there is another run {header.run!r} in namespace {namespace!r} already")
                return
            space = self._spaces.setdefault(namespace, _Space())
            space.runs[header.run] = self._mark_changed(_Run(header))
            _put_nodes(space, nodes)

    def import_run(
        self,
        namespace: str,
        header: HeaderRow,
        nodes: Sequence[NodeRow],
        batches: Iterable[tuple[Sequence[EventRow], Sequence[NodeRow]]],
    ) -> None:
        # Built outside of the store, so that a failure of `batches` writes nothing and no caller waits for it.
        draft = MemoryStore()
        draft.create_run(namespace, header, nodes)
        for events, more in batches:
            head = draft._get(namespace, header.run).head()
            draft.append(namespace, header.run, events, expected=head, epoch=0, nodes=more)
        with self._lock:
            if self._find(namespace, header.run) is not None:
                raise RunExists(f"run {header.run!r} exists in namespace {namespace!r}")
            space = self._spaces.setdefault(namespace, _Space())
            built = draft._spaces[namespace]
            space.runs[header.run] = self._mark_changed(built.runs[header.run])
            for address, blob in built.nodes.items():
                space.nodes.setdefault(address, blob)

    def run_row(self, namespace: str, run: str) -> RunRow | None:
        with self._lock:
            found = self._find(namespace, run)
            return None if found is None else _run_row(found)

    def list_runs(self, namespace: str, *, before: tuple[int, str] | None = None, limit: int = 100) -> list[RunRow]:
        _check_limit(limit)
        with self._lock:
            rows = [r for r in self._space(namespace).runs.values() if r.header.kind != "operations"]
        keys = {(r.header.created, r.header.run): r for r in rows}
        wanted = sorted((k for k in keys if before is None or k < before), reverse=True)[:limit]
        with self._lock:
            return [_run_row(keys[k]) for k in wanted]

    def find_runs(self, namespace: str, prefix: str, limit: int = 10) -> list[str]:
        _check_limit(limit)
        with self._lock:
            return sorted(r for r in self._space(namespace).runs if r.startswith(prefix))[:limit]

    def namespaces(self) -> list[str]:
        with self._lock:
            return sorted(name for name, space in self._spaces.items() if space.runs)

    def runs_since(self, namespace: str, cursor: str | None) -> tuple[str, list[str] | None]:
        with self._lock:
            if cursor is None:
                return str(self._changes), None
            known = int(cursor)
            return str(self._changes), [n for n, run in self._space(namespace).runs.items() if run.changed > known]

    # Events

    def append(
        self,
        namespace: str,
        run: str,
        events: Sequence[EventRow],
        *,
        expected: Head,
        epoch: int,
        nodes: Sequence[NodeRow] = (),
        sync: bool = True,
    ) -> None:
        with self._lock:
            self._check(namespace, run, events, expected, epoch)
            self._add(namespace, run, events, nodes)

    def append_many(self, appends: Sequence[PendingAppend]) -> list[Exception | None]:
        results: list[Exception | None] = []
        with self._lock:
            for pending in appends:
                try:
                    self._check(pending.namespace, pending.run, pending.events, pending.expected, pending.epoch)
                except (Refused, NotFound, DuplicateIds) as refusal:
                    results.append(refusal)
                else:
                    self._add(pending.namespace, pending.run, pending.events, pending.nodes)
                    results.append(None)
        return results

    def _check(self, namespace: str, run: str, events: Sequence[EventRow], expected: Head, epoch: int) -> None:
        found = self._get(namespace, run)
        existing = [found.events[found.ids[e.id]] for e in events if e.id in found.ids]
        if existing:
            raise DuplicateIds(existing)
        if found.epoch != epoch:
            raise StaleEpoch(f"run {run!r} is at epoch {found.epoch}, the append is of epoch {epoch}")
        head = found.head()
        if head != expected:
            raise MovedHead(f"run {run!r} ends with seq {head.seq}, the append expected {expected.seq}")
        last = head.seq
        ids: set[str] = set()
        lanes: set[tuple[str, int]] = set()
        for e in events:
            lane_seq_taken = e.lane_seq is not None and (
                e.lane_seq in found.lanes.get(e.lane, {}) or (e.lane, e.lane_seq) in lanes
            )
            if e.seq <= last or e.id in ids or lane_seq_taken:
                raise Refused(f"seq, id or lane_seq of an event is taken in run {run!r} (seq {e.seq})")
            last = e.seq
            ids.add(e.id)
            if e.lane_seq is not None:
                lanes.add((e.lane, e.lane_seq))

    def _add(self, namespace: str, run: str, events: Sequence[EventRow], nodes: Sequence[NodeRow]) -> None:
        found = self._mark_changed(self._get(namespace, run))
        _put_nodes(self._spaces[namespace], nodes)
        for event in events:
            at = len(found.events)
            found.events.append(EventRow(*event))
            found.seqs.append(event.seq)
            found.ids[event.id] = at
            if event.lane_seq is not None:
                found.lanes.setdefault(event.lane, {})[event.lane_seq] = at

    def last_event(self, namespace: str, run: str) -> EventRow | None:
        with self._lock:
            found = self._find(namespace, run)
            return found.events[-1] if found and found.events else None

    def event(self, namespace: str, run: str, seq: int) -> EventRow | None:
        with self._lock:
            found = self._find(namespace, run)
            at = found.index(seq) if found else None
            return None if found is None or at is None else found.events[at]

    def events_by_id(self, namespace: str, run: str, ids: Sequence[str]) -> list[EventRow]:
        with self._lock:
            found = self._find(namespace, run)
            return [found.events[found.ids[i]] for i in ids if i in found.ids] if found else []

    def scan(
        self, namespace: str, run: str, start: int = 1, stop: int | None = None, *, contents: bool = True
    ) -> Iterator[EventRow]:
        while True:
            with self._lock:
                found = self._find(namespace, run)
                if found is None:
                    return
                at = bisect_left(found.seqs, start)
                page = found.events[at : at + SCAN_PAGE]
            for event in page:
                if stop is not None and event.seq >= stop:
                    return
                yield event if contents else event._replace(content=None)
            if len(page) < SCAN_PAGE:
                return
            start = page[-1].seq + 1

    def lane_event(self, namespace: str, run: str, lane: str, lane_seq: int) -> EventRow | None:
        with self._lock:
            found = self._find(namespace, run)
            at = found.lanes.get(lane, {}).get(lane_seq) if found else None
            return None if found is None or at is None else found.events[at]._replace(content=None)

    def lanes(self, namespace: str, run: str, below: int | None = None) -> list[EventRow]:
        with self._lock:
            found = self._find(namespace, run)
            last: dict[str, EventRow] = {}
            for event in found.events if found else ():
                if event.lane_seq is not None and (below is None or event.seq < below):
                    last[event.lane] = event
        return [last[lane]._replace(content=None) for lane in sorted(last)]

    # Shared values

    def nodes(self, namespace: str, addresses: Sequence[bytes]) -> dict[bytes, bytes]:
        with self._lock:
            known = self._space(namespace).nodes
            return {a: known[a] for a in addresses if a in known}

    def all_nodes(self, namespace: str) -> Iterator[NodeRow]:
        with self._lock:
            rows = list(self._space(namespace).nodes.items())
        for address, blob in rows:
            yield NodeRow(address, blob)

    def put_artifact(self, namespace: str, address: bytes, data: bytes) -> None:
        with self._lock:
            self._spaces.setdefault(namespace, _Space()).artifacts.setdefault(address, bytes(data))

    def artifact(self, namespace: str, address: bytes) -> bytes | None:
        with self._lock:
            return self._space(namespace).artifacts.get(address)

    def all_artifacts(self, namespace: str) -> Iterator[bytes]:
        with self._lock:
            return iter(list(self._space(namespace).artifacts))

    # Leases

    def claim(self, namespace: str, run: str, holder: str, ttl_seconds: float, superseding: str | None = None) -> Claim:
        if not 0 < ttl_seconds < 1e9:
            raise InvalidInput(f"a lease lasts more than 0 seconds, not {ttl_seconds!r}")
        with self._lock:
            found = self._get(namespace, run)
            now = time.clock_gettime(time.CLOCK_BOOTTIME)
            held_by_other = found.holder not in ("", holder, superseding)
            if held_by_other and found.lease_until > now:
                return Claim(found.epoch, found.holder, False)
            if found.holder != holder:
                found.epoch += 1
                found.holder = holder
            found.lease_until = now + ttl_seconds
            return Claim(found.epoch, holder, True)

    def release(self, namespace: str, run: str, epoch: int) -> None:
        with self._lock:
            found = self._get(namespace, run)
            if found.epoch == epoch:
                found.holder = ""
                found.lease_until = 0.0

    def holder(self, namespace: str, run: str) -> str | None:
        with self._lock:
            found = self._find(namespace, run)
            if found is None or found.lease_until <= time.clock_gettime(time.CLOCK_BOOTTIME):
                return None
            return found.holder or None

    # Inbox

    def inbox_put(self, namespace: str, run: str, key: str, payload: bytes, time: int) -> InboxRow:
        with self._lock:
            found = self._get(namespace, run)
            row = InboxRow(len(found.inbox) + 1, key, bytes(payload), time)
            if key not in found.inbox:
                self._arrivals.append(InboxArrival(namespace, run, key))
            return found.inbox.setdefault(key, row)

    def inbox(self, namespace: str, run: str, after: int = 0) -> list[InboxRow]:
        with self._lock:
            found = self._find(namespace, run)
            return [row for row in found.inbox.values() if row.number > after] if found else []

    def inbox_find(self, namespace: str, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], InboxRow]:
        with self._lock:
            runs = self._space(namespace).runs
            return {(run, key): runs[run].inbox[key] for run, key in pairs if run in runs and key in runs[run].inbox}

    def inbox_since(self, cursor: str | None) -> tuple[str, list[InboxArrival]]:
        with self._lock:
            end = len(self._arrivals)
            new = [] if cursor is None else self._arrivals[int(cursor) : end]
            return str(end), [arrival for arrival in new if arrival is not None]

    def _forget_arrivals(self, namespace: str, run: str) -> None:
        """Clear the entries, but keep their positions, which cursors count."""
        for at, arrival in enumerate(self._arrivals):
            if arrival is not None and (arrival.namespace, arrival.run) == (namespace, run):
                self._arrivals[at] = None

    # Snapshots

    def put_snapshot(self, namespace: str, run: str, snapshot: SnapshotRow) -> None:
        with self._lock:
            self._get(namespace, run).snapshots[snapshot.seq] = snapshot

    def snapshots(self, namespace: str, run: str) -> list[SnapshotRow]:
        with self._lock:
            found = self._find(namespace, run)
            return [found.snapshots[s] for s in sorted(found.snapshots, reverse=True)] if found else []

    def delete_snapshot(self, namespace: str, run: str, seq: int) -> None:
        with self._lock:
            found = self._find(namespace, run)
            if found:
                found.snapshots.pop(seq, None)

    # Retention and erasure

    def delete_run(
        self, namespace: str, run: str, record: PendingAppend, nodes: Iterable[bytes], artifacts: Iterable[bytes]
    ) -> None:
        with self._lock:
            nodes, artifacts = list(nodes), list(artifacts)
            self._get(namespace, run)
            self._check(record.namespace, record.run, record.events, record.expected, record.epoch)
            self._remove_values(namespace, nodes, artifacts)
            del self._spaces[namespace].runs[run]
            self._forget_arrivals(namespace, run)
            self._add(record.namespace, record.run, record.events, record.nodes)

    def erase_contents(
        self,
        namespace: str,
        contents: Sequence[tuple[str, int]],
        prefixes: Sequence[tuple[str, int, bytes]],
        record: PendingAppend,
        nodes: Iterable[bytes],
        artifacts: Iterable[bytes],
        inboxes: Sequence[str] = (),
    ) -> None:
        with self._lock:
            nodes, artifacts = list(nodes), list(artifacts)
            for run, seq in [*((run, 0) for run in inboxes), *contents, *((run, seq) for run, seq, _ in prefixes)]:
                if seq != 0 and self._get(namespace, run).index(seq) is None:
                    raise NotFound(f"no event {seq} in run {run!r} of namespace {namespace!r}")
                self._get(namespace, run)
            self._check(record.namespace, record.run, record.events, record.expected, record.epoch)
            for run, seq in contents:
                found = self._get(namespace, run)
                found.snapshots.clear()
                if seq == 0:
                    found.header = found.header._replace(salt=None, match=None, content=None)
                else:
                    at = bisect_left(found.seqs, seq)
                    found.events[at] = found.events[at]._replace(salt=None, match=None, content=None)
            for run, seq, prefix in prefixes:
                found = self._get(namespace, run)
                found.snapshots.clear()
                at = bisect_left(found.seqs, seq)
                found.events[at] = found.events[at]._replace(prefix=prefix)
            for run in inboxes:
                self._get(namespace, run).inbox.clear()
                self._forget_arrivals(namespace, run)
            self._remove_values(namespace, nodes, artifacts)
            self._add(record.namespace, record.run, record.events, record.nodes)

    def _remove_values(self, namespace: str, nodes: list[bytes], artifacts: list[bytes]) -> None:
        space = self._space(namespace)
        for address in nodes:
            space.nodes.pop(address, None)
        for address in artifacts:
            space.artifacts.pop(address, None)


def _put_nodes(space: _Space, nodes: Sequence[NodeRow]) -> None:
    for node in nodes:
        space.nodes.setdefault(node.address, bytes(node.blob))


def _run_row(run: _Run) -> RunRow:
    last = run.events[-1]._replace(content=None) if run.events else None
    return RunRow(run.header, last, run.epoch)


def _check_limit(limit: int) -> None:
    if limit < 0:
        raise InvalidInput(f"a limit must not be negative: {limit}")


# A lock that another thread holds during a fork would stay locked in the child forever, so a fork waits for all of
# them.
_alive: weakref.WeakSet[MemoryStore] = weakref.WeakSet()
_held: list[MemoryStore] = []


def _before_fork() -> None:
    for store in list(_alive):
        store._lock.acquire()
        _held.append(store)


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop()._lock.release()


def _after_fork_in_child() -> None:
    while _held:
        _held.pop()._lock = threading.RLock()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
