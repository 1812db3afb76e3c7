"""An agent that writes to a store, and the check of what a crash left there."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from onrecord.core.events import (
    ActionRequested,
    ActionSucceeded,
    ChunkReceived,
    Event,
    SignalReceived,
    StateUpdated,
    ValuesDrawn,
)
from onrecord.core.state import StateUpdatedOnlyReducer
from onrecord.journal.chain import Draft
from onrecord.journal.journal import Journal
from onrecord.journal.reader import SequencedEvent
from onrecord.journal.snapshots import take_snapshot
from onrecord.journal.verify import VerificationReport, verify_run
from onrecord.store.sqlite.store import SqliteStore

# The agent

Ack = Callable[[list[tuple[int, str]], bool], None]
"""Receives (seq, hash) of a batch after `append` returned, and whether the batch was synced."""

PERSONA = "You are a careful assistant. " * 30


class Agent:
    """Writes what agents write, in any order: single events, batches, conversations that share their past, artifacts,
    snapshots, appends that do not wait for the disk."""

    def __init__(self, journal: Journal, rng: random.Random, ack: Ack) -> None:
        self.journal = journal
        self._rng = rng
        self._ack = ack
        self._talk: list[dict[str, str]] = [{"role": "system", "content": PERSONA}]
        self._name = rng.randbytes(6).hex()
        self._count = 0
        self._moves = [self._signal, self._batch, self._call, self._state, self._snapshot, self._artifact]

    def step(self) -> None:
        (move,) = self._rng.choices(self._moves, weights=[8, 5, 6, 3, 1, 1])
        move()

    def append(self, *events: Event) -> list[SequencedEvent]:
        sync = self._rng.random() < 0.7
        done = self.journal.append([Draft(event) for event in events], sync=sync)
        self._ack([(one.seq, one.hash) for one in done], sync)
        return done

    def _fresh(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"

    def _signal(self) -> None:
        self.append(SignalReceived(name=self._fresh(), payload=self._rng.random()))

    def _batch(self) -> None:
        self.append(*(ValuesDrawn(draws=[self._fresh(), n]) for n in range(self._rng.randint(2, 12))))

    def _call(self) -> None:
        action = self._fresh()
        self._talk.append({"role": "user", "content": action + "?" * self._rng.choice((10, 700, 5000))})
        self.append(ActionRequested(action_id=action, payload={"messages": self._talk}, name="ask"))
        if self._rng.random() < 0.5:
            self.append(ChunkReceived(action_id=action, index=0, chunk="4"))
        self.append(ActionSucceeded(action_id=action, output={"text": action * 5, "usage": [1, 2.5]}))

    def _state(self) -> None:
        self.append(StateUpdated(payload={"turn": self._fresh(), "talk": self._talk[-2:]}))

    def _snapshot(self) -> None:
        state = {"kept": self._fresh()}
        done = self.append(StateUpdated(payload=state))
        take_snapshot(self.journal, StateUpdatedOnlyReducer(), state, done[-1].seq)
        voucher = self.journal.event(done[-1].seq + 1)
        self._ack([(voucher.seq, voucher.hash)], True)

    def _artifact(self) -> None:
        data = self._rng.randbytes(16) * self._rng.randint(4200, 5000)
        self.append(SignalReceived(name="file", payload=data))


# What is left


def check_acknowledged(store: SqliteStore, run: str, acked: dict[int, bytes]) -> None:
    there = {row.seq: row.hash for row in store.scan("default", run, contents=False)}
    lost = sorted(seq for seq in acked if seq not in there)
    assert not lost, f"acknowledged and gone: {lost[:10]} of run {run}, which ends at {max(there, default=0)}"
    changed = sorted(seq for seq, digest in acked.items() if there[seq] != digest)
    assert not changed, f"acknowledged with another hash: {changed[:10]} of run {run}"


def check_valid(store: SqliteStore, run: str, *, deep: bool = False) -> VerificationReport:
    report = verify_run(store, run, deep=deep)
    assert report.valid, (report.line, report.problems[:5])
    return report


def go_on(store: SqliteStore, run: str, acked: dict[int, bytes]) -> None:
    """Take the run over and append: the lease of a dead holder does not refuse that."""
    with Journal.open(store, run) as journal:
        (done,) = journal.append(SignalReceived(name="went on", payload=None))
        acked[done.seq] = bytes.fromhex(done.hash[7:])


def open_run(store: SqliteStore, run: str) -> Journal:
    return Journal.create(store, run) if store.run_row("default", run) is None else Journal.open(store, run)


def check_crash_site(path: Path, runs: dict[str, dict[int, bytes]], *, deep: bool = False) -> None:
    """Open the file anew: nothing acknowledged is lost, everything verifies, and every run goes on."""
    store = SqliteStore(path)
    try:
        for run, acked in runs.items():
            if store.run_row("default", run) is None:
                assert not acked, f"run {run} is gone with {len(acked)} acknowledged events"
                Journal.create(store, run).release()
            check_acknowledged(store, run, acked)
            go_on(store, run, acked)
            check_valid(store, run, deep=deep)
    finally:
        store.close()
