"""The state of a run at a position."""

from __future__ import annotations

from typing import Any, NamedTuple

from reenact.core.codec import encode
from reenact.core.codec.standins import Erased
from reenact.core.events import Event
from reenact.core.state import StateUpdatedOnlyReducer, state_hash
from reenact.errors import InvalidInput
from reenact.journal.reader import ErasedEvent, JournalReader
from reenact.journal.snapshots import StateFold


class StateReport(NamedTuple):
    run: str
    position: int
    state: Any
    """As it is recorded: encoded."""
    state_hash: str

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


def state_at(reader: JournalReader, position: int) -> StateReport:
    recorded = reader.header.reducer
    if recorded != StateUpdatedOnlyReducer.id:
        raise InvalidInput(
            f"the state of run {reader.run} is made by the reducer {recorded!r}, which is not part of Reenact",
            hint="Use StateFold in Python with that reducer; --event shows the single updates.",
            code="other_reducer",
        )
    state = StateFold.from_snapshot(reader, _Shown(), at_most=position).replay_to(position)
    if isinstance(state, Erased):
        raise InvalidInput(
            f"the state at {position} was erased", hint="An earlier or later position may have one.", code="erased"
        )
    return StateReport(reader.run, position, encode(state).tree, state_hash(state))


class _Shown(StateUpdatedOnlyReducer):
    """An erased update leaves a state that nobody knows, not the one before it."""

    def apply(self, state: Any, event: Event) -> Any:
        if isinstance(event, ErasedEvent) and event.recorded_kind == "StateUpdated":
            return Erased()
        return super().apply(state, event)
