"""Building blocks of the tests: rows of arbitrary bytes, a writer, threads that start together, children."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from onrecord.core.lane_names import ROOT_LANE
from onrecord.store.contract import EventRow, Head, HeaderRow, PendingAppend, Store

NS = "default"


def digest(*parts: object) -> bytes:
    """Return 32 bytes that differ if the parts do."""
    return hashlib.sha256(repr(parts).encode()).digest()


def header_row(run: str = "run-1", created: int = 1, kind: str = "run", body: bytes = b"header") -> HeaderRow:
    return HeaderRow(
        run, kind, created, body + run.encode(), digest("header", run), b"s" * 16, b"m" * 32, b"facts", False
    )


def event_row(
    seq: int,
    run: str = "run-1",
    lane: str = ROOT_LANE,
    lane_seq: int | None = -1,
    content: bytes | None = b"content",
    **more: Any,
) -> EventRow:
    row = EventRow(
        seq,
        f"event-{seq}",
        "StateUpdated",
        lane,
        seq if lane_seq == -1 else lane_seq,
        b"link\x00\xff" + str(seq).encode(),
        digest("event", run, seq),
        b"salt" * 4,
        digest("match", seq),
        digest("prefix", seq),
        content,
    )
    return row._replace(**more)


def event_rows(first: int, last: int, run: str = "run-1", **more: Any) -> list[EventRow]:
    return [event_row(seq, run, **more) for seq in range(first, last + 1)]


def head_of(rows: Sequence[EventRow]) -> Head:
    return Head(rows[-1].seq, rows[-1].hash)


class Writer:
    """Appends to one run and remembers its head, as a journal does."""

    def __init__(self, store: Store, run: str = "run-1", namespace: str = NS, **header: Any) -> None:
        self.store, self.run, self.namespace = store, run, namespace
        row = header_row(run, **header)
        store.create_run(namespace, row)
        self.head = Head(0, row.hash)
        self.epoch = 0

    def append(self, *rows: EventRow, **more: Any) -> None:
        self.store.append(self.namespace, self.run, rows, expected=self.head, epoch=self.epoch, **more)
        self.head = head_of(rows)

    def fill(self, count: int, **more: Any) -> list[EventRow]:
        rows = event_rows(self.head.seq + 1, self.head.seq + count, self.run, **more)
        self.append(*rows)
        return rows

    def pending(self, *rows: EventRow) -> PendingAppend:
        return PendingAppend(self.namespace, self.run, rows, self.head, self.epoch)


def all_rows(store: Store, run: str = "run-1", namespace: str = NS) -> list[EventRow]:
    return list(store.scan(namespace, run))


def at_once(actions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run the actions in threads that start together. Return results or exceptions, in order."""
    barrier = threading.Barrier(len(actions))
    results: list[Any] = [None] * len(actions)

    def run(index: int) -> None:
        barrier.wait()
        try:
            results[index] = actions[index]()
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def in_child(action: Callable[[], Any]) -> int:
    """Run the action in a forked child and return its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
