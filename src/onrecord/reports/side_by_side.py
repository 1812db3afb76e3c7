"""Two runs beside each other: what did not match row by row, and between these how many events are the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from onrecord.analysis.compare.trees import compare_trees
from onrecord.analysis.diff.lineage import open_lineage
from onrecord.analysis.diff.reasons import WORDS
from onrecord.analysis.diff.results import EventPlace, RunComparison
from onrecord.analysis.diff.run_lanes import RunLanes
from onrecord.analysis.diff.runs import compare_runs
from onrecord.core.matching import MatchRules
from onrecord.errors import InvalidValue, OnrecordError
from onrecord.journal.reader import JournalReader
from onrecord.reports.comparisons import comparison_report, difference_report, patch_between
from onrecord.reports.effects import outline
from onrecord.reports.gists import gist_of
from onrecord.reports.timelines import SeenEvent, one_event
from onrecord.reports.times import iso_time
from onrecord.store.contract import EventRow, Store

CHANGES = 200
DIFFERENCES = 40
VALUE_ROOM = 2_000
PATCH_ROOM = 100
"""Steps of a patch that are shown at once."""

Spot = tuple[str, int]
"""A lane and a place in it: what names an event of a run, wherever it is kept."""


class Side(NamedTuple):
    """One of the runs that are compared."""

    store: Store
    run: str
    namespace: str


def side_by_side(expected: Side, actual: Side, *, limit: int = CHANGES) -> dict[str, Any]:
    """What `onrecord diff` says, and `rows`: changes, and stretches of events that are the same.

    Where more than `limit` changes were found, the rows end behind the last of those.
    """
    comparison = compare_runs(
        expected.store,
        expected.run,
        actual.store,
        actual.run,
        namespace_a=expected.namespace,
        namespace_b=actual.namespace,
        most_shown=limit,
    )
    rows = list(_PairedWalk(comparison, expected, actual).rows())
    return {
        **comparison_report(comparison, expected.store, actual.store),
        "rows": rows,
        "first_number": _first_number(comparison, rows),
        "more_changes": comparison.changes_in_all - len(comparison.changes),
    }


def _first_number(comparison: RunComparison, rows: list[dict[str, Any]]) -> int | None:
    """The first row that holds an event of the first divergence."""
    first = comparison.first
    wanted = {} if first is None else {"expected": first.expected, "actual": first.actual}
    for row in rows:
        for side, place in wanted.items():
            told = row[side] if row["row"] == "change" else None
            if place is not None and told is not None and (told["run"], told["seq"]) == (place.run, place.seq):
                return int(row["number"])
    return None


def _spot(place: EventPlace | None) -> Spot | None:
    return None if place is None else (place.lane, place.position)


class _Events:
    """The behavioural events of one run in their order, each with the change that it is part of."""

    def __init__(self, side: Side, changed: dict[Spot, int]) -> None:
        self._lanes = RunLanes(open_lineage(side.store, side.run, side.namespace))
        self._rows = (row for row in self._lanes.scan(1) if row.lane_seq is not None)
        self._changed = changed
        self.here: EventRow | None = None
        self.change: int | None = None
        self.next()

    def next(self) -> EventRow | None:
        """Goes on; gives what was there."""
        passed = self.here
        self.here = next(self._rows, None)
        self.change = None if self.here is None else self._changed.get((self.here.lane, self.here.lane_seq or 0))
        return passed

    def place(self, row: EventRow | None) -> dict[str, Any] | None:
        return None if row is None else dict(zip(("run", "seq"), self._lanes.origin(row), strict=True))


class _EqualStretch:
    """Events that are the same in both runs."""

    def __init__(self) -> None:
        self.count = 0
        self._ends: dict[str, list[EventRow]] = {"expected": [], "actual": []}

    def add(self, side: str, row: EventRow | None) -> None:
        if row is not None:
            self._ends[side][1:] = [row] if self._ends[side] else []
            self._ends[side] = self._ends[side] or [row]

    def to_data(self, events: dict[str, _Events]) -> dict[str, Any]:
        data: dict[str, Any] = {"row": "same", "count": self.count}
        for side, ends in self._ends.items():
            data[side] = [events[side].place(ends[0]), events[side].place(ends[-1])] if ends else None
        return data


class _PairedWalk:
    """Through both runs at once. Events that match come in the same order in both, but for those of different lanes."""

    def __init__(self, comparison: RunComparison, expected: Side, actual: Side) -> None:
        self._changes = comparison.changes
        self._left = len(self._changes)
        self._complete = comparison.changes_in_all == self._left
        spots = [(_spot(one.expected), _spot(one.actual)) for one in self._changes]
        of_a = {one: index for index, (one, _) in enumerate(spots) if one is not None}
        of_b = {other: index for index, (_, other) in enumerate(spots) if other is not None}
        self._a, self._b = _Events(expected, of_a), _Events(actual, of_b)
        self._names = (_Named(expected), _Named(actual))

    def rows(self) -> Iterator[dict[str, Any]]:
        events = {"expected": self._a, "actual": self._b}
        same, number = _EqualStretch(), 0
        while (self._a.here is not None or self._b.here is not None) and (self._left or self._complete):
            what, change = self._due()
            if what == "same":
                same.count += 1
                same.add("expected", self._a.next())
                same.add("actual", self._b.next())
            elif what == "change":
                if same.count:
                    yield same.to_data(events)
                    same = _EqualStretch()
                self._left -= 1
                number += 1
                yield self._told(change, number)
        if same.count:
            yield same.to_data(events)

    def _due(self) -> tuple[Literal["change", "same", "passed"], int]:
        """What was removed comes first, then what was added, then what is in both: told where the first run has it."""
        a, b = self._a.change, self._b.change
        if a is not None and self._changes[a].actual is None:
            self._a.next()
            return "change", a
        if b is not None and self._changes[b].expected is None:
            self._b.next()
            return "change", b
        if a is not None:
            self._a.next()
            return "change", a
        if b is not None:
            self._b.next()
            return "passed", b
        return "same", 0

    def _told(self, index: int, number: int) -> dict[str, Any]:
        change = self._changes[index]
        return {
            "row": "change",
            "number": number,
            "change": index,
            "status": change.status,
            "reason": change.reason,
            "words": WORDS[change.reason],
            "expected": self._names[0].told(change.expected),
            "actual": self._names[1].told(change.actual),
        }


class _Named:
    """Events as a line says them."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._readers: dict[str, JournalReader] = {}

    def told(self, place: EventPlace | None) -> dict[str, Any] | None:
        if place is None:
            return None
        about: dict[str, Any] = {"name": None, "gist": "", "time": None}
        with suppress(OnrecordError):  # what cannot be read is shown without it; `verify` says what is the matter
            about = self._about(place)
        return {"run": place.run, "seq": place.seq, "kind": place.kind, "lane": place.lane, **about}

    def _about(self, place: EventPlace) -> dict[str, Any]:
        reader = self._readers.setdefault(place.run, JournalReader(self._side.store, place.run, self._side.namespace))
        row = reader.store.event(reader.namespace, place.run, place.seq)
        if row is None:
            return {"name": None, "gist": "", "time": None}
        link = reader.link(row)
        content = outline(row, link.content)
        name = content.get("name") if isinstance(content, dict) else None
        if not isinstance(name, str) and link.parent is not None:
            name = _name_of(reader, link.parent)
        return {"name": name, "gist": gist_of(place.kind, content), "time": iso_time(link.time)}


