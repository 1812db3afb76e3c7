"""Seed: oris_kernel/kernel/execution_log.rs. Every test case of it under its own name.

Where the seed could not fail it does here: its `matches!` on the last event is asserted, its state hash is public,
canonical and compared with other states. Its trace had no time (`timestamp_ms: None`); a trace that
comes from a store has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onrecord.core.events import ActionRequested, Completed, Event, StateUpdated
from onrecord.core.state import StateUpdatedOnlyReducer, state_hash
from onrecord.journal.execution_log import (
    ExecutionLog,
    scan_execution_log,
    scan_execution_log_with_state_hashes,
    scan_execution_trace,
)
from onrecord.journal.journal import Journal
from onrecord.journal.reader import JournalReader, SequencedEvent
from onrecord.store.contract import Store


@dataclass(frozen=True)
class TestState:
    __test__ = False
    value: int


def recorded(store: Store, run: str, events: list[Event]) -> JournalReader:
    Journal.create(store, run).append(events)
    return JournalReader(store, run)


def test_scan_execution_log_returns_canonical_entries(store: Store) -> None:
    reader = recorded(store, "run-scan", [StateUpdated([1], step_id="n1"), Completed()])
    log = list(scan_execution_log(reader, 1))
    assert len(log) == 2
    assert log[0].thread_id == "run-scan"
    assert log[0].event_index == 1
    assert log[0].step_id == "n1"
    assert log[1].event_index == 2
    assert log[1].event == Completed()
    assert [entry.state_hash for entry in log] == [None, None]
    assert [entry.event_index for entry in scan_execution_log(reader, 2)] == [2]


def test_from_sequenced_state_updated_has_step_id() -> None:
    sequenced = SequencedEvent(seq=1, event=StateUpdated([1], step_id="node-a"))
    log = ExecutionLog.from_sequenced("run-1", sequenced, None)
    assert log.thread_id == "run-1"
    assert log.step_id == "node-a"
    assert log.event_index == 1
    assert log.state_hash is None


def test_from_sequenced_completed_has_no_step_id() -> None:
    log = ExecutionLog.from_sequenced("run-2", SequencedEvent(seq=2, event=Completed()), None)
    assert log.step_id is None
    assert log.event_index == 2


def test_execution_log_converts_to_kernel_trace_event() -> None:
    log = ExecutionLog(
        thread_id="run-trace",
        step_id="node-a",
        event_index=3,
        event=ActionRequested("a1", {"tool": "demo"}),
        state_hash=None,
    )
    trace = log.to_trace_event()
    assert trace.run_id == "run-trace"
    assert trace.seq == 3
    assert trace.step_id == "node-a"
    assert trace.action_id == "a1"
    assert trace.kind == "ActionRequested"
    assert trace.timestamp_ms is None


def test_scan_execution_log_with_state_hashes_populates_hashes(store: Store) -> None:
    reader = recorded(store, "run-hash", [StateUpdated(TestState(1), step_id="n1"), Completed()])
    log = list(scan_execution_log_with_state_hashes(reader, 1, TestState(0), StateUpdatedOnlyReducer()))
    assert len(log) == 2
    assert log[0].state_hash is not None
    assert log[0].state_hash == log[1].state_hash, "Completed should preserve the last projected state hash"
    # The seed would have passed with any constant: the hash is that of the state reached, and no other.
    assert log[0].state_hash == state_hash(TestState(1)) != state_hash(TestState(0))


def test_the_trace_of_a_store_has_real_timestamps(store: Store) -> None:
    reader = recorded(store, "run-time", [StateUpdated(1, step_id="n1"), ActionRequested("a1", None), Completed()])
    trace = list(scan_execution_trace(reader, 1))
    log: list[Any] = list(reader.scan())
    assert [(line.seq, line.kind, line.step_id, line.action_id) for line in trace] == [
        (1, "StateUpdated", "n1", None),
        (2, "ActionRequested", None, "a1"),
        (3, "Completed", None, None),
    ]
    assert [line.timestamp_ms for line in trace] == [event.time // 1000 for event in log]
    assert all(line.timestamp_ms and line.timestamp_ms > 1_700_000_000_000 for line in trace)
