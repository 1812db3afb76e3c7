"""The state of a run at a position."""

from __future__ import annotations

from typing import Any, NamedTuple

from onrecord.core.canonical import canonical_bytes
from onrecord.core.hashing import render, state_hash_of
from onrecord.core.state import StateUpdatedOnlyReducer
from onrecord.errors import BadPosition, InvalidInput
from onrecord.journal.lineage import shared_stretches
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import EventRow

FIRST_STRETCH, LONGEST_STRETCH = 64, 8_192


class StateReport(NamedTuple):
    run: str
    position: int
    state: Any
    """As it is recorded: encoded."""
    state_hash: str
    set_by: int | None
    """The event of this run that made it so; from there to the position it is the same. None: it began with it."""

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


def state_at(reader: JournalReader, position: int) -> StateReport:
    recorded = reader.header.reducer
    if recorded != StateUpdatedOnlyReducer.id:
        raise InvalidInput(
            f"the state of run {reader.run} is made by the reducer {recorded!r}, which is not part of Onrecord",
            hint="Use StateFold in Python with that reducer; --event shows the single updates.",
            code="other_reducer",
        )
    last = reader.head().seq
    if not 0 <= position <= last:
        raise BadPosition(f"position {position} is not between 0 and {last}, the last of run {reader.run}")
    found = _last_update(reader, position)
    tree = _first_state(reader) if found is None else _state_set_by(reader, found)
    return StateReport(
        reader.run, position, tree, render(state_hash_of(canonical_bytes(tree))), None if found is None else found.seq
    )


def _last_update(reader: JournalReader, position: int) -> EventRow | None:
    """The state is what the last update says, and that one is mostly near: so it is looked for from behind."""
    stop, stretch = position + 1, FIRST_STRETCH
    while stop > 1:
        start = max(1, stop - stretch)
        rows = reader.store.scan(reader.namespace, reader.run, start, stop, contents=False)
        found = [row.seq for row in rows if row.kind == "StateUpdated"]
        if found:
            return reader.store.event(reader.namespace, reader.run, found[-1])
        stop, stretch = start, min(stretch * 4, LONGEST_STRETCH)
    return None


def _state_set_by(reader: JournalReader, row: EventRow) -> Any:
    content = reader.content_tree(row, reader.link(row))
    if content is None:
        raise InvalidInput(
            f"the state at {row.seq} was erased", hint="An earlier or later position may have one.", code="erased"
        )
    return content.get("payload") if isinstance(content, dict) else None


def _first_state(reader: JournalReader) -> Any:
    """What a run begins with: a fork with the state of its parent where they part."""
    for parent, last, _ in reversed(shared_stretches(reader)):
        found = _last_update(parent, last)
        if found is not None:
            return _state_set_by(parent, found)
    return StateUpdatedOnlyReducer().initial()
