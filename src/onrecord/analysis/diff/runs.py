"""Compare two runs: whether they did the same, where they first diverge, and the status of every later event.

The first run is the expected one, the second the actual one. Run ids, times, salts and other fields that the match
rules leave out are not compared. Events appended after the comparison begins are not read.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from onrecord.analysis.diff.bisection import Divergences, LaneDivergence, OrderDivergence, find_divergences, open_pair
from onrecord.analysis.diff.contents import Contents, begun_differently, describe_contents
from onrecord.analysis.diff.lane_alignment import NO_PARTNER, AlignedStep, LaneAlignment, steps_in_order
from onrecord.analysis.diff.lane_events import LaneEvents, LaneReader
from onrecord.analysis.diff.reasons import Reason, reason_between
from onrecord.analysis.diff.results import (
    STATUSES,
    ComparedRun,
    EventPlace,
    FirstDivergence,
    RunChange,
    RunComparison,
    Verdict,
)
from onrecord.analysis.diff.run_lanes import RunLanes
from onrecord.core.events import TERMINAL_KINDS
from onrecord.core.hashing import render
from onrecord.core.lane_names import ROOT_LANE, is_root_lane
from onrecord.store.contract import EventRow, Store

MOST_SHOWN = 100


class _OpenRuns(NamedTuple):
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
    """Return the differences of the second run from the first.

    `align=False` searches only the first divergence. It reads a few dozen digests however long the runs are, but does
    not recognise events that moved within their lane.
    Raise NotFound for an unknown run. Differences are returned; `RunComparison.raise_if_diverged` raises them.
    """
    a, b = open_pair(store_a, run_a, store_b, run_b, namespace_a, namespace_b)
    runs = (_describe_run(a), _describe_run(b))
    if a.events == b.events == 0:
        return RunComparison(verdict="empty", expected=runs[0], actual=runs[1], aligned=True)
    if runs[0].head == runs[1].head:
        # The same chain, under any name and with any erasures: the links commit to every content.
        counts: dict[str, int] = {status: a.events if status == "matched" else 0 for status in STATUSES}
        return RunComparison(verdict="same", expected=runs[0], actual=runs[1], aligned=True, counts=counts)
    opened = _OpenRuns(a, b, Contents(a), Contents(b))
    found = find_divergences(a, b)
    alignments = _align(opened, found.lanes) if align else []
    return RunComparison(
        verdict=_verdict(found, alignments),
        expected=runs[0],
        actual=runs[1],
        first=_find_first(opened, found, alignments),
        begun_differently=begun_differently(a.reader, b.reader),
        aligned=align,
        counts=_count_statuses(a, b, found, alignments) if align else {},
        changes=_list_changes(opened, found, alignments, most_shown),
        changes_in_all=sum(len(one.steps) for one in alignments) + len(found.unknown),
        unknown=len(found.unknown) + sum(step.status == "unknown" for one in alignments for step in one.steps),
        lanes_compared=len(found.pairs),
        reads=found.reads,
    )


def _describe_run(run: RunLanes) -> ComparedRun:
    reader = run.reader
    last = reader.store.last_event(reader.namespace, reader.run)
    return ComparedRun(
        run=reader.run,
        namespace=reader.namespace,
        events=run.events,
        lanes=len(run.ends),
        head=render(reader.header_row.hash if last is None else last.hash),
    )


def _align(opened: _OpenRuns, lanes: list[LaneDivergence]) -> list[LaneAlignment]:
    """Align the differing lanes from their first difference on."""
    reader = LaneReader()
    read_a = reader.read(opened.a, {one.expected.lane: one.expected for one in lanes if one.expected is not None})
    read_b = reader.read(opened.b, {one.actual.lane: one.actual for one in lanes if one.actual is not None})
    return [
        LaneAlignment(
            read_a.get(one.pair.a or "") or LaneEvents(one.pair.a or "", one.place),
            read_b.get(one.pair.b or "") or LaneEvents(one.pair.b or "", one.place),
        )
        for one in lanes
    ]


def _count_statuses(a: RunLanes, b: RunLanes, found: Divergences, alignments: list[LaneAlignment]) -> dict[str, int]:
    counts = Counter(step.status for one in alignments for step in one.steps)
    counts["unknown"] += len(found.unknown)
    counts["matched"] = a.events - sum(count for status, count in counts.items() if status != "added")
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


def _find_first(opened: _OpenRuns, found: Divergences, alignments: list[LaneAlignment]) -> FirstDivergence | None:
    first = found.first
    if first is None:
        return _first_unknown(opened, found)
    if isinstance(first, OrderDivergence):
        return _make_divergence(opened, first.position, first.expected, first.actual, "other_order", whole_run=True)
    reason = _reason(opened, found, first, alignments[0] if alignments else None)
    return _make_divergence(opened, first.place, first.expected, first.actual, reason)


def _first_unknown(opened: _OpenRuns, found: Divergences) -> FirstDivergence | None:
    """Return the first erased event, if nothing is known to differ."""
    if not found.unknown:
        return None
    seq_a, seq_b = found.unknown[0]
    expected, actual = opened.contents_a.row(seq_a), opened.contents_b.row(seq_b)
    place = next((row.lane_seq for row in (expected, actual) if row is not None), None)
    return _make_divergence(opened, place or 0, expected, actual, "erased")


def _make_divergence(
    opened: _OpenRuns,
    position: int,
    expected: EventRow | None,
    actual: EventRow | None,
    reason: Reason,
    *,
    whole_run: bool = False,
) -> FirstDivergence:
    content_a, content_b = opened.contents_a.of(expected), opened.contents_b.of(actual)
    differences = None
    if content_a is not None and content_b is not None and reason != "other_order":
        differences = describe_contents(content_a, content_b)
    lane = expected.lane if expected is not None else actual.lane if actual is not None else ""
    return FirstDivergence(
        position=position,
        lane="" if whole_run else lane,
        reason=reason,
        expected=_event_place(opened.a, expected),
        actual=_event_place(opened.b, actual),
        differences=differences,
    )


def _reason(opened: _OpenRuns, found: Divergences, first: LaneDivergence, alignment: LaneAlignment | None) -> Reason:
    expected, actual = first.expected, first.actual
    if expected is None or actual is None:
        return _reason_of_length(opened, found, first)
    if expected.match == actual.match and expected.match is not None:
        return "other_order"  # the same answer, to another request
    positional = reason_between(
        expected.kind, actual.kind, opened.contents_a.of(expected), opened.contents_b.of(actual)
    )
    if positional in ("ended_earlier", "longer") or alignment is None or alignment.are_partners(0, 0):
        return positional
    status_a, status_b = alignment.status_of_a(0), alignment.status_of_b(0)
    if status_a == "removed" and status_b != "added":
        return "missing"
    if status_b == "added" and status_a != "removed":
        return "extra"
    return positional if status_a == "removed" else "other_order"


def _reason_of_length(opened: _OpenRuns, found: Divergences, first: LaneDivergence) -> Reason:
    """Return whether the run as a whole is shorter or longer, or only a lane lacks or adds something."""
    if first.actual is None:
        stops = is_root_lane(first.pair.a or ROOT_LANE) or _only_stopped(opened.b, [one.actual for one in found.lanes])
        return "ended_earlier" if stops else "missing"
    stops = is_root_lane(first.pair.b or ROOT_LANE) or _only_stopped(opened.a, [one.expected for one in found.lanes])
    return "longer" if stops else "extra"


def _only_stopped(shorter: RunLanes, instead: list[EventRow | None]) -> bool:
    """Return True if the run has not ended and did nothing that the other did not do."""
    ended = any(end.kind in TERMINAL_KINDS for end in shorter.ends.values())
    return not ended and all(row is None for row in instead)


def _event_place(run: RunLanes, row: EventRow | None) -> EventPlace | None:
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


def _list_changes(opened: _OpenRuns, found: Divergences, alignments: list[LaneAlignment], most: int) -> list[RunChange]:
    """Return the first events that did not match, in order. Only their contents are opened."""
    entries: list[tuple[int, LaneAlignment | None, AlignedStep]] = [
        (seq_a or seq_b or 0, None, AlignedStep("unknown", seq_a or NO_PARTNER, seq_b or NO_PARTNER))
        for seq_a, seq_b in found.unknown
    ]
    entries.extend(steps_in_order(alignments))
    entries.sort(key=lambda entry: entry[0])
    return [_make_change(opened, alignment, step) for _, alignment, step in entries[:most]]


def _make_change(opened: _OpenRuns, alignment: LaneAlignment | None, step: AlignedStep) -> RunChange:
    seq_a, seq_b = step.a, step.b
    if alignment is not None:
        seq_a = alignment.a.seqs[step.a] if step.a != NO_PARTNER else NO_PARTNER
        seq_b = alignment.b.seqs[step.b] if step.b != NO_PARTNER else NO_PARTNER
    row_a = opened.contents_a.row(None if seq_a == NO_PARTNER else seq_a)
    row_b = opened.contents_b.row(None if seq_b == NO_PARTNER else seq_b)
    reason: Reason = "other_order"
    differences = None
    if step.status in ("added", "removed"):
        reason = "extra" if step.status == "added" else "missing"
    elif step.status == "unknown":
        reason = "erased"
    elif step.status == "changed" and row_a is not None and row_b is not None:
        content_a, content_b = opened.contents_a.of(row_a), opened.contents_b.of(row_b)
        reason = reason_between(row_a.kind, row_b.kind, content_a, content_b)
        if content_a is not None and content_b is not None:
            differences = describe_contents(content_a, content_b)
    return RunChange(
        status=step.status,
        reason=reason,
        expected=_event_place(opened.a, row_a),
        actual=_event_place(opened.b, row_b),
        differences=differences,
    )
