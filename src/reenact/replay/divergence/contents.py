"""Opening the contents of the few events that are shown."""

from __future__ import annotations

from typing import Any

from reenact.core.links import BASE_RULES
from reenact.core.matching import MatchRules
from reenact.errors import Damaged, Refused
from reenact.journal.reader import JournalReader
from reenact.replay.comparing.trees import compare_trees
from reenact.store.contract import EventRow


class Contents:
    """Of one run. Each is checked against its link when it is opened."""

    def __init__(self, reader: JournalReader) -> None:
        self._reader = reader
        self._rules = _rules_of(reader)

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
        return self._rules._masked(row.kind, tree) if isinstance(tree, dict) else tree


def _rules_of(reader: JournalReader) -> MatchRules:
    if reader.header.rules == BASE_RULES:
        return MatchRules()
    try:
        return reader.rules()
    except Refused:
        return MatchRules()  # its own went with its facts: then fields that do not count may be shown


def describe_contents(expected: Any, actual: Any) -> dict[str, Any]:
    """Where two encoded contents differ: the first places, with what stands there, and how many there are."""
    return compare_trees(expected, actual).to_data()
