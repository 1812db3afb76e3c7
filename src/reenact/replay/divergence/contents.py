"""Opening the contents of the few events that are shown."""

from __future__ import annotations

from typing import Any

from reenact.core.matching import VOLATILE_MEMBERS
from reenact.effect.divergences import first_difference
from reenact.errors import Damaged
from reenact.journal.reader import JournalReader
from reenact.store.contract import EventRow


class Contents:
    """Of one run. Each is checked against its link when it is opened."""

    def __init__(self, reader: JournalReader) -> None:
        self._reader = reader

    def row(self, seq: int | None) -> EventRow | None:
        if seq is None:
            return None
        row = self._reader.store.event(self._reader.namespace, self._reader.run, seq)
        if row is None:
            raise Damaged(f"run {self._reader.run} lacks event {seq}", code="missing_event")
        return row

    def of(self, row: EventRow | None) -> Any:
        """The encoded content, without what never counts; None when it is erased or there is no event."""
        if row is None or row.match is None:
            return None
        whole = row if row.content is not None else self.row(row.seq)
        assert whole is not None
        tree = self._reader.content_tree(whole, self._reader.link(whole))
        if not isinstance(tree, dict):
            return tree
        return {name: value for name, value in tree.items() if name not in VOLATILE_MEMBERS}


def describe_contents(expected: Any, actual: Any) -> dict[str, Any]:
    """Where two encoded contents differ, as data."""
    path = first_difference(expected, actual)
    return {"count": 0 if path is None else None, "paths": [] if path is None else [path]}
