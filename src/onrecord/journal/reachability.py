"""Which contents reach which shared values: the ground of retention and erasure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import NamedTuple

from reenact.core.links import OPERATIONS_RUN
from reenact.core.packing import unpack
from reenact.core.sharing import artifacts_in, references_in
from reenact.journal.reader import NodeReader
from reenact.store.contract import RunRow, Store

PAGE = 200


class Content(NamedTuple):
    """A living content: seq 0 is the facts of the header."""

    run: str
    seq: int
    stored: bytes


def all_runs(store: Store, namespace: str) -> Iterator[RunRow]:
    """Every run of the namespace, newest first, and then its operations journal."""
    before: tuple[int, str] | None = None
    while page := store.list_runs(namespace, before=before, limit=PAGE):
        yield from page
        before = (page[-1].header.created, page[-1].header.run)
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
    """Every node and artifact that these contents, and the snapshots of these runs, reach."""
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
    """Of the candidates, those that no content reaches which stays.

    They are looked for only when the store asks for the first one, inside its transaction: nobody can begin to use a
    part in between.
    """

    def __init__(
        self,
        store: Store,
        namespace: str,
        going: Callable[[str, int], bool],
        snapshots_going: Container[str],
        candidates: Parts,
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._going = going
        self._snapshots_going = snapshots_going
        self._candidates = candidates
        self._living = Parts(set(), set())
        self.nodes: Iterable[bytes] = _Lazily(self._find_nodes)
        self.artifacts: Iterable[bytes] = _Lazily(self._find_artifacts)
        """To be asked for after the nodes."""

    def _find_nodes(self) -> set[bytes]:
        contents = all_contents(self._store, self._namespace)
        staying = (content for content in contents if not self._going(content.run, content.seq))
        runs = (row.header.run for row in all_runs(self._store, self._namespace))
        keeping = [run for run in runs if run not in self._snapshots_going]
        self._living = parts_of(self._store, self._namespace, staying, keeping)
        return self._candidates.nodes - self._living.nodes

    def _find_artifacts(self) -> set[bytes]:
        return self._candidates.artifacts - self._living.artifacts


class _Lazily:
    """An iterable that is computed anew each time it is gone through: a transaction may be tried again."""

    def __init__(self, find: Callable[[], set[bytes]]) -> None:
        self._find = find

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._find())
