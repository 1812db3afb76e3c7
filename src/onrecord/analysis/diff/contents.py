"""Open the contents of the few events that a comparison shows."""

from __future__ import annotations

from typing import Any

from onrecord.analysis.compare.trees import compare_trees
from onrecord.analysis.diff.run_lanes import RunLanes
from onrecord.core.canonical import canonical_bytes
from onrecord.core.codec import encode
from onrecord.core.links import BASE_RULES
from onrecord.core.matching import VOLATILE_MEMBERS, MatchRules
from onrecord.errors import Damaged, Refused
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import EventRow


class Contents:
    """Contents of one run, each checked against its link when opened."""

    def __init__(self, run: RunLanes) -> None:
        self._run, reader = run, run.reader
        self._reader = reader
        self._rules = _load_rules(reader)

    def row(self, seq: int | None) -> EventRow | None:
        if seq is None:
            return None
        row = self._run.row(seq)
        if row is None:
            raise Damaged(f"run {self._reader.run} lacks event {seq}", code="missing_event")
        return row

    def of(self, row: EventRow | None) -> Any:
        """Return the encoded content without volatile fields, or None if it is erased or there is no event."""
        if row is None or row.match is None:
            return None
        whole = row if row.content is not None else self.row(row.seq)
        assert whole is not None
        tree = self._reader.content_tree(whole, self._reader.link(whole))
        return self._rules.without_volatile(row.kind, tree) if isinstance(tree, dict) else tree


def _load_rules(reader: JournalReader) -> MatchRules:
    if reader.header.rules == BASE_RULES:
        return MatchRules()
    try:
        return reader.rules()
    except Refused:
        return MatchRules()  # erased with the facts, so volatile fields may be shown


def begun_differently(a: JournalReader, b: JournalReader) -> list[str]:
    """Return the names of the header facts that differ: agent, input, code and so on.

    Facts are not behaviour and do not affect the verdict, but they may explain a divergence.
    """
    if a.header_row.match is not None and a.header_row.match == b.header_row.match:
        return []
    facts_a, facts_b = a.facts(), b.facts()
    if facts_a is None or facts_b is None:
        return ["unknown: erased"]
    names = [*facts_a, *(name for name in facts_b if name not in facts_a)]
    absent = object()
    return [
        name
        for name in names
        if name not in VOLATILE_MEMBERS
        and _canonical_fact(facts_a.get(name, absent)) != _canonical_fact(facts_b.get(name, absent))
    ]


def _canonical_fact(value: object) -> bytes:
    return b"" if type(value) is object else canonical_bytes(encode(value).tree)


def describe_contents(expected: Any, actual: Any) -> dict[str, Any]:
    """Return the first differences of two encoded contents, and their number."""
    return compare_trees(expected, actual).to_data()
