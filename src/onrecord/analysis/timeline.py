"""Step through a recorded run: forward, back, to a position, with the state after every event.

The engine only reads; no agent code runs. A position is the last applied event: 0 is before the first one. Two engines
over the same run give the same states, whichever steps led there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from onrecord.core.state import Reducer, StateUpdatedOnlyReducer, state_hash
from onrecord.errors import BadPosition, Refused
from onrecord.journal.reader import JournalReader, SequencedEvent
from onrecord.journal.snapshots import Migrations, RejectedSnapshot, StateFold, first_state, load_snapshot
from onrecord.journal.verify import VerificationReport, verify_run
from onrecord.store.contract import Store

KEPT_EVERY = 256
"""The engine keeps a state every so many events, which bounds the cost of a step back."""


class Step(NamedTuple):
    """An event and the state after it."""

    event: SequencedEvent
    state: Any

    @property
    def position(self) -> int:
        return self.event.seq

    @property
    def state_hash(self) -> str:
        return state_hash(self.state)


class ReplayEngine:
    """Step through a recorded run, forward and back, with the state after every event. Nothing is executed."""

    def __init__(
        self,
        store: Store,
        run: str,
        namespace: str = "default",
        *,
        reducer: Reducer | None = None,
        migrations: Migrations | None = None,
    ) -> None:
        self.reader = JournalReader(store, run, namespace)
        self._reducer = reducer or StateUpdatedOnlyReducer()
        if reducer is None and self.reader.header.reducer != StateUpdatedOnlyReducer.id:
            raise Refused(
                f"the state of run {run} was folded by the reducer {self.reader.header.reducer!r}",
                hint="Pass that reducer: another one would show states that never existed.",
                code="other_reducer",
            )
        self._migrations = migrations
        self._fold = StateFold(self.reader, self._reducer)
        self._kept: dict[int, Any] = {0: self._fold.state}
        self.rejected: list[RejectedSnapshot] = []
        """The snapshots that were not used, with the reasons."""

    @classmethod
    def with_state(
        cls,
        store: Store,
        run: str,
        namespace: str = "default",
        *,
        state: Any,
        position: int,
        reducer: Reducer | None = None,
    ) -> ReplayEngine:
        """Begin with a known state, which is trusted to be the one at `position`."""
        engine = cls(store, run, namespace, reducer=reducer)
        engine._check(position)
        engine._fold = StateFold(engine.reader, engine._reducer, state=state, position=position, use_state=True)
        engine._kept = {position: state}
        return engine

    @property
    def position(self) -> int:
        """Return the last applied event; 0 before the first."""
        return self._fold.position

    @property
    def state(self) -> Any:
        return self._fold.state

    @property
    def state_hash(self) -> str:
        return state_hash(self._fold.state)

    @property
    def reductions(self) -> int:
        """Return the number of events applied since the engine began or last jumped."""
        return self._fold.reductions

    @property
    def end(self) -> int:
        """Return the run's last position, which grows while the run is active."""
        return self.reader.head().seq

    def step(self) -> Step | None:
        """Apply the next event; return None at the end."""
        event = self._fold.step()
        if event is None:
            return None
        self._keep()
        return Step(event, self._fold.state)

    def steps(self) -> Iterator[Step]:
        """Apply the remaining events one by one."""
        while (step := self.step()) is not None:
            yield step

    def step_back(self) -> int:
        """Undo the last event and return the new position. Refused at position 0."""
        return self.go_to(self.position - 1)

    def go_to(self, position: int) -> int:
        """Move to `position` and return it."""
        self._check(position)
        if position < self.position or position - self.position > KEPT_EVERY:
            self._jump(position)
        while self._fold.position < position:
            self._fold.step()
            self._keep()
        return position

    def replay_from(self, position: int) -> Any:
        """Move to `position` by the nearest trusted snapshot, apply all later events, and return the final state."""
        self._check(position)
        self._jump(position, snapshots=True)
        self._fold.replay_to(position)
        return self.replay_all()

    def replay_all(self) -> Any:
        """Apply all remaining events and return the final state."""
        state = self._fold.replay_all()
        self._kept[self._fold.position] = state
        return state

    def verify(self) -> VerificationReport:
        """Verify the whole run, contents included."""
        reducer = None if isinstance(self._reducer, StateUpdatedOnlyReducer) else self._reducer
        return verify_run(self.reader.store, self.reader.run, self.reader.namespace, deep=True, reducer=reducer)

    def _check(self, position: int) -> None:
        end = self.end
        if type(position) is not int or not 0 <= position <= end:
            raise BadPosition(
                f"run {self.reader.run} has no position {position}: its events are 1 to {end}",
                hint="0 is before the first event.",
            )

    def _jump(self, position: int, *, snapshots: bool = False) -> None:
        """Restore the nearest known state at or before `position`."""
        known = max((kept for kept in self._kept if kept <= position), default=None)
        if snapshots or known is None:
            found, self.rejected = load_snapshot(
                self.reader, self._reducer, at_most=position, migrations=self._migrations
            )
            if found is not None and (known is None or found.position > known):
                self._kept[found.position] = found.state
                known = found.position
        if known is None:
            known, self._kept[0] = 0, first_state(self.reader, self._reducer)
        self._fold = StateFold(self.reader, self._reducer, state=self._kept[known], position=known, use_state=True)

    def _keep(self) -> None:
        if self._fold.position % KEPT_EVERY == 0:
            self._kept[self._fold.position] = self._fold.state
