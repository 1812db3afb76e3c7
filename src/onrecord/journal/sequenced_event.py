"""One event of a run, with its place in it."""

from __future__ import annotations

from typing import Any

import msgspec

from reenact.core.events import Event


class ErasedEvent(Event, frozen=True):
    """Stands where a content was erased; the link is still there."""

    recorded_kind: str

    def content(self) -> dict[str, Any]:
        return {}


class SequencedEvent(msgspec.Struct, frozen=True):
    """One event of a run as it was recorded."""

    seq: int
    event: Event
    id: str = ""
    kind: str = ""
    lane: str = "0"
    key: str | None = None
    parent: int | None = None
    time: int = 0
    hash: str = ""

    @property
    def erased(self) -> bool:
        return isinstance(self.event, ErasedEvent)