def _name_of(reader: JournalReader, seq: int) -> str | None:
    row = reader.store.event(reader.namespace, reader.run, seq)
    content = None if row is None else outline(row, reader.link(row).content)
    name = content.get("name") if isinstance(content, dict) else None
    return name if isinstance(name, str) else None


# Two events


def event_difference(expected: JournalReader, seq: int, actual: JournalReader, other_seq: int) -> dict[str, Any]:
    """Where the contents of two events differ: texts by words, and the JSON patch from the one to the other.

    What never counts (ids, times that are part of a content) is left out of the differences, and is in the patch.
    """
    one, other = one_event(expected, seq), one_event(actual, other_seq)
    sides = ((expected, one), (actual, other))
    data: dict[str, Any] = {
        "expected": {"run": expected.run, **_head(one)},
        "actual": {"run": actual.run, **_head(other)},
        "erased": one.erased or other.erased,
        "differences": [],
        "total": 0,
        "patch": None,
        "patch_steps": 0,
    }
    if data["erased"]:
        return data
    counted = [_rules(reader).without_volatile(event.kind, event.content) for reader, event in sides]
    try:
        found = compare_trees(*counted, limit=DIFFERENCES)
    except InvalidValue:
        return data  # a stranger's recording may hold what has no canonical form
    patch = patch_between(one.content, other.content)
    data |= {"differences": [difference_report(each, VALUE_ROOM) for each in found.differences], "total": found.total}
    if patch is not None:
        data |= {"patch": patch[:PATCH_ROOM], "patch_steps": len(patch)}
    return data


def _rules(reader: JournalReader) -> MatchRules:
    try:
        return reader.rules()
    except OnrecordError:
        return MatchRules()  # its own went with its facts: then fields that do not count may be shown


def _head(event: SeenEvent) -> dict[str, Any]:
    return {**event.to_json(), "content": None}
