"""Comparing two runs: whether they did the same, where they part first, and what became of the rest.

The first run is what was expected, the second what came. Run ids, times, salts and whatever else match rules leave out
take no part. Both runs are taken as they stand when the comparison begins; neither is changed.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from reenact.core.events import TERMINAL_KINDS
from reenact.core.hashing import render
from reenact.replays.divergence.aligned_lanes import NOBODY, LaneAlignment, Step, lanes_in_order
from reenact.replays.divergence.bisecting import (
    Divergences,
    LaneDivergence,
    OrderDivergence,
    find_divergences,
    open_pair,
)
from reenact.replays.divergence.contents import Contents, begun_differently, describe_contents
from reenact.replays.divergence.lane_events import LaneEvents, LaneReader
from reenact.replays.divergence.reasons import Reason, reason_between
from reenact.replays.divergence.results import (
    STATUSES,
    ComparedRun,
    EventPlace,
    FirstDivergence,
    RunChange,
    RunComparison,
    Verdict,
)
from reenact.replays.divergence.run_lanes import RunLanes
from reenact.store.contract import EventRow, Store

MOST_SHOWN = 100


class _Two(NamedTuple):
    a: RunLanes
    b: RunLanes
    contents_a: Contents
    contents_b: Contents


def compare_runs(
    store_a: Store,
    run_a: str,
    store_b: Store,
    run_b: str,
    *,
    namespace_a: str = "default",
    namespace_b: str = "default",
    align: bool = True,
    most_shown: int = MOST_SHOWN,
) -> RunComparison:
    """What the second run did otherwise than the first.

    Without `align` only the first divergence is looked for, which reads a few dozen digests however long the runs are;
    then events that merely moved within their lane are not told from others.
    Raises NotFound for a run that is not there; what differs is a value, see `RunComparison.raise_if_diverged`.
    """
    a, b = open_pair(store_a, run_a, store_b, run_b, namespace_a, namespace_b)
    runs = (_compared(a), _compared(b))
    if a.events == b.events == 0:
        return RunComparison(verdict="empty", expected=runs[0], actual=runs[1], aligned=True)
    if runs[0].head == runs[1].head:
        # One chain, whatever it is called and whatever of it is erased: the links commit to every content.
        counts: dict[str, int] = {status: a.events if status == "matched" else 0 for status in STATUSES}
        return RunComparison(verdict="same", expected=runs[0], actual=runs[1], aligned=True, counts=counts)
    two = _Two(a, b, Contents(a), Contents(b))
    found = find_divergences(a, b)
    alignments = _align(two, found.lanes) if align else []
    return RunComparison(
        verdict=_verdict(found, alignments),
        expected=runs[0],
        actual=runs[1],
        first=_first(two, found, alignments),
        begun_differently=begun_differently(a.reader, b.reader),
        aligned=align,
        counts=_count(a, b, found, alignments) if align else {},
        changes=_changes(two, found, alignments, most_shown),
        changes_in_all=sum(len(one.steps) for one in alignments) + len(found.unknown),
        unknown=len(found.unknown) + sum(step.status == "unknown" for one in alignments for step in one.steps),
        lanes_compared=len(found.pairs),
        reads=found.reads,
    )


def _compared(run: RunLanes) -> ComparedRun:
    reader = run.reader
    last = reader.store.last_event(reader.namespace, reader.run)
    return ComparedRun(
        run=reader.run,
        namespace=reader.namespace,
        events=run.events,
        lanes=len(run.ends),
        head=render(reader.header_row.hash if last is None else last.hash),
    )


def _align(two: _Two, lanes: list[LaneDivergence]) -> list[LaneAlignment]:
    """The lanes that differ, from where they part."""
    reader = LaneReader()
    read_a = reader.read(two.a, {one.expected.lane: one.expected for one in lanes if one.expected is not None})
    read_b = reader.read(two.b, {one.actual.lane: one.actual for one in lanes if one.actual is not None})
    return [
        LaneAlignment(
            read_a.get(one.pair.a or "") or LaneEvents(one.pair.a or "", one.place),
            read_b.get(one.pair.b or "") or LaneEvents(one.pair.b or "", one.place),
        )
        for one in lanes
    ]


def _count(a: RunLanes, b: RunLanes, found: Divergences, alignments: list[LaneAlignment]) -> dict[str, int]:
    counts = Counter(step.status for one in alignments for step in one.steps)
    counts["unknown"] += len(found.unknown)
    theirs = sum(count for status, count in counts.items() if status != "added")
    counts["matched"] = a.events - theirs
    assert a.events - counts["removed"] == b.events - counts["added"], "every event of either side has one status"
    return {status: counts[status] for status in STATUSES}


def _verdict(found: Divergences, alignments: list[LaneAlignment]) -> Verdict:
    statuses = {step.status for one in alignments for step in one.steps}
    if statuses & {"changed", "added", "removed"} or (found.lanes and not alignments):
        return "diverged"
    if found.unknown or "unknown" in statuses:
        return "unknown"
    return "reordered" if found.lanes or found.order is not None else "same"


# --- the first divergence ---


def _first(two: _Two, found: Divergences, alignments: list[LaneAlignment]) -> FirstDivergence | None:
    first = found.first
    if first is None:
        return _first_unknown(two, found)
    if isinstance(first, OrderDivergence):
        return _told(two, first.position, first.expected, first.actual, "other_order", whole_run=True)
    reason = _reason(two, found, first, alignments[0] if alignments else None)
    return _told(two, first.place, first.expected, first.actual, reason)


def _first_unknown(two: _Two, found: Divergences) -> FirstDivergence | None:
    """Nothing is known to differ, but something cannot be known to be the same."""
    if not found.unknown:
        return None
    seq_a, seq_b = found.unknown[0]
    expected, actual = two.contents_a.row(seq_a), two.contents_b.row(seq_b)
    place = next((row.lane_seq for row in (expected, actual) if row is not None), None)
    return _told(two, place or 0, expected, actual, "erased")


def _told(
    two: _Two,
    position: int,
    expected: EventRow | None,
    actual: EventRow | None,
    reason: Reason,
    *,
    whole_run: bool = False,
) -> FirstDivergence:
    content_a, content_b = two.contents_a.of(expected), two.contents_b.of(actual)
    differences = None
    if content_a is not None and content_b is not None and reason != "other_order":
        differences = describe_contents(content_a, content_b)
    lane = expected.lane if expected is not None else actual.lane if actual is not None else ""
    return FirstDivergence(
        position=position,
        lane="" if whole_run else lane,
        reason=reason,
        expected=_place(two.a, expected),
        actual=_place(two.b, actual),
        differences=differences,
    )


def _reason(two: _Two, found: Divergences, first: LaneDivergence, alignment: LaneAlignment | None) -> Reason:
    expected, actual = first.expected, first.actual
    if expected is None or actual is None:
        return _reason_of_length(two, found, first)
    if expected.match == actual.match and expected.match is not None:
        return "other_order"  # the same answer, to another request
    positional = reason_between(expected.kind, actual.kind, two.contents_a.of(expected), two.contents_b.of(actual))
    if positional in ("ended_earlier", "longer") or alignment is None or alignment.are_partners(0, 0):
        return positional
    ours, theirs = alignment.status_of_a(0), alignment.status_of_b(0)
    if ours == "removed" and theirs != "added":
        return "missing"
    if theirs == "added" and ours != "removed":
        return "extra"
    return positional if ours == "removed" else "other_order"


def _reason_of_length(two: _Two, found: Divergences, first: LaneDivergence) -> Reason:
    """When a run only stops short of what the other did, it is the run that is shorter; else a lane lacks something."""
    if first.actual is None:
        stops = "." not in (first.pair.a or "") or _only_stops(two.b, [one.actual for one in found.lanes])
        return "ended_earlier" if stops else "missing"
    stops = "." not in (first.pair.b or "") or _only_stops(two.a, [one.expected for one in found.lanes])
    return "longer" if stops else "extra"


def _only_stops(shorter: RunLanes, instead: list[EventRow | None]) -> bool:
    """It has not ended, and did nothing that the other did not do."""
    ended = any(end.kind in TERMINAL_KINDS for end in shorter.ends.values())
    return not ended and all(row is None for row in instead)


def _place(run: RunLanes, row: EventRow | None) -> EventPlace | None:
    if row is None:
        return None
    kept_in, seq = run.origin(row)
    return EventPlace(
        run=kept_in,
        seq=seq,
        id=row.id,
        kind=row.kind,
        lane=row.lane,
        position=row.lane_seq or 0,
        key=run.reader.link(row).key,
        match=None if row.match is None else render(row.match),
    )


# --- the rest ---


def _changes(two: _Two, found: Divergences, alignments: list[LaneAlignment], most: int) -> list[RunChange]:
    """The first of all that did not match, in the order in which it came. Only of these contents are opened."""
    entries: list[tuple[int, LaneAlignment | None, Step]] = [
        (seq_a or seq_b or 0, None, Step("unknown", seq_a or NOBODY, seq_b or NOBODY)) for seq_a, seq_b in found.unknown
    ]
    entries.extend(lanes_in_order(alignments))
    entries.sort(key=lambda entry: entry[0])
    return [_change(two, alignment, step) for _, alignment, step in entries[:most]]


def _change(two: _Two, alignment: LaneAlignment | None, step: Step) -> RunChange:
    seq_a, seq_b = step.a, step.b
    if alignment is not None:
        seq_a = alignment.a.seqs[step.a] if step.a != NOBODY else NOBODY
        seq_b = alignment.b.seqs[step.b] if step.b != NOBODY else NOBODY
    row_a = two.contents_a.row(None if seq_a == NOBODY else seq_a)
    row_b = two.contents_b.row(None if seq_b == NOBODY else seq_b)
    reason: Reason = "other_order"
    differences = None
    if step.status in ("added", "removed"):
        reason = "extra" if step.status == "added" else "missing"
    elif step.status == "unknown":
        reason = "erased"
    elif step.status == "changed" and row_a is not None and row_b is not None:
        content_a, content_b = two.contents_a.of(row_a), two.contents_b.of(row_b)
        reason = reason_between(row_a.kind, row_b.kind, content_a, content_b)
        if content_a is not None and content_b is not None:
            differences = describe_contents(content_a, content_b)
    return RunChange(
        status=step.status,
        reason=reason,
        expected=_place(two.a, row_a),
        actual=_place(two.b, row_b),
        differences=differences,
    )
