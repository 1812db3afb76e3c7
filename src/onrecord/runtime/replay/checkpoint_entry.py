"""Begin a run after a checkpoint, without reading what is before it.

1. A resume begins after the newest checkpoint whose snapshot can be trusted. If there is none, the run begins at an
   older checkpoint or at its beginning: that costs time, and the result is the same.
2. Of what was before, only this is needed: the state, how much was spent, the keys of waits that were given out and
   not waited for, and the policy of the tail. A note in the commit of the checkpoint holds it (`carried`).
3. An effect with a key of the caller's own is found by that key, also before the checkpoint. Only for such a key that
   the rest of the record does not have the earlier events are read, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onrecord.core.events import ANSWERS, OPENING_KINDS
from onrecord.core.lane_names import next_root
from onrecord.core.links import Link
from onrecord.core.state import StateUpdatedOnlyReducer
from onrecord.core.wait_keys import WaitIdentity
from onrecord.journal.lineage import Stretch, shared_stretches, stretch_of
from onrecord.journal.reader import JournalReader
from onrecord.runtime.replay.history import History
from onrecord.runtime.replay.records import CHECKPOINT, Beginning, RecordedOutcome, RecordedRequest
from onrecord.runtime.secrets.run_secrets import replace_secrets

if TYPE_CHECKING:
    from onrecord.journal.journal import Journal
    from onrecord.runtime.api.policy import PolicyGuard
    from onrecord.runtime.engine.run import LiveRun
    from onrecord.store.contract import EventRow

# Where to begin


def history_to_resume(journal: Journal, guard: PolicyGuard | None) -> History:
    """Return the history after the newest checkpoint that a process can begin with, or all of it."""
    for stretch in (Stretch(journal, journal.head().seq, 0), *reversed(shared_stretches(journal))):
        for beginning in _find_beginnings(stretch):
            history = History(journal, beginning)
            if not history.is_dropped and _knows_spending(history, guard):
                return history
    return History(journal)


def _find_beginnings(stretch: Stretch) -> Iterator[Beginning]:
    """Yield the checkpoints of that run whose snapshots can be trusted, newest first."""
    from onrecord.journal.snapshots import load_snapshot  # loaded when a run is resumed

    reader, at_most = stretch.reader, stretch.last
    while at_most > 0:
        snapshot, _ = load_snapshot(reader, StateUpdatedOnlyReducer(), at_most=at_most)
        if snapshot is None:
            return
        at_most = snapshot.position - 1
        row = reader.store.event(reader.namespace, reader.run, snapshot.position)
        if row is not None and is_checkpoint(reader, row):  # there may be snapshots of another kind
            placed = row if not stretch.shift else stretch.placed(row)[0]
            yield Beginning(placed, snapshot.state, reader.link(row).time, next_root(row.lane))


def snapshots_at_checkpoints(reader: JournalReader) -> list[int]:
    """Return the positions of the run's snapshots at checkpoints, oldest first. There may be others beside them."""
    store, place = reader.store, (reader.namespace, reader.run)
    found = [store.event(*place, snapshot.seq) for snapshot in store.snapshots(*place)]
    return sorted(row.seq for row in found if row is not None and is_checkpoint(reader, row))


def is_checkpoint(reader: JournalReader, row: EventRow) -> bool:
    return row.kind == "StateUpdated" and reader.link(row).key == CHECKPOINT


def _knows_spending(history: History, guard: PolicyGuard | None) -> bool:
    """Return False if a budget counts what was spent before the checkpoint, and is newer than the checkpoint."""
    return guard is None or not guard.counts_usage or history.began_at <= 0 or "spent" in (history.carried or {})


# What a checkpoint carries besides the state


def carried_by(run: LiveRun) -> dict[str, Any]:
    """Return what a checkpoint of the root lane holds besides the state."""
    carried: dict[str, Any] = {}
    if run.guard is not None and run.guard.counts_usage:
        carried.update(run.guard.to_checkpoint())
    waits = {name: [identity.name, identity.ordinal] for name, identity in unused_wait_keys(run).items()}
    if waits:
        carried["waits"] = waits
    if _has_dropped(run):
        carried["accepted"] = True
    if run.substitutes is not None:
        carried["standing_in"] = run.substitutes.policy.to_fact()
    return carried


