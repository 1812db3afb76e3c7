"""Walking a run that has been recorded: forward, back, to a position, with the state after every event.

The engine reads and never writes; nothing of the agent runs. A position is always the last applied event: 0 is before
the first one. Two engines over the same run give the same states, whichever way they were walked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from reenact.core.state import Reducer, StateUpdatedOnlyReducer, state_hash
from reenact.errors import BadPosition, Refused
from reenact.journal.reader import JournalReader, SequencedEvent
from reenact.journal.snapshots import Migrations, RejectedSnapshot, StateFold, first_state, load_snapshot
from reenact.journal.verify import VerificationReport, verify_run
from reenact.store.contract import Store

KEPT_EVERY = 256
"""States that the engine keeps to come back to, so that a step back costs no more than so many steps forward."""


class Step(NamedTuple):
    """One event, and the state that it led to."""

    event: SequencedEvent
    state: Any

    @property
    def position(self) -> int:
        return self.event.seq

    @property
    def state_hash(self) -> str:
        return state_hash(self.state)


class ReplayEngine:
    """Walks a recorded run, forward and back, with the state after every event. Nothing is carried out."""

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
                hint="Give that reducer: another one would show states that never were.",
                code="other_reducer",
            )
        self._migrations = migrations
        self._fold = StateFold(self.reader, self._reducer)
        self._kept: dict[int, Any] = {0: self._fold.state}
        self.rejected: list[RejectedSnapshot] = []
        """Snapshots that were passed over, and why."""

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
        """Begins with a state in hand, which is believed to be that at `position`."""
        engine = cls(store, run, namespace, reducer=reducer)
        engine._check(position)
        engine._fold = StateFold(engine.reader, engine._reducer, state=state, position=position, use_state=True)
        engine._kept = {position: state}
        return engine

    # Where it stands

    @property
    def position(self) -> int:
        """The last applied event; 0 before the first."""
        return self._fold.position

    @property
    def state(self) -> Any:
        return self._fold.state

    @property
    def state_hash(self) -> str:
        return state_hash(self._fold.state)

    @property
    def reductions(self) -> int:
        """How many events this engine has applied since it began or last jumped."""
        return self._fold.reductions

    @property
    def end(self) -> int:
        """The run's last position. A run that is still going on grows."""
        return self.reader.head().seq

    # Walking

    def step(self) -> Step | None:
        """Applies the next event; None at the end."""
        event = self._fold.step()
        if event is None:
            return None
        self._keep()
        return Step(event, self._fold.state)

    def steps(self) -> Iterator[Step]:
        """All that is left, one by one."""
        while (step := self.step()) is not None:
            yield step

    def step_back(self) -> int:
        """Takes the last event back; the position it leads to. Refused before the first one."""
        return self.go_to(self.position - 1)

    def go_to(self, position: int) -> int:
        """Stands at `position` as if it had been walked to."""
        self._check(position)
        if position < self.position or position - self.position > KEPT_EVERY:
            self._jump(position)
        while self._fold.position < position:
            self._fold.step()
            self._keep()
        return position

    def replay_from(self, position: int) -> Any:
        """Goes to `position`, by the nearest trusted snapshot, and replays what follows it; the final state."""
        self._check(position)
        self._jump(position, snapshots=True)
        self._fold.replay_to(position)
        return self.replay_all()

    def replay_all(self) -> Any:
        """Applies all that is left; the final state."""
        state = self._fold.replay_all()
        self._kept[self._fold.position] = state
        return state

    def verify(self) -> VerificationReport:
        """Checks the whole run, contents too: what was replayed is what was recorded."""
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
        """To the nearest known state at or before `position`."""
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


__all__ = ["ReplayEngine", "Step"]
