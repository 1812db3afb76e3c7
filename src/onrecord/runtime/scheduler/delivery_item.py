"""What is handed to the agent, whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onrecord.runtime.engine.open_effect import OpenEffect
    from onrecord.runtime.scheduler.lanes import Lane

ANSWER, SIGNAL, CHUNK = "answer", "signal", "chunk"


class Item:
    """Something to be handed over. `hand` is called once, with the run's lock held, by the loop's thread if looped."""

    __slots__ = ("chunk", "chunk_seq", "committed", "hand", "kind", "lane", "looped", "ordinal", "ticket")

    def __init__(
        self,
        kind: str,
        lane: Lane,
        ordinal: int,
        hand: Callable[[], object],
        *,
        looped: bool,
        ticket: OpenEffect | None = None,
    ) -> None:
        self.kind = kind
        self.lane = lane
        self.ordinal = ordinal
        self.hand = hand
        self.looped = looped
        self.ticket = ticket
        self.committed = False
        self.chunk: Any = None
        """A part of a stream, as an event or as it was recorded."""
        self.chunk_seq = 0


def name_of(item: Item) -> tuple[Any, ...]:
    """What is expected is known by this name."""
    if item.kind == SIGNAL:
        return (SIGNAL,)
    if item.kind == CHUNK and item.ticket is not None:
        return (CHUNK, item.ticket.key, item.ordinal)
    if item.ticket is not None:
        return (ANSWER, item.ticket.key)
    return (item.kind, id(item.lane), item.ordinal)
