"""An event of a run, with its position."""

from __future__ import annotations

from typing import Any

import msgspec

from onrecord.core.events import Event
from onrecord.core.lane_names import ROOT_LANE


class ErasedEvent(Event, frozen=True):
    """Replaces an event whose content was erased. The link still exists."""

    recorded_kind: str

    def content(self) -> dict[str, Any]:
        return {}


class SequencedEvent(msgspec.Struct, frozen=True):
    """An event of a run as recorded."""

    seq: int
    event: Event
    id: str = ""
    kind: str = ""
    lane: str = ROOT_LANE
    key: str | None = None
    parent: int | None = None
    time: int = 0
    hash: str = ""

    @property
    def erased(self) -> bool:
        return isinstance(self.event, ErasedEvent)
