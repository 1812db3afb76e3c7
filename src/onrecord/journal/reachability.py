"""Find which contents reach which shared values, for retention and erasure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import NamedTuple

from onrecord.core.links import OPERATIONS_RUN
from onrecord.core.merkle import artifacts_in, references_in
from onrecord.core.packing import unpack
from onrecord.journal.reader import NodeReader, each_run
from onrecord.store.contract import RunRow, Store


class Content(NamedTuple):
    """A content that is not erased. Seq 0 is the facts of the header."""

    run: str
    seq: int
    stored: bytes


def all_runs(store: Store, namespace: str) -> Iterator[RunRow]:
    """Yield every run of the namespace, newest first, then its operations journal."""
    yield from each_run(store, namespace)
    operations = store.run_row(namespace, OPERATIONS_RUN)
    if operations is not None:
        yield operations


def contents_of(store: Store, namespace: str, row: RunRow) -> Iterator[Content]:
    if row.header.content is not None:
        yield Content(row.header.run, 0, unpack(row.header.content))
    for event in store.scan(namespace, row.header.run):
        if event.content is not None:
            yield Content(row.header.run, event.seq, unpack(event.content))


def all_contents(store: Store, namespace: str) -> Iterator[Content]:
    for row in all_runs(store, namespace):
        yield from contents_of(store, namespace, row)


class Parts(NamedTuple):
    nodes: set[bytes]
    artifacts: set[bytes]


def parts_of(store: Store, namespace: str, contents: Iterable[Content], snapshot_runs: Iterable[str]) -> Parts:
    """Return every node and artifact that these contents, and the snapshots of these runs, reach."""
    reader = NodeReader(store, namespace)
    nodes: set[bytes] = set()
    artifacts: set[bytes] = set()
    for content in contents:
        _collect(content.stored, reader, nodes, artifacts)
    for run in snapshot_runs:
        for snapshot in store.snapshots(namespace, run):
            artifacts.update(artifacts_in(unpack(snapshot.blob)))
    return Parts(nodes, artifacts)


def _collect(stored: bytes, reader: NodeReader, nodes: set[bytes], artifacts: set[bytes]) -> None:
    stack = [stored]
    while stack:
        text = stack.pop()
        artifacts.update(artifacts_in(text))
        fresh = [address for address in dict.fromkeys(references_in(text)) if address not in nodes]
        if fresh:
            nodes.update(fresh)
            stack.extend(reader.fetch(fresh).values())


class DeadParts:
    """The candidates that no remaining content reaches.

    They are computed when the store iterates over them, inside its transaction, so that no process can begin to use a
    part in between.
    """

    def __init__(
        self,
        store: Store,
        namespace: str,
        is_removed: Callable[[str, int], bool],
        removed_snapshots: Container[str],
        candidates: Parts,
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._is_removed = is_removed
        self._removed_snapshots = removed_snapshots
        self._candidates = candidates
        self._remaining = Parts(set(), set())
        self.nodes: Iterable[bytes] = _ComputedSet(self._find_nodes)
        self.artifacts: Iterable[bytes] = _ComputedSet(self._find_artifacts)
        """Iterate over them after the nodes."""

    def _find_nodes(self) -> set[bytes]:
        contents = all_contents(self._store, self._namespace)
        remaining = (content for content in contents if not self._is_removed(content.run, content.seq))
        runs = (row.header.run for row in all_runs(self._store, self._namespace))
        remaining_runs = [run for run in runs if run not in self._removed_snapshots]
        self._remaining = parts_of(self._store, self._namespace, remaining, remaining_runs)
        return self._candidates.nodes - self._remaining.nodes

    def _find_artifacts(self) -> set[bytes]:
        return self._candidates.artifacts - self._remaining.artifacts


class _ComputedSet:
    """An iterable that is computed at each iteration: a transaction may be retried."""

    def __init__(self, find: Callable[[], set[bytes]]) -> None:
        self._find = find

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._find())
