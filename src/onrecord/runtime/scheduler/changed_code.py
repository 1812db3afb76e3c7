"""Changed code that is accepted: what it does not do any more is dropped from the record.

1. A lane makes a later act of its record: the acts between are dropped.
2. A lane makes an act that its record does not have: it leaves its record, and the rest of it is dropped.
3. At rest, an act that was not made and a delivery that is not awaited are dropped.

Outcomes of dropped requests are kept as spares: an effect that is asked for later is not executed again.
"""

from __future__ import annotations

from onrecord.runtime.scheduler.items import ACTS, DELIVERIES, Act, Chunk, Item, is_same_act
from onrecord.runtime.scheduler.spares import Spares
from onrecord.runtime.scheduler.wait_table import WaitTable
from onrecord.runtime.scheduler.window import Window


class ChangedCode:
    def __init__(self, history: Window, awaited: WaitTable, spares: Spares) -> None:
        self.dropped: list[int] = []
        """Positions of the history that the code does not need."""
        self._history = history
        self._awaited = awaited
        self._spares = spares
        self._left: set[str] = set()
        """Lanes that made an act which their record does not have."""

    def has_left(self, lane: str) -> bool:
        """Return True if the lane has left its record."""
        return lane in self._left

    def follow(self, lane: str, act: Act) -> None:
        """Drop the recorded acts of the lane before this one, or let the lane leave its record."""
        if lane in self._left:
            return
        recorded = self._history.acts_of(lane)
        found = next((number for number, (_, one) in enumerate(recorded) if is_same_act(one, act)), None)
        if found is None:
            self._left.add(lane)
            return
        for position, expected in recorded[:found]:
            self._history.mark_made(lane)
            self.dropped.append(position)
            self._spares.add(expected)

    def drop(self, item: Item) -> None:
        """Drop the item under the cursor."""
        self.dropped.append(self._history.position)
        self._spares.add(item)
        if isinstance(item, ACTS):
            self._history.mark_made(item.lane)
        self._history.drop()

    def drop_void(self, chunk: Chunk) -> None:
        """Drop the void chunk under the cursor if its stream is not asked for. It is no spare."""
        if not self._awaited.has_key(chunk.key):
            self.dropped.append(self._history.position)

    def drop_rest(self) -> None:
        """Drop what is left. Values that lanes wait for arrive again when the run is live."""
        history = self._history
        while (item := history.head()) is not None:
            if type(item) is Chunk and history.head_is_void:
                self.drop_void(item)
            elif isinstance(item, DELIVERIES) or (isinstance(item, ACTS) and not history.head_is_made):
                self.drop(item)
            history.advance()
