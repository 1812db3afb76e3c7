"""What the tests of the journal share: runs to begin with, and ways to damage them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from golden.vectors import FixedSources
from onrecord.core.codec import decode, encode
from onrecord.core.events import ActionRequested, ActionSucceeded, Completed, Event, StateUpdated
from onrecord.core.packing import pack, unpack
from onrecord.journal.export import export_lines
from onrecord.journal.journal import Draft, Journal
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import EventRow, SnapshotRow, Store

NS = "default"


def begin(store: Store, run: str = "r1", **more: Any) -> Journal:
    more.setdefault("sources", FixedSources(run))
    return Journal.create(store, run, **more)


def call(number: int, payload: Any = None, output: Any = None) -> list[Event]:
    name = f"a{number}"
    return [ActionRequested(name, payload if payload is not None else {"q": number}), ActionSucceeded(name, output)]


def small_run(store: Store, run: str = "r1", **more: Any) -> Journal:
    """Six events: two states, one call with a shared value, an end."""
    journal = begin(store, run, **more)
    journal.append(StateUpdated({"n": 1}, step_id="s1"))
    journal.append(call(1, {"text": "word " * 220}, "four"))
    journal.append([StateUpdated({"n": 2}), ActionRequested("a2", None), Completed("done")])
    return journal


def rows_of(store: Store, run: str = "r1") -> list[EventRow]:
    return list(store.scan(NS, run))


def export(store: Store, run: str = "r1", namespace: str = NS) -> bytes:
    return b"".join(line + b"\n" for line in export_lines(JournalReader(store, run, namespace)))


def written(path: Path, data: bytes | Sequence[bytes]) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else b"".join(line + b"\n" for line in data))
    return path


def everything(store: Store, namespace: str = NS) -> list[Any]:
    """All that a namespace holds, to show that nothing was written."""
    found: list[Any] = []
    for run in [*(row.header.run for row in store.list_runs(namespace, limit=1000)), "operations"]:
        row = store.run_row(namespace, run)
        if row is not None:
            found.append((row.header, list(store.scan(namespace, run)), store.snapshots(namespace, run)))
    found.append(sorted(store.all_nodes(namespace)))
    found.append(sorted(store.all_artifacts(namespace)))
    return found


class Altered:
    """A store as somebody left it who could write to its files: reading shows what is given here instead."""

    def __init__(
        self,
        store: Store,
        run: str = "r1",
        *,
        rows: Sequence[EventRow] | None = None,
        header: Mapping[str, Any] | None = None,
        nodes: Mapping[bytes, bytes | None] | None = None,
        artifacts: Mapping[bytes, bytes | None] | None = None,
        snapshots: Callable[[list[SnapshotRow]], list[SnapshotRow]] = lambda rows: rows,
    ) -> None:
        self._store, self._run = store, run
        self._rows = list(rows) if rows is not None else None
        self._header, self._nodes = dict(header or {}), dict(nodes or {})
        self._artifacts, self._snapshots = dict(artifacts or {}), snapshots
        self.url, self.durability = "memory://altered", store.durability

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _own(self, run: str) -> list[EventRow] | None:
        return self._rows if run == self._run else None

    def run_row(self, namespace: str, run: str) -> Any:
        row = self._store.run_row(namespace, run)
        if row is None or run != self._run:
            return row
        return row._replace(header=row.header._replace(**self._header), last=self.last_event(namespace, run))

    def scan(
        self, namespace: str, run: str, start: int = 1, stop: int | None = None, **more: Any
    ) -> Iterator[EventRow]:
        own = self._own(run)
        if own is None:
            yield from self._store.scan(namespace, run, start, stop, **more)
            return
        for row in own:
            if row.seq >= start and (stop is None or row.seq < stop):
                yield row if more.get("contents", True) else row._replace(content=None)

    def event(self, namespace: str, run: str, seq: int) -> EventRow | None:
        own = self._own(run)
        if own is None:
            return self._store.event(namespace, run, seq)
        return next((row for row in own if row.seq == seq), None)

    def last_event(self, namespace: str, run: str) -> EventRow | None:
        own = self._own(run)
        if own is None:
            return self._store.last_event(namespace, run)
        return own[-1] if own else None

    def nodes(self, namespace: str, addresses: Sequence[bytes]) -> dict[bytes, bytes]:
        found = {**self._store.nodes(namespace, addresses)}
        for address in addresses:
            if address in self._nodes:
                found.pop(address, None)
                if (blob := self._nodes[address]) is not None:
                    found[address] = blob
        return found

    def artifact(self, namespace: str, address: bytes) -> bytes | None:
        if address in self._artifacts:
            return self._artifacts[address]
        return self._store.artifact(namespace, address)

    def snapshots(self, namespace: str, run: str) -> list[SnapshotRow]:
        return self._snapshots(self._store.snapshots(namespace, run))


def flipped(data: bytes, at: int = -1, mask: int = 1) -> bytes:
    changed = bytearray(data)
    changed[at] ^= mask
    return bytes(changed)


def with_content(row: EventRow, change: Callable[[bytes], bytes]) -> EventRow:
    assert row.content is not None
    return row._replace(content=pack(change(unpack(row.content))))


class Counting:
    """A reducer that adds up what it is shown and counts how often it was asked. State: {"sum", "seen"}."""

    id = "counting/1"
    state_version = 1

    def __init__(self) -> None:
        self.applied = 0

    def initial(self) -> Any:
        return {"sum": 0, "seen": []}

    def apply(self, state: Any, event: Event) -> Any:
        self.applied += 1
        if not isinstance(event, StateUpdated):
            return state
        return {"sum": state["sum"] + 1, "seen": [*state["seen"], event.payload]}


def crafted(events: Sequence[tuple[str, bytes]], **changes: Any) -> bytes:
    """A recording written by hand from docs/format.md: kinds and stored texts, every hash right.

    `changes`: `links` (seq → members to replace), `nodes` (lines before the first content), `lines` (seq → lines
    before its content), `facts`, `match` (kind, stored) → digest, `rules`. So a file can be hostile and
    yet chain perfectly.
    """

    def digest(tag: str, *parts: bytes) -> bytes:
        return hashlib.sha256(f"onrecord.{tag}/1".encode() + b"\0" + b"".join(parts)).digest()

    def text(value: bytes) -> str:
        return "sha256:" + value.hex()

    def canonical(value: dict[str, Any]) -> bytes:
        import json

        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    match_of = changes.get("match") or (lambda kind, stored: match_digest(kind, stored))
    salt = bytes(range(16))
    facts = changes.get("facts", b'{"agent":"crafted"}')
    facts_match = match_digest("Header", facts) if "facts_match" not in changes else changes["facts_match"]
    header = canonical(
        {
            "content": text(digest("commit", salt, facts_match, facts)),
            "created": 1_763_236_044_000_000,
            "format": "onrecord/1",
            "kind": "run",
            "namespace": "default",
            "parent": None,
            "reducer": "replace/1",
            "rules": changes.get("rules", "onrecord.rules/1"),
            "run": changes.get("run", "crafted"),
        }
        | changes.get("header", {})
    )
    prev = digest("header", header)
    lines = [
        b'{"onrecord":"recording","format":1,"header":%s,"salt":"%s","match":"%s","hash":"%s","stored":%s}'
        % (header, salt.hex().encode(), text(facts_match).encode(), text(prev).encode(), facts)
    ]
    lines += changes.get("nodes", [])
    links = []
    for seq, (kind, stored) in enumerate(events, 1):
        lines += changes.get("lines", {}).get(seq, [])
        lines.append(b'{"seq":%d,"kind":"%s","stored":%s}' % (seq, kind.encode(), stored))
        match = match_of(kind, stored)
        link = canonical(
            {
                "content": text(digest("commit", salt, match, stored)),
                "id": f"e{seq}",
                "key": None,
                "kind": kind,
                "lane": "main",
                "parent": None,
                "prev": text(prev),
                "run": changes.get("run", "crafted"),
                "seq": seq,
                "time": 1_763_236_044_000_000 + seq,
            }
            | changes.get("links", {}).get(seq, {})
        )
        prev = digest("link", link)
        links.append(
            b'{"link":%s,"salt":"%s","match":"%s","hash":"%s"}'
            % (link, salt.hex().encode(), text(match).encode(), text(prev).encode())
        )
    end = b'{"end":{"events":%d,"head":"%s"}}' % (len(events), text(prev).encode())
    return b"".join(line + b"\n" for line in [*lines, *links, end])


def match_digest(kind: str, stored: bytes) -> bytes:
    """Of a content without references; anything where that has no answer gets zeros."""
    from onrecord.core.canonical import parse_stored
    from onrecord.core.matching import MatchRules

    try:
        return MatchRules().match(kind, parse_stored(stored))
    except Exception:
        return bytes(32)


def node_line(stored: bytes) -> tuple[str, bytes]:
    address = "sha256:" + hashlib.sha256(b"onrecord.node/1\0" + stored).hexdigest()
    return address, b'{"node":"%s","stored":%s}' % (address.encode(), stored)


__all__ = [
    "NS",
    "Altered",
    "Counting",
    "Draft",
    "FixedSources",
    "begin",
    "call",
    "crafted",
    "decode",
    "encode",
    "everything",
    "export",
    "flipped",
    "node_line",
    "rows_of",
    "small_run",
    "with_content",
    "written",
]
