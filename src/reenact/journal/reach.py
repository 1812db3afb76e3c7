"""Which contents reach which shared values: the ground of retention and erasure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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


def parts_of(store: Store, namespace: str, contents: Iterable[Content]) -> Parts:
    """Every node and artifact that these contents reach."""
    reader = NodeReader(store, namespace)
    nodes: set[bytes] = set()
    artifacts: set[bytes] = set()
    for content in contents:
        _collect(content.stored, reader, nodes, artifacts)
    for row in all_runs(store, namespace):
        for snapshot in store.snapshots(namespace, row.header.run):
            _artifacts(unpack(snapshot.blob), artifacts)
    return Parts(nodes, artifacts)


def _collect(stored: bytes, reader: NodeReader, nodes: set[bytes], artifacts: set[bytes]) -> None:
    stack = [stored]
    while stack:
        text = stack.pop()
        _artifacts(text, artifacts)
        fresh = [address for address in dict.fromkeys(references_in(text)) if address not in nodes]
        if fresh:
            nodes.update(fresh)
            stack.extend(reader.fetch(fresh).values())


def _artifacts(text: bytes, artifacts: set[bytes]) -> None:
    artifacts.update(artifacts_in(text))


class DeadParts:
    """Of the candidates, those that no content reaches which stays.

    They are looked for only when the store asks for the first one, inside its transaction: nobody can begin to use a
    part in between.
    """

    def __init__(self, store: Store, namespace: str, going: Callable[[str, int], bool], candidates: Parts) -> None:
        self._store = store
        self._namespace = namespace
        self._going = going
        self._candidates = candidates
        self._living: Parts | None = None

    def nodes(self) -> Iterator[bytes]:
        yield from self._candidates.nodes - self._find_living().nodes

    def artifacts(self) -> Iterator[bytes]:
        yield from self._candidates.artifacts - self._find_living().artifacts

    def _find_living(self) -> Parts:
        if self._living is None:
            contents = all_contents(self._store, self._namespace)
            staying = (content for content in contents if not self._going(content.run, content.seq))
            self._living = parts_of(self._store, self._namespace, staying)
        return self._living
