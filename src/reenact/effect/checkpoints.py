"""Checkpoints: a run that comes back begins behind the last one, and costs what came after it, not its whole history.

1. A checkpoint says that everything the agent still needs is in its state: to go on behind it and to begin with what
   `restored` gives are the same. So it is allowed only where the run is alone, with nothing of its own under way.
2. It is a state of the record like any other, written with whatever waits to be written, in one durable commit. Behind
   it the agent is in a new lane (`lanes`), which needs nothing of what was before.
3. A snapshot is taken with it, and tells where to begin. Without one the run begins at its beginning, or at an older
   checkpoint, and passes this one: the record has it, and the state has to be the same.
4. A replay always begins at the beginning.
"""

from __future__ import annotations

from contextlib import suppress
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from reenact.core.codec import encode
from reenact.core.events import ProcessAttached, StateUpdated
from reenact.core.state import StateUpdatedOnlyReducer
from reenact.effect.boundary import outside
from reenact.effect.divergences import conflicting_state, unrecorded_checkpoint
from reenact.effect.earlier import Carrier, carried_by, keys_out, left_behind, snapshots_at_checkpoints
from reenact.effect.lanes import Lane
from reenact.effect.outcomes import own_copy
from reenact.effect.places import HERE, PLACE, Inside
from reenact.effect.recorded import CHECKPOINT, RecordedCheckpoint, RecordedLane
from reenact.effect.turns import LOOK_SECONDS
from reenact.errors import InvalidInput, ReenactError
from reenact.journal.chain import Draft
from reenact.journal.snapshots import Vouched, keep_snapshot, vouch_for

if TYPE_CHECKING:
    from reenact.effect.live_run import LiveRun

SNAPSHOTS_KEPT = 2
"""The last one, and one in case that it cannot be trusted."""
PATIENCE_SECONDS = 1.0
_REDUCER = StateUpdatedOnlyReducer()


def checkpoint(state: Any) -> None:
    """A process that comes back may begin here, with `restored()` giving this state. It is also what `state()` gives.

    Everything that the agent has started must have ended: tasks, threads, timers, effects."""
    place = PLACE.get()
    if isinstance(place, Inside):
        raise InvalidInput(
            "an effect has no checkpoints: it is done again as a whole, or not at all",
            hint="Call `checkpoint` in the agent itself, between its effects.",
            code="checkpoint_in_effect",
        )
    if type(place) is not Lane:
        outside("checkpoint")
        return
    if not encode(state).replayable:
        raise InvalidInput(
            "the state of a checkpoint has something in it of which there is no value to begin with",
            hint="Keep data in it, and make clients, locks and the like anew.",
            code="state_without_value",
        )
    _wait_for_ending_threads(place.run)
    with place.run.lock:
        _checkpoint(place.run, place, StateUpdated(own_copy(state), CHECKPOINT))


def restored() -> Any:
    """The state of the last checkpoint, with which the agent's code has to go on; None at the beginning of a run."""
    lane = PLACE.get()
    if type(lane) is Lane:
        return own_copy(lane.run.restored)
    outside("restored")
    return None


def _checkpoint(run: LiveRun, lane: Lane, event: StateUpdated) -> None:
    run.check_going_on()
    if lane.left:
        raise left_behind()
    if lane is not run.main or run.carrier != Carrier.here():
        raise InvalidInput(
            "a checkpoint was asked for in a task, thread or loop that the agent has started",
            hint="Call `checkpoint` in the agent's own code, where everything else has ended.",
            code="checkpoint_in_branch",
        )
    if run.turns.loop is None and HERE.token is None:
        run.cancelling.tell()
    if run.coming_back is not None:
        run.coming_back.go_live_if_over()
    if not run.is_alone:
        raise InvalidInput(
            "a checkpoint was asked for while something of the run is under way: whoever begins there would miss it",
            hint="Await the tasks and effects, join the threads and cancel the timers that were started, then call it.",
            code="checkpoint_not_alone",
        )
    recorded = _recorded_here(run)
    if recorded is not None and not _is_same(run, recorded, event):
        _diverged(run, conflicting_state(run, recorded, event))
    elif recorded is not None:
        return _pass(run, lane, recorded, event)
    elif not run.is_live:
        _diverged(run, unrecorded_checkpoint(run, lane, event))
    return _write(run, lane, event)


