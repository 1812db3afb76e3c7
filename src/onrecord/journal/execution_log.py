"""Views of a run: the execution log and the trace. The journal is the truth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from onrecord.core.events import ActionFailed, ActionRequested, ActionSucceeded, Event, StateUpdated, kind_of
from onrecord.core.state import Reducer, next_state, state_hash
from onrecord.journal.reader import ErasedEvent, JournalReader, SequencedEvent


class KernelTraceEvent(msgspec.Struct, frozen=True):
    """A line of a trace, for audit and observability."""

    run_id: str
    seq: int
    step_id: str | None
    action_id: str | None
    kind: str
    timestamp_ms: int | None = None


class ExecutionLog(msgspec.Struct, frozen=True):
    """An entry of the execution log. `state_hash` is the hash of the state after the event, if requested."""

    thread_id: str
    step_id: str | None
    event_index: int
    event: Event
    state_hash: str | None = None
    time_us: int | None = None

    @classmethod
    def from_sequenced(cls, thread_id: str, sequenced: SequencedEvent, state_hash: str | None = None) -> ExecutionLog:
        event = sequenced.event
        return cls(
            thread_id=thread_id,
            step_id=event.step_id if isinstance(event, StateUpdated) else None,
            event_index=sequenced.seq,
            event=event,
            state_hash=state_hash,
            time_us=sequenced.time or None,
        )

    def to_trace_event(self) -> KernelTraceEvent:
        event = self.event
        action_id = event.action_id if isinstance(event, (ActionRequested, ActionSucceeded, ActionFailed)) else None
        return KernelTraceEvent(
            run_id=self.thread_id,
            seq=self.event_index,
            step_id=self.step_id,
            action_id=action_id,
            kind=event.recorded_kind if isinstance(event, ErasedEvent) else kind_of(event),
            timestamp_ms=None if self.time_us is None else self.time_us // 1000,
        )


def scan_execution_log(reader: JournalReader, start: int = 1) -> Iterator[ExecutionLog]:
    """Yield the log from event `start` on, without state hashes."""
    for sequenced in reader.scan(start):
        yield ExecutionLog.from_sequenced(reader.run, sequenced)


def scan_execution_log_with_state_hashes(
    reader: JournalReader, start: int, initial_state: Any, reducer: Reducer
) -> Iterator[ExecutionLog]:
    """Yield the log with the hash of the state after each event. `initial_state` is the state right before `start`."""
    state = initial_state
    for sequenced in reader.scan(start):
        state = next_state(reducer, state, sequenced.event)
        yield ExecutionLog.from_sequenced(reader.run, sequenced, state_hash(state))


def scan_execution_trace(reader: JournalReader, start: int = 1) -> Iterator[KernelTraceEvent]:
    """Yield a trace line for every event from `start` on."""
    for entry in scan_execution_log(reader, start):
        yield entry.to_trace_event()
