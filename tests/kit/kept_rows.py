"""A recording held as plain rows, so that one can be altered and everything verified, a hundred thousand times."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from onrecord.core.events import (
    ActionDenied,
    ActionFailed,
    ActionRequested,
    ActionSucceeded,
    AttemptRecorded,
    BudgetReserved,
    ChunkReceived,
    Completed,
    EffectSettled,
    FilesObserved,
    FilesWritten,
    InputSent,
    Interrupted,
    OutputPrinted,
    ProcessAttached,
    Resumed,
    RunReleased,
    SignalReceived,
    StateUpdated,
    TurnTaken,
    ValuesDrawn,
    WaitCreated,
    WaitResolved,
)
from onrecord.core.matching import MatchRules
from onrecord.core.state import StateUpdatedOnlyReducer
from onrecord.journal.chain import Draft
from onrecord.journal.content_checks import ContentChecks
from onrecord.journal.findings import Problem, RangeResult
from onrecord.journal.journal import Journal
from onrecord.journal.range_checks import RangeVerifier
from onrecord.journal.reader import check_node
from onrecord.journal.snapshots import take_snapshot
from onrecord.store.contract import EventRow, NodeRow, RunRow, SnapshotRow, Store

NAMESPACE = "default"
_NOTHING = f"sha256:{hashlib.sha256().hexdigest()}"


class Rows:
    """Reads like a store. `events`, `nodes`, `artifacts`, `snapshots` and `header` may be altered at will."""

    url = "memory://rows"
    durability = "full"

    def __init__(self, store: Store, run: str) -> None:
        found = store.run_row(NAMESPACE, run)
        assert found is not None
        self.run = run
        self.header = found.header
        self.events: list[EventRow] = list(store.scan(NAMESPACE, run))
        self.nodes_kept = {node.address: node.blob for node in store.all_nodes(NAMESPACE)}
        self.artifacts = {address: store.artifact(NAMESPACE, address) for address in store.all_artifacts(NAMESPACE)}
        self.snapshots_kept: list[SnapshotRow] = store.snapshots(NAMESPACE, run)

    def close(self) -> None: ...

    def _is_mine(self, run: str) -> bool:
        return run == self.run

    def run_row(self, namespace: str, run: str) -> RunRow | None:
        return RunRow(self.header, self.last_event(namespace, run), 0) if self._is_mine(run) else None

    def last_event(self, namespace: str, run: str) -> EventRow | None:
        return max(self.events, key=lambda row: row.seq, default=None)

    def event(self, namespace: str, run: str, seq: int) -> EventRow | None:
        if 0 < seq <= len(self.events) and self.events[seq - 1].seq == seq:
            return self.events[seq - 1]
        return next((row for row in self.events if row.seq == seq), None)

    def scan(
        self, namespace: str, run: str, start: int = 1, stop: int | None = None, *, contents: bool = True
    ) -> Iterator[EventRow]:
        return (row for row in self.events if row.seq >= start and (stop is None or row.seq < stop))

    def nodes(self, namespace: str, addresses: Sequence[bytes]) -> dict[bytes, bytes]:
        return {address: self.nodes_kept[address] for address in addresses if address in self.nodes_kept}

    def all_nodes(self, namespace: str) -> Iterator[NodeRow]:
        return (NodeRow(*item) for item in self.nodes_kept.items())

    def artifact(self, namespace: str, address: bytes) -> bytes | None:
        return self.artifacts.get(address)

    def snapshots(self, namespace: str, run: str) -> list[SnapshotRow]:
        return self.snapshots_kept


class Stretch:
    """Verifies the event at one seq and the one after it, in what stands before them as it was recorded."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._before: list[tuple[bytes, dict[str, tuple[int, bytes]]]] = []
        prev = rows.header.hash
        lanes: dict[str, tuple[int, bytes]] = {}
        for row in rows.events:
            self._before.append((prev, dict(lanes)))
            prev = row.hash
            if row.lane_seq is not None and row.prefix is not None:
                lanes[row.lane] = (row.lane_seq, row.prefix)

    def problems(self, altered: EventRow) -> list[Problem]:
        rows, seq = self._rows, altered.seq
        prev, lanes = self._before[seq - 1]

        def fetch(addresses: Any) -> dict[bytes, bytes]:
            return {address: check_node(address, blob) for address, blob in rows.nodes("", addresses).items()}

        def place(at: int) -> tuple[str, int | None] | None:
            found = rows.event("", "", at)
            return None if found is None else (found.lane, found.lane_seq)

        contents = ContentChecks(
            RangeResult(seq, seq + 2), fetch_nodes=fetch, fetch_artifact=rows.artifacts.get, rules=MatchRules()
        )
        verifier = RangeVerifier(
            contents,
            run=rows.run,
            prev=prev,
            lanes=dict(lanes),
            find_lane_position=place,
            is_erasure_recorded=lambda _: False,
        )
        verifier.feed([altered, *rows.events[seq : seq + 1]])
        return verifier.result.problems