def _recorded_here(run: LiveRun) -> RecordedCheckpoint | None:
    """The checkpoint that the record has next, once everything before it has been made again."""
    entry = run.turns.next_recorded()
    return entry if isinstance(entry, RecordedCheckpoint) and run.first_unmade() > entry.seq else None


def _is_same(run: LiveRun, recorded: RecordedCheckpoint, event: StateUpdated) -> bool:
    assert run.coming_back is not None
    return recorded.row.match in (None, run.coming_back.asked(run.secrets.without(event)).match)


def _diverged(run: LiveRun, reason: ReenactError) -> None:
    """Changed code may be accepted: then the record ends here, and the run is live."""
    if not run.accept_changes():
        run.stop_here(reason)


def _wait_for_ending_threads(run: LiveRun) -> None:
    """Nothing tells when a thread ends that nobody joins. If it had ended when this was recorded, it soon will have."""
    until = monotonic() + PATIENCE_SECONDS
    while run.book.has_threads() and monotonic() < until:
        with run.lock:
            if _recorded_here(run) is None:
                return
        sleep(LOOK_SECONDS)


def _pass(run: LiveRun, lane: Lane, recorded: RecordedCheckpoint, event: StateUpdated) -> None:
    assert run.past is not None
    assert run.turns.order is not None
    run.turns.order.take(recorded)
    run.reached(recorded.time)
    _go_on(run, lane, event, recorded.seq, run.past.lane(recorded.lane))
    if run.coming_back is not None:
        run.coming_back.go_live_if_over()


def _write(run: LiveRun, lane: Lane, event: StateUpdated) -> None:
    assert run.journal is not None
    carried, seq = carried_by(run, lane), run.next_seq
    vouched = vouch_for(run.journal, _REDUCER, run.secrets.without(event).payload, seq)
    _go_on(run, lane, event, seq, None)
    drafts = [Draft(event, lane=run.main.path or "", key=CHECKPOINT), vouched.draft]
    if carried:
        drafts.append(Draft(ProcessAttached({"checkpoint": seq, "carried": carried})))
    if not run.write(drafts, sync=True):
        run.check_going_on()
    token = HERE.token
    HERE.token = None  # whatever the store waits for is no rest of the agent
    try:
        with suppress(ReenactError):  # without it somebody begins earlier, which changes nothing
            _keep_snapshot(run, vouched)
    finally:
        HERE.token = token


def _keep_snapshot(run: LiveRun, vouched: Vouched) -> None:
    journal = run.journal
    assert journal is not None
    row = journal.store.event(journal.namespace, journal.run, vouched.position)
    assert row is not None
    keep_snapshot(journal, _REDUCER, vouched, row.hash)
    if run.snapshots_kept is None:
        run.snapshots_kept = snapshots_at_checkpoints(journal)
    else:
        run.snapshots_kept.append(vouched.position)
    while len(run.snapshots_kept) > SNAPSHOTS_KEPT:
        journal.store.delete_snapshot(journal.namespace, journal.run, run.snapshots_kept.pop(0))


def _go_on(run: LiveRun, lane: Lane, event: StateUpdated, seq: int, recorded: RecordedLane | None) -> None:
    """From here on the agent is in the lane behind the checkpoint."""
    behind = run.book.behind_checkpoint(run.root, recorded)
    behind.keys = {name: (0, identity) for name, identity in keys_out(lane).items()}
    lane.left, run.main = True, behind
    run.turns.begin_behind(seq)
    run.state = run.restored = event.payload
    PLACE.set(behind)
