"""What lies before a checkpoint, and how a process comes in behind one without reading it.

1. A process that comes back begins behind the newest checkpoint whose snapshot can be trusted. One that cannot is
   passed over for an older one, and in the end for the beginning of the run: that costs time and changes nothing.
2. Of what was before, only this is still needed: the state, how much was spent, the keys of waits that were given out
   and not waited for, whether there were threads, since the first one takes turns from then on, and what stands in for
   the world. It is on record with the checkpoint.
3. An effect that the agent gave a key of its own is found by that key, however long ago it was. Only for such a key
   that the rest of the record does not have the earlier history is looked through, once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from onrecord.core.events import ANSWERS, OPENING_KINDS
from onrecord.core.links import Link
from onrecord.core.state import StateUpdatedOnlyReducer
from onrecord.core.wait_keys import WaitIdentity
from onrecord.errors import InvalidInput
from onrecord.journal.lineage import Stretch, shared_stretches, stretch_of
from onrecord.journal.reader import JournalReader
from onrecord.runtime.engine.context import HERE
from onrecord.runtime.replay.history import History
from onrecord.runtime.replay.records import CHECKPOINT, Beginning, RecordedAnswer, RecordedRequest
from onrecord.runtime.secrets.run_secrets import replace_secrets

if TYPE_CHECKING:
    from onrecord.journal.journal import Journal
    from onrecord.runtime.api.policy import PolicyGuard
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.runtime.scheduler.lanes import Lane
    from onrecord.store.contract import EventRow


class Carrier(NamedTuple):
    """Where the agent's own code runs: what it starts may look like it, and is not."""

    thread: int
    task: ref[Any] | None

    @classmethod
    def here(cls) -> Carrier:
        task = asyncio.current_task() if asyncio._get_running_loop() is not None else None
        return cls(threading.get_ident(), ref(task) if task is not None else None)

    @classmethod
    def of(cls, task: asyncio.Task[Any]) -> Carrier:
        return cls(threading.get_ident(), ref(task))


def left_behind() -> InvalidInput:
    return InvalidInput(
        "this code was begun before a checkpoint, and belongs to what the run has left behind",
        hint="Begin behind the checkpoint what asks for something there; call `checkpoint` in the agent's own context, "
        "not in a copy of it.",
        code="left_behind",
    )


# Where to begin


def past_to_resume(journal: Journal, guard: PolicyGuard | None) -> History:
    """The record behind the newest checkpoint that a process can begin with, or all of it."""
    for stretch in (Stretch(journal, journal.head().seq, 0), *reversed(shared_stretches(journal))):
        for beginning in _beginnings(stretch):
            past = History.read(journal, beginning)
            if not past.is_dropped and _says_enough(past, guard):
                return past
    return History.read(journal)


def _beginnings(stretch: Stretch) -> Iterator[Beginning]:
    """Checkpoints of that run whose snapshots can be trusted, newest first."""
    from onrecord.journal.snapshots import load_snapshot  # loaded when a run comes back

    reader, at_most = stretch.reader, stretch.last
    while at_most > 0:
        snapshot, _ = load_snapshot(reader, StateUpdatedOnlyReducer(), at_most=at_most)
        if snapshot is None:
            return
        at_most = snapshot.position - 1
        row = reader.store.event(reader.namespace, reader.run, snapshot.position)
        if row is not None and is_checkpoint(reader, row):  # there may be snapshots of another kind
            placed = row if not stretch.shift else stretch.placed(row)[0]
            yield Beginning(placed, snapshot.state, reader.link(row).time)


def snapshots_at_checkpoints(reader: JournalReader) -> list[int]:
    """Where the run has such, oldest first. There may be snapshots of other kinds beside them."""
    store, place = reader.store, (reader.namespace, reader.run)
    found = [store.event(*place, snapshot.seq) for snapshot in store.snapshots(*place)]
    return sorted(row.seq for row in found if row is not None and is_checkpoint(reader, row))


def is_checkpoint(reader: JournalReader, row: EventRow) -> bool:
    return row.kind == "StateUpdated" and reader.link(row).key == CHECKPOINT


def _says_enough(past: History, guard: PolicyGuard | None) -> bool:
    """What was spent before has to be known where it counts: a budget may be newer than the checkpoint."""
    return guard is None or not guard.counts_usage or past.began_at <= 0 or "spent" in (past.carried or {})