def _has_dropped(run: LiveRun) -> bool:
    """Return True if changed code dropped events of this run: then events before a checkpoint may be in later lanes."""
    history = run.history
    if history is not None and (history.digest.changes or knows_no_lanes(history)):
        return True
    return bool(run.kernel.dropped)


def knows_no_lanes(history: History) -> bool:
    """Return True if lanes after the checkpoint may have events before it, which the history does not have."""
    return bool((history.carried or {}).get("accepted"))


def unused_wait_keys(run: LiveRun) -> dict[str, WaitIdentity]:
    """Return the waits of the root lane whose keys were given out and that have not begun, by name."""
    counts = run.waits_of(run.kernel.root)
    return {name: one for name, (before, one) in counts.issued.items() if counts.waited.get(name, 0) == before}


def keep_wait_keys(run: LiveRun, identities: dict[str, WaitIdentity]) -> None:
    """Start the root lane after a checkpoint: no other lane is left, and nothing was waited for in this one."""
    run.waits.clear()
    if identities:
        run.waits_of(run.kernel.root).issued = {name: (0, identity) for name, identity in identities.items()}


def enter_after_checkpoint(run: LiveRun, history: History, beginning: Beginning) -> None:
    """Restore what the agent has after the checkpoint."""
    row = beginning.row
    waits = (history.carried or {}).get("waits", {})
    identities = {name: WaitIdentity.named(*given) for name, given in waits.items()}
    keep_wait_keys(run, identities)
    needed = run.journal is not None
    state = run.secrets.unseal_value(history.reader_of(row), history.own_row(row), beginning.state, needed=needed)
    run.state = run.restored = _insert_wait_keys(run, identities, state)


def _insert_wait_keys(run: LiveRun, identities: dict[str, WaitIdentity], state: Any) -> Any:
    """Return the state with the wait keys themselves. The record has only their placeholders."""
    if not identities or run.journal is None:
        return state
    texts = {}
    for identity in identities.values():
        text = run.desk().key(run.name, identity).text
        run.secrets.keep(text, run.stand_in(identity))
        texts[run.stand_in(identity)] = text
    return replace_secrets(state, texts)


# Before the checkpoint


class EarlierKeys:
    """Requests up to a checkpoint, by their keys."""

    def __init__(self, reader: JournalReader, last: int) -> None:
        self._stretches = [*shared_stretches(reader), Stretch(reader, reader.head().seq, 0)]
        self._last = last
        self._places: dict[str, list[int]] | None = None

    def find(self, key: str) -> tuple[RecordedRequest, RecordedOutcome] | None:
        """Return the request under that key, and its outcome."""
        if self._places is None:
            self._places = self._read_places()
        places = self._places.get(key, ())
        if len(places) < 2:
            return None
        row, link = self._event(places[-1])
        return RecordedRequest(*self._event(places[0])), RecordedOutcome(row, link.content, link.time)

    def _read_places(self) -> dict[str, list[int]]:
        """Return the positions of each request and its outcome."""
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
                    for seq in self._find_dropped(stretch, row):
                        places.pop(keys.get(seq + stretch.shift, ""), None)
        return places

    def _find_dropped(self, stretch: Stretch, row: EventRow) -> list[int]:
        """Return the requests that changed code does not make any more: their keys are free again."""
        process = getattr(stretch.reader.event(row.seq - stretch.shift).event, "process", None)
        accepted = process.get("accepted") if isinstance(process, dict) else None
        return [seq for seq, _ in accepted["dropped"]] if isinstance(accepted, dict) else []

    def _event(self, position: int) -> tuple[EventRow, Link]:
        stretch = stretch_of(self._stretches, position)
        reader = stretch.reader
        row = reader.store.event(reader.namespace, reader.run, position - stretch.shift)
        assert row is not None
        return stretch.placed(row)
