"""Checkpoints: a resume begins after the last one and reads only the events after it, not the whole history.

1. At a checkpoint, everything that the agent still needs is in its state: continuing after it and beginning with
   `restored()` are equivalent. So it is allowed only while nothing that the agent started is still running.
2. A checkpoint is a recorded state, written in one durable commit with everything that waits to be written. After it
   the agent is in a new lane, which needs nothing from before.
3. A snapshot is written with it, from which a resume begins. Without a snapshot, the run begins at an older checkpoint
   or at its beginning, and reaches this checkpoint again: its state must then equal the recorded one.
4. A replay always begins at the beginning.
"""

from __future__ import annotations

from contextlib import suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from onrecord.core.events import ProcessAttached, StateUpdated
from onrecord.core.state import StateUpdatedOnlyReducer, encode_state
from onrecord.errors import InvalidInput, OnrecordError
from onrecord.journal.chain import Draft
from onrecord.journal.snapshots import PendingSnapshot, keep_snapshot, prepare_snapshot
from onrecord.runtime.engine.boundary import outside
from onrecord.runtime.engine.context import HERE, PLACE, Inside
from onrecord.runtime.engine.outcomes import own_copy
from onrecord.runtime.replay.checkpoint_entry import (
    Carrier,
    carried_by,
    keys_out,
    left_behind,
    snapshots_at_checkpoints,
)
from onrecord.runtime.replay.divergence import conflicting_state, unrecorded_checkpoint
from onrecord.runtime.replay.records import CHECKPOINT, RecordedCheckpoint, RecordedLane
from onrecord.runtime.scheduler.lanes import Lane
from onrecord.runtime.scheduler.scheduler import LOOK_SECONDS

if TYPE_CHECKING:
    from onrecord.runtime.engine.run import LiveRun

SNAPSHOTS_KEPT = 2
"""The last snapshot, and one more in case it is damaged."""
MAX_WAIT_SECONDS = 1.0
_REDUCER = StateUpdatedOnlyReducer()


def checkpoint(state: Any) -> None:
    """Write a checkpoint: a resume may begin here, and `restored()` then returns this state. So does `state()`.

    Every task, thread, timer and effect that the agent has started must have ended.
    """
    place = PLACE.get()
    if isinstance(place, Inside):
        raise InvalidInput(
            "a checkpoint cannot be written inside an effect: an effect is repeated as a whole, or not at all",
            hint="Call `checkpoint` in the agent itself, between its effects.",
            code="checkpoint_in_effect",
        )
    if type(place) is not Lane:
        outside("checkpoint")
        return
    encode_state(state)  # refuses a state that could not be restored
    _wait_for_threads(place.run)
    with place.run.lock:
        _write_or_pass(place.run, place, StateUpdated(own_copy(state), CHECKPOINT))


def restored() -> Any:
    """Return the state of the last checkpoint, from which the agent must continue; None at the beginning of a run."""
    lane = PLACE.get()
    if type(lane) is Lane:
        return own_copy(lane.run.restored)
    outside("restored")
    return None


def _write_or_pass(run: LiveRun, lane: Lane, event: StateUpdated) -> None:
    run.check_going_on()
    if lane.left:
        raise left_behind()
    if lane is not run.main or run.carrier != Carrier.here():
        raise InvalidInput(
            "`checkpoint` was called in a task, thread or event loop that the agent has started",
            hint="Call it in the agent's own code, after everything else has ended.",
            code="checkpoint_in_branch",
        )
    if run.turns.loop is None and HERE.token is None:
        run.cancelling.tell()
    if run.coming_back is not None:
        run.coming_back.go_live_if_over()
    if not run.is_alone:
        raise InvalidInput(
            "`checkpoint` was called while something that the agent started is running: a resume would lose it",
            hint="First await the tasks and effects, join the threads and cancel the timers.",
            code="checkpoint_not_alone",
        )
    recorded = _find_recorded(run)
    if recorded is not None and not _is_same(run, recorded, event):
        _stop_or_accept(run, conflicting_state(run, recorded, event))
    elif recorded is not None:
        return _pass_recorded(run, lane, recorded, event)
    elif not run.is_live:
        _stop_or_accept(run, unrecorded_checkpoint(run, lane, event))
    return _write(run, lane, event)


def _find_recorded(run: LiveRun) -> RecordedCheckpoint | None:
    """Return the next recorded checkpoint if every request before it has been made again."""
    entry = run.turns.next_recorded()
    return entry if isinstance(entry, RecordedCheckpoint) and run.first_unmade() > entry.seq else None


def _is_same(run: LiveRun, recorded: RecordedCheckpoint, event: StateUpdated) -> bool:
    assert run.coming_back is not None
    return recorded.row.match in (None, run.coming_back.asked(run.secrets.redact_event(event)).match)


def _stop_or_accept(run: LiveRun, reason: OnrecordError) -> None:
    """Stop with the divergence, unless changed code is accepted: then the rest of the record is dropped."""
    if not run.accept_changes():
        run.stop_here(reason)


def _wait_for_threads(run: LiveRun) -> None:
    """Wait briefly until threads end that the agent does not join: they had ended when this was recorded."""
    until = monotonic() + MAX_WAIT_SECONDS
    while run.book.has_threads() and monotonic() < until:
        with run.lock:
            if _find_recorded(run) is None:
                return
        sleep(LOOK_SECONDS)


def _pass_recorded(run: LiveRun, lane: Lane, recorded: RecordedCheckpoint, event: StateUpdated) -> None:
    assert run.past is not None
    assert run.turns.order is not None
    run.turns.order.take(recorded)
    run.reached(recorded.time)
    _enter_next_lane(run, lane, event, recorded.seq, run.past.lane(recorded.lane))
    if run.coming_back is not None:
        run.coming_back.go_live_if_over()


def _write(run: LiveRun, lane: Lane, event: StateUpdated) -> None:
    assert run.journal is not None
    carried, seq = carried_by(run, lane), run.next_seq
    snapshot = prepare_snapshot(run.journal, _REDUCER, run.secrets.redact_event(event).payload, seq)
    _enter_next_lane(run, lane, event, seq, None)
    drafts = [Draft(event, lane=run.main.path or "", key=CHECKPOINT), snapshot.draft]
    if carried:
        drafts.append(Draft(ProcessAttached({"checkpoint": seq, "carried": carried})))
    if not run.write(drafts, sync=True):
        run.check_going_on()
    token = HERE.token
    HERE.token = None  # the store may block this thread, which must not count as rest
    try:
        with suppress(OnrecordError):  # without a snapshot a resume begins earlier, with the same result
            _keep_snapshot(run, snapshot)
    finally:
        HERE.token = token


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


def _enter_next_lane(run: LiveRun, lane: Lane, event: StateUpdated, seq: int, recorded: RecordedLane | None) -> None:
    """Move the agent into the lane after the checkpoint."""
    next_lane = run.book.behind_checkpoint(run.root, recorded)
    next_lane.keys = {name: (0, identity) for name, identity in keys_out(lane).items()}
    lane.left, run.main = True, next_lane
    run.turns.begin_behind(seq)
    run.state = run.restored = event.payload
    PLACE.set(next_lane)
