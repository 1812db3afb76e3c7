"""Snapshots equal a full replay: for any pure reducer, any events, and any points where a snapshot was taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kit.journals import NS, begin
from onrecord.core.events import ActionRequested, Event, Interrupted, SignalReceived, StateUpdated, ValuesDrawn
from onrecord.journal.reader import JournalReader
from onrecord.journal.snapshots import EveryEvents, SnapshotManager, StateFold
from onrecord.journal.verify import verify_run
from onrecord.store.memory import MemoryStore

STEPS: dict[str, Callable[[Any, Event], Any]] = {
    "count": lambda state, event: (state or 0) + 1,
    "kinds": lambda state, event: [*(state or []), event.kind],
    "tally": lambda state, event: {**(state or {}), event.kind: (state or {}).get(event.kind, 0) + 1},
    "pairs": lambda state, event: {**(state or {}), (event.kind, len(state or {})): 1},
    "names": lambda state, event: (state or frozenset()) | {getattr(event, "name", event.kind)},
    "contents": lambda state, event: (*(state or ())[-3:], event.content().get("payload")),
    "last": lambda state, event: event.payload if isinstance(event, StateUpdated) else state,
    "first": lambda state, event: event.content() if state is None else state,
}


class AnyReducer:
    state_version = 1

    def __init__(self, name: str) -> None:
        self.id = f"{name}/1"
        self._step = STEPS[name]

    def initial(self) -> Any:
        return None

    def apply(self, state: Any, event: Event) -> Any:
        return self._step(state, event)


PAYLOADS = st.one_of(
    st.integers(), st.text(max_size=5), st.tuples(st.integers()), st.dictionaries(st.integers(), st.none())
)
EVENTS = st.one_of(
    st.builds(StateUpdated, PAYLOADS),
    st.builds(SignalReceived, st.sampled_from(["go", "stop"]), PAYLOADS),
    st.builds(Interrupted, PAYLOADS),
    st.builds(ValuesDrawn, st.lists(PAYLOADS, max_size=2)),
)


@given(st.sampled_from(sorted(STEPS)), st.lists(EVENTS, max_size=12), st.integers(1, 5), st.integers(1, 3))
def test_a_state_from_any_snapshot_equals_a_full_replay(name: str, events: list[Event], every: int, batch: int) -> None:
    reducer = AnyReducer(name)
    plain, store = MemoryStore(), MemoryStore()
    alone = begin(plain, reducer=reducer)
    journal = begin(store, reducer=reducer)
    manager = SnapshotManager(journal, reducer, EveryEvents(every))
    states = [reducer.initial()]
    for at in range(0, len(events), batch):
        for event in events[at : at + batch]:
            alone.append(event)
        manager.observe(journal.append(events[at : at + batch]))
        states.append(StateFold(JournalReader(plain, "r1"), reducer).replay_all())
        assert manager.state == states[-1]
    reader = JournalReader(store, "r1")
    assert StateFold(reader, reducer).replay_all() == states[-1]
    for position in range(reader.head().seq + 1):
        whole = StateFold(reader, reducer).replay_to(position)
        fold = StateFold.from_snapshot(reader, reducer, at_most=position)
        assert fold.replay_to(position) == whole
        assert type(fold.state) is type(whole)
        assert fold.rejected == []
    assert verify_run(store, "r1", deep=True, reducer=reducer).valid
    while rows := list(store.snapshots(NS, "r1")):
        assert StateFold.from_snapshot(reader, reducer).replay_all() == states[-1]
        store.delete_snapshot(NS, "r1", rows[0].seq)


def test_a_continued_run_and_its_snapshots_go_on_alike() -> None:
    reducer, store = AnyReducer("kinds"), MemoryStore()
    journal = begin(store, reducer=reducer)
    manager = SnapshotManager(journal, reducer, EveryEvents(2))
    manager.observe(journal.append([StateUpdated(1), ActionRequested("a", 1)]))
    again = SnapshotManager(journal, reducer, EveryEvents(2))
    again.observe(journal.append([StateUpdated(2), StateUpdated(3)]))
    assert again.state == ["StateUpdated", "ActionRequested", "StateUpdated", "StateUpdated"]
    assert [row.seq for row in store.snapshots(NS, "r1")] == [5, 2]
