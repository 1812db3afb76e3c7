"""Checkpoints: a resume begins after the last one and reads only the events after it, not the whole history.

1. At a checkpoint, everything that the agent still needs is in its state: continuing after it and beginning with
   `restored()` are equivalent. So it is allowed only while nothing that the agent started is still running.
2. A checkpoint is a recorded state, written in one durable commit with everything that waits to be written. After it
   the agent is in a new root lane, which needs nothing from before.
3. A snapshot is written with it, from which a resume begins. Without a snapshot, the run begins at an older checkpoint
   or at its beginning, and reaches this checkpoint again: its state must then equal the recorded one.
4. A replay always begins at the beginning.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from onrecord.core.events import ProcessAttached, StateUpdated
from onrecord.core.state import StateUpdatedOnlyReducer, encode_state
from onrecord.errors import InvalidInput, OnrecordError
from onrecord.journal.chain import Draft
from onrecord.journal.snapshots import PendingSnapshot, keep_snapshot, prepare_snapshot
from onrecord.runtime.engine.boundary import is_outside
from onrecord.runtime.engine.context import Lane, current_effect, current_lane, inside
from onrecord.runtime.engine.outcomes import own_copy
from onrecord.runtime.replay.checkpoint_entry import (
    carried_by,
    keep_wait_keys,
    snapshots_at_checkpoints,
    unused_wait_keys,
)
from onrecord.runtime.replay.records import CHECKPOINT, Asked
from onrecord.runtime.scheduler.drivers.strands import LaneTask, Strand

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun

SNAPSHOTS_KEPT = 2
"""The last snapshot, and one more in case it is damaged."""
_REDUCER = StateUpdatedOnlyReducer()


def checkpoint(state: Any) -> None:
    """Write a checkpoint: a resume may begin here, and `restored()` then returns this state. So does `state()`.

    Every task, thread, timer and effect that the agent has started must have ended.
    """
    if current_effect() is not None:
        raise InvalidInput(
            "a checkpoint cannot be written inside an effect: an effect is repeated as a whole, or not at all",
            hint="Call `checkpoint` in the agent itself, between its effects.",
            code="checkpoint_in_effect",
        )
    lane = current_lane()
    if lane is None:
        is_outside("checkpoint")
        return
    encode_state(state)  # refuses a state that could not be restored
    with lane.run.lock:
        _take(lane, StateUpdated(own_copy(state), CHECKPOINT))


def restored() -> Any:
    """Return the state of the last checkpoint, from which the agent must continue; None at the beginning of a run."""
    lane = current_lane()
    if lane is not None:
        return own_copy(lane.run.restored)
    is_outside("restored")
    return None


def _take(lane: Lane, event: StateUpdated) -> None:
    run, strand = lane.run, lane.strand
    run.coordinator.act(strand)
    task = asyncio.current_task() if strand.loop is not None else None
    if lane.name != run.kernel.root or (strand.loop is not None and not isinstance(task, LaneTask)):
        raise InvalidInput(
            "`checkpoint` was called in a task, thread, callback or event loop that the agent has started",
            hint="Call it in the agent's own code, after everything else has ended.",
            code="checkpoint_in_branch",
        )
    if strand.loop is None and strand.adopted is None:
        run.cancellation.check(strand)
    if not run.kernel.is_alone or _has_callbacks(strand):
        raise InvalidInput(
            "`checkpoint` was called while something that the agent started is running: a resume would lose it",
            hint="First await the tasks and effects, join the threads and cancel the timers.",
            code="checkpoint_not_alone",
        )
    if isinstance(task, LaneTask) and _is_to_be_cancelled(task):
        # A process that begins here would not know of the cancellation, so this is a state like any other.
        run.update_state(lane, StateUpdated(event.payload))
        return
    wait_keys = unused_wait_keys(run)
    run.coordinator.checkpoint(lane.name, CheckpointAsked(run, event))
    _enter_next_lane(run, strand, task)
    keep_wait_keys(run, wait_keys)
    run.state = run.restored = event.payload


def _has_callbacks(strand: Strand) -> bool:
    return any(not handle.cancelled() for _, handle in strand.callbacks)


def _is_to_be_cancelled(task: LaneTask) -> bool:
    """Return True if the task gets a `CancelledError` where it next waits."""
    return bool(task._must_cancel)  # type: ignore[attr-defined]


def _enter_next_lane(run: LiveRun, strand: Strand, task: asyncio.Task[Any] | None) -> None:
    """Move the agent into the root lane after the checkpoint, as a process finds it that begins there."""
    root = run.kernel.root
    strand.lane = strand.owner = root
    if isinstance(task, LaneTask):
        task.lane = root
        while task.cancelling():
            task.uncancel()
    run.cancellation.listen_again()


class CheckpointAsked(Asked):
    """A checkpoint, as the record would have it. Its commit holds the snapshot and what is carried, too."""

    def __init__(self, run: LiveRun, event: StateUpdated) -> None:
        super().__init__(run.secrets.redact_event(event), run.rules)
        self._run = run
        self._original = event
        self._carried = carried_by(run)
        self._snapshot: PendingSnapshot | None = None

    def make_drafts(self, lane: str, seq: int) -> list[Draft]:
        """Return the events of the checkpoint, the first of which will be at `seq`."""
        journal = self._run.journal
        assert journal is not None
        with inside():
            self._snapshot = prepare_snapshot(journal, _REDUCER, self.event.payload, seq)  # type: ignore[attr-defined]
        drafts = [Draft(self._original, lane=lane, key=CHECKPOINT), self._snapshot.draft]
        if self._carried:
            drafts.append(Draft(ProcessAttached({"checkpoint": seq, "carried": self._carried})))
        return drafts

    def keep(self) -> None:
        """Store the snapshot: the checkpoint is written. Without a snapshot a resume begins earlier."""
        assert self._snapshot is not None
        with inside(), suppress(OnrecordError):
            _keep_snapshot(self._run, self._snapshot)


def _keep_snapshot(run: LiveRun, snapshot: PendingSnapshot) -> None:
    journal = run.journal
    assert journal is not None
    row = journal.store.event(journal.namespace, journal.run, snapshot.position)
    assert row is not None
    keep_snapshot(journal, _REDUCER, snapshot, row.hash)
    if run.snapshots_kept is None:
        run.snapshots_kept = snapshots_at_checkpoints(journal)
    else:
        run.snapshots_kept.append(snapshot.position)
    while len(run.snapshots_kept) > SNAPSHOTS_KEPT:
        journal.store.delete_snapshot(journal.namespace, journal.run, run.snapshots_kept.pop(0))