def carried_by(run: LiveRun, lane: Lane) -> dict[str, Any]:
    """What a checkpoint in this lane has to say besides the state."""
    carried: dict[str, Any] = {}
    if run.guard is not None and run.guard.counts_usage:
        carried.update(run.guard.to_checkpoint())
    waits = {name: [identity.name, identity.ordinal] for name, identity in keys_out(lane).items()}
    if waits:
        carried["waits"] = waits
    if HERE.token is not None:
        carried["threads"] = True
    if run.substitutes is not None:
        carried["standing_in"] = run.substitutes.policy.to_fact()
    return carried


def keys_out(lane: Lane) -> dict[str, WaitIdentity]:
    """Keys that were given out in this lane, and whose waits have not begun."""
    given = lane.keys or {}
    return {name: one for name, (at, one) in given.items() if lane.waits.get(name, 0) == at}


def come_in_behind(run: LiveRun, past: History, beginning: Beginning) -> None:
    """The run stands behind the checkpoint, as if it had just been passed."""
    row = beginning.row
    lane = run.book.behind_checkpoint(run.root, past.lane(row.lane))
    carried = past.carried or {}
    waits = carried.get("waits", {})
    run.begins_with_threads = "threads" in carried
    lane.keys = {name: (0, WaitIdentity.named(*given)) for name, given in waits.items()}
    run.main, run.root.left = lane, True
    run.turns.begin_behind(row.seq)
    run.reached(beginning.time)
    state = run.secrets.unseal_value(past.reader_of(row), row, beginning.state, needed=run.journal is not None)
    run.state = run.restored = _with_keys(run, lane, state)


def _with_keys(run: LiveRun, lane: Lane, state: Any) -> Any:
    """The state with the keys of waits themselves, for which the record has only names."""
    if not lane.keys or run.journal is None:
        return state
    texts = {}
    for _, identity in lane.keys.values():
        text = run.desk().key(run.name, identity).text
        run.secrets.keep(text, run.stand_in(identity))
        texts[run.stand_in(identity)] = text
    return replace_secrets(state, texts)


# What was before


class EarlierKeys:
    """Requests up to a checkpoint, by their keys."""

    def __init__(self, reader: JournalReader, last: int) -> None:
        self._stretches = [*shared_stretches(reader), Stretch(reader, reader.head().seq, 0)]
        self._last = last
        self._places: dict[str, list[int]] | None = None

    def find(self, key: str) -> RecordedRequest | None:
        """The request under that key with its answer, as if the agent had been handed it."""
        if self._places is None:
            self._places = self._look_through()
        rows = [self._event(position) for position in self._places.get(key, ())]
        if not rows:
            return None
        request, answer = RecordedRequest(*rows[0], 0), rows[-1]
        request.made = True
        if answer is not rows[0]:
            request.answer = RecordedAnswer(*answer)
            request.answer.handed = True
        return request

    def _look_through(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        keys: dict[int, str] = {}
        for stretch in self._stretches:
            for row, link in stretch.rows(contents=False):
                if row.seq > self._last:
                    return places
                if row.kind in OPENING_KINDS:
                    keys[row.seq] = link.key or ""
                    places[link.key or ""] = [row.seq]
                elif row.kind in ANSWERS:
                    places.get(keys.get(link.parent or 0, ""), []).append(row.seq)
                elif row.kind == "ProcessAttached":
                    for seq in self._dropped(stretch, row):
                        places.pop(keys.get(seq + stretch.shift, ""), None)
        return places

    def _dropped(self, stretch: Stretch, row: EventRow) -> list[int]:
        """Requests that changed code did not make any more: their keys are free again."""
        process = getattr(stretch.reader.event(row.seq - stretch.shift).event, "process", None)
        accepted = process.get("accepted") if isinstance(process, dict) else None
        return list(accepted["dropped"]) if isinstance(accepted, dict) else []

    def _event(self, position: int) -> tuple[EventRow, Link]:
        stretch = stretch_of(self._stretches, position)
        reader = stretch.reader
        row = reader.store.event(reader.namespace, reader.run, position - stretch.shift)
        assert row is not None
        return stretch.placed(row)
