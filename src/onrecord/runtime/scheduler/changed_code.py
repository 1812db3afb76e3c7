"""Changed code that is accepted: what it does not do any more is dropped from the record.

1. A lane makes a later act of its record: the acts between are dropped.
2. A lane makes an act that its record does not have: it leaves its record, and the rest of it is dropped.
3. At rest, an act that was not made and a delivery that is not awaited are dropped.

Outcomes of dropped requests are kept as spares: an effect that is asked for later is not executed again.
"""

from __future__ import annotations

from typing import Any

from onrecord.runtime.scheduler.items import (
    ACTS,
    DELIVERIES,
    Act,
    Chunk,
    Cut,
    EffectCancelled,
    EffectFailed,
    EffectOutcome,
    Item,
    Requested,
    SettledItem,
    Token,
    is_same_act,
)
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


class Spares:
    """Outcomes of requests that changed code did not make again."""

    def __init__(self) -> None:
        self.requests: dict[str, Requested] = {}
        self._values: dict[str, list[tuple[Any, bool]]] = {}

    def add(self, item: Item) -> None:
        """Keep a dropped request, or what was delivered for it."""
        if type(item) is Requested:
            self.requests[item.key] = item
        elif type(item) is EffectOutcome and type(item.value) is not EffectCancelled:
            self._add_value(item.key, item.value, last=True)
        elif type(item) is Chunk:
            self._add_value(item.key, item.value, last=False)
        elif type(item) is SettledItem and item.how != "retry":
            self._add_value(item.key, EffectFailed(item.value) if item.how == "fail" else item.value, last=True)

    def _add_value(self, key: str, value: Any, *, last: bool) -> None:
        self._values.setdefault(key, []).append((value, last))

    def take(self, token: Token) -> list[tuple[Any, bool]] | None:
        """Return the values for a request that is made again, each with True for the last; None if it is another."""
        recorded, call = self.requests.get(token.key), token.call
        if recorded is None or call is None:
            if not token.recorded or token.key not in self._values:
                return None
        elif recorded.digest == call.digest:
            del self.requests[token.key]
        else:
            return None
        values = self._values.pop(token.key, [])
        if values and not values[-1][1]:
            values.append((Cut(), True))
        return values
