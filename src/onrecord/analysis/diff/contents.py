"""Opening the contents of the few events that are shown."""

from __future__ import annotations

from typing import Any

from reenact.core.canonical import canonical_bytes
from reenact.core.codec import encode
from reenact.core.links import BASE_RULES
from reenact.core.matching import MatchRules
from reenact.errors import Damaged, Refused
from reenact.journal.reader import JournalReader
from reenact.replays.comparing.trees import compare_trees
from reenact.replays.divergence.run_lanes import RunLanes
from reenact.store.contract import EventRow


class Contents:
    """Of one run. Each is checked against its link when it is opened."""

    def __init__(self, run: RunLanes) -> None:
        self._run, reader = run, run.reader
        self._reader = reader
        self._rules = _rules_of(reader)

    def row(self, seq: int | None) -> EventRow | None:
        if seq is None:
            return None
        row = self._run.row(seq)
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
        return self._rules.without_volatile(row.kind, tree) if isinstance(tree, dict) else tree


def _rules_of(reader: JournalReader) -> MatchRules:
    if reader.header.rules == BASE_RULES:
        return MatchRules()
    try:
        return reader.rules()
    except Refused:
        return MatchRules()  # its own went with its facts: then fields that do not count may be shown


def begun_differently(a: JournalReader, b: JournalReader) -> list[str]:
    """Which facts tell two runs apart before they did anything: their agents, inputs, code, whatever is recorded.

    Facts are no behaviour, so they decide nothing; but they may be why the runs part.
    """
    if a.header_row.match is not None and a.header_row.match == b.header_row.match:
        return []
    facts_a, facts_b = a.facts(), b.facts()
    if facts_a is None or facts_b is None:
        return ["unknown: erased"]
    names = [*facts_a, *(name for name in facts_b if name not in facts_a)]
    absent = object()
    return [name for name in names if _written(facts_a.get(name, absent)) != _written(facts_b.get(name, absent))]


def _written(value: object) -> bytes:
    return b"" if type(value) is object else canonical_bytes(encode(value).tree)


def describe_contents(expected: Any, actual: Any) -> dict[str, Any]:
    """Where two encoded contents differ: the first places, with what stands there, and how many there are."""
    return compare_trees(expected, actual).to_data()