def flipped(data: bytes, bit: int) -> bytes:
    altered = bytearray(data)
    altered[bit // 8] ^= 1 << bit % 8
    return bytes(altered)


def record_every_kind(store: Store, run: str = "small", *, end: bool = True) -> None:
    """A small run with an event of every kind a run may hold but two of the three endings."""
    journal = Journal.create(
        store,
        run,
        facts={
            "agent": "demo",
            "prompt": "p" * 900 + "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(4)),
        },
    )
    long = [{"role": "system", "content": "s" * 1120}]
    state = {"a": 1}
    for event in (
        ProcessAttached(process={"pid": 1}),
        SignalReceived(name="go", payload=1),
        ActionRequested(action_id="a", payload={"messages": long}, name="ask", effect="model_call"),
        AttemptRecorded(action_id="a", attempt=1, status="ok"),
        ChunkReceived(action_id="a", index=0, chunk="4"),
        ActionSucceeded(action_id="a", output="4"),
        ActionRequested(action_id="b", payload=long),
        ActionFailed(action_id="b", error="no"),
        ActionDenied(action_id="c", reason="policy"),
        ActionRequested(action_id="d", payload=None),
        EffectSettled(action_id="d", decision="retry", by="me"),
        Interrupted(value="?"),
        Resumed(value=True),
        WaitCreated(wait_id="w", name="mail"),
        WaitResolved(wait_id="w", resolution={"ok": 1.5}),
        TurnTaken(turns=[1, 2]),
        ValuesDrawn(draws=[["time", 1]]),
        BudgetReserved(action_id="d", amounts={"cost": 1}),
        InputSent(action_id="d", size=1, digest=_NOTHING),
        OutputPrinted(stream="stdout", size=0, digest=_NOTHING),
        FilesObserved(looks=[{"path": "a", "look": "open", "version": {"kind": "absent"}, "cause": "first"}]),
        FilesWritten(files=[{"path": "a", "version": {"kind": "absent"}}]),
        RunReleased(epoch=1, due=[2]),
        SignalReceived(name="file", payload=bytes(range(256)) * 257),
        StateUpdated(payload=state),
    ):
        journal.append(event)
    take_snapshot(journal, StateUpdatedOnlyReducer(), state, journal.head().seq)
    journal.append(
        [Draft(StateUpdated(payload={"b": 2})), Draft(SignalReceived(name="x", payload=2), lane="main>a", key="k")]
    )
    if end:
        journal.append(Completed(output="4"))
    journal.release()


def record_much(store: Store, events: int, run: str = "large") -> None:
    journal = Journal.create(store, run, facts={"agent": "demo"})
    talk: list[dict[str, str]] = []
    batch: list[Draft] = []
    while journal.head().seq < events:
        for number in range(60):
            action = f"a{journal.head().seq}-{number}"
            talk = [*talk[-8:], {"role": "user", "content": f"{action} " * 24}]
            lane = "main" if number % 3 else f"main>a#{number % 5 + 1}"
            batch.append(Draft(ActionRequested(action_id=action, payload={"messages": talk}, name="ask"), lane=lane))
            batch.append(Draft(ValuesDrawn(draws=[number])))
            batch.append(Draft(ActionSucceeded(action_id=action, output={"text": action}), lane=lane))
            if number % 10 == 0:
                batch.append(Draft(StateUpdated(payload={"at": action}), lane=lane))
        journal.append(batch, sync=False)
        batch = []
    journal.append(Completed(output=None))
    journal.release()


__all__ = ["NAMESPACE", "Rows", "Stretch", "flipped", "record_every_kind", "record_much"]
