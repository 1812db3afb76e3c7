"""Find the first divergence of two runs by bisection on prefix digests, lane by lane.

A prefix digest covers everything that a lane did up to an event. Once two lanes differ, all their later digests differ
too, so bisection finds the first difference: two reads a step, twenty steps for a million events. Lanes with equal
digests at their ends are not read.

A content erased on one side makes every later digest of that lane differ, even if nothing else does. The events after
it are then compared one by one, in one pass, and the erased event is reported as unknown.

Digests are read as stored; `verify` checks them.
"""

from __future__ import annotations

from typing import NamedTuple

from onrecord.analysis.diff.lane_events import ERASED, LaneEvents, LaneReader
from onrecord.analysis.diff.lane_pairs import LanePair, bind_lanes
from onrecord.analysis.diff.lineage import open_lineage
from onrecord.analysis.diff.run_lanes import RunLanes
from onrecord.core.links import BASE_RULES
from onrecord.errors import InvalidInput, Refused
from onrecord.store.contract import EventRow, Store


class LaneDivergence(NamedTuple):
    """The first difference of two paired lanes."""

    pair: LanePair
    place: int
    """The position of the first event that differs, counted from 1."""
    expected: EventRow | None
    """The event of the first run, without its content; None if its lane has ended."""
    actual: EventRow | None

    @property
    def first_seq(self) -> int:
        return min(row.seq for row in (self.expected, self.actual) if row is not None)


class OrderDivergence(NamedTuple):
    """The first behavioural event in another lane, for runs with equal lanes and another interleaving."""

    position: int
    expected: EventRow
    actual: EventRow


class Divergences(NamedTuple):
    """The result of the bisection. `lanes` are in the order in which they diverge."""

    pairs: list[LanePair]
    lanes: list[LaneDivergence]
    order: OrderDivergence | None
    """Set only if no lane differs."""
    unknown: list[tuple[int | None, int | None]]
    """Seqs of compared events with a content erased on either side."""
    reads: dict[str, int]
    """Digests read in each lane, by its name in the first run, or else in the second."""

    @property
    def first(self) -> LaneDivergence | OrderDivergence | None:
        return self.lanes[0] if self.lanes else self.order


def open_pair(
    store_a: Store, run_a: str, store_b: Store, run_b: str, namespace_a: str = "default", namespace_b: str = "default"
) -> tuple[RunLanes, RunLanes]:
    """Open two runs for comparison. Raise NotFound for an unknown run and refuse runs that cannot be compared."""
    a, b = open_lineage(store_a, run_a, namespace_a), open_lineage(store_b, run_b, namespace_b)
    if a.header.rules != b.header.rules:
        raise InvalidInput(
            f"runs {run_a} and {run_b} were recorded under different match rules",
            hint="Digests made under different rules cannot be compared; record one of the runs again.",
            code="other_rules",
        )
    for reader in (a, b):
        if reader.imported and reader.header.rules != BASE_RULES and reader.facts() is None:
            raise Refused(
                f"the match rules of run {reader.run} were erased before its import, so its digests cannot be checked",
                hint="Compare the runs in the store where it was recorded.",
                code="rules_erased",
            )
    return RunLanes(a), RunLanes(b)


def find_divergences(a: RunLanes, b: RunLanes) -> Divergences:
    """Return the first difference of each lane, or of the interleaving if no lane differs."""
    pairs = bind_lanes(a, b)
    differing = [_bisect_lane(a, b, pair) for pair in pairs if not pair.alike and not _is_empty(a, b, pair)]
    unknown = _find_erased_pairs(a, b, pairs, differing)
    known = [one for one in differing if not _is_erased(one)]
    erased = [one for one in differing if _is_erased(one)]
    if erased:
        later, compared = _compare_after_erased(a, b, erased)
        known += later
        unknown += compared
    known.sort(key=lambda one: (one.first_seq, one.pair.a or "", one.pair.b or ""))
    order = first_reordering(a, b, pairs) if not known else None
    reads = {one.pair.a or one.pair.b or "": 0 for one in differing}
    for pair in pairs:
        name = pair.a or pair.b or ""
        count = a.reads[pair.a or ""] + b.reads[pair.b or ""]
        if count or name in reads:
            reads[name] = count + (pair.a in a.ends) + (pair.b in b.ends)
    return Divergences(pairs, known, order, sorted(unknown, key=lambda seqs: (seqs[0] or 0, seqs[1] or 0)), reads)


def _is_empty(a: RunLanes, b: RunLanes, pair: LanePair) -> bool:
    """Return True if both lanes have child lanes only."""
    return a.length(pair.a or "") == b.length(pair.b or "") == 0


def _is_erased(differing: LaneDivergence) -> bool:
    """Return True if both sides have an event and one is erased. An extra event differs, erased or not."""
    if differing.expected is None or differing.actual is None:
        return False
    return differing.expected.match is None or differing.actual.match is None


def _bisect_lane(a: RunLanes, b: RunLanes, pair: LanePair) -> LaneDivergence:
    """Return the first difference of two lanes that are known to differ."""
    lane_a, lane_b = pair.a or "", pair.b or ""
    shared = min(a.length(lane_a), b.length(lane_b))
    alike = 0
    if shared:
        expected, actual = a.at(lane_a, shared), b.at(lane_b, shared)
        if expected.prefix == actual.prefix:
            alike = shared
    if alike == shared:
        place = shared + 1
        longer_a, longer_b = a.length(lane_a) > shared, b.length(lane_b) > shared
        return LaneDivergence(
            pair, place, a.at(lane_a, place) if longer_a else None, b.at(lane_b, place) if longer_b else None
        )
    differs = shared
    while differs - alike > 1:
        middle = (alike + differs) // 2
        one, other = a.at(lane_a, middle), b.at(lane_b, middle)
        if one.prefix == other.prefix:
            alike = middle
        else:
            differs, expected, actual = middle, one, other
    return LaneDivergence(pair, differs, expected, actual)


def _find_erased_pairs(
    a: RunLanes, b: RunLanes, pairs: list[LanePair], differing: list[LaneDivergence]
) -> list[tuple[int | None, int | None]]:
    """Return the events erased on both sides where the lanes are equal: equal erasure markers prove nothing.

    An event erased on one side only makes the digests differ, so the erasures of one side are enough.
    """
    erased = a.erased()
    if not erased:
        return []
    alike_below = {one.pair.a: one.place for one in differing}
    counterparts = {pair.a: pair.b for pair in pairs}
    unknown: list[tuple[int | None, int | None]] = []
    for seq in sorted(erased):
        row = a.row(seq)
        if row is None or row.lane_seq is None or row.lane_seq >= alike_below.get(row.lane, row.lane_seq + 1):
            continue
        other = counterparts.get(row.lane)
        if other is not None and row.seq <= a.last_seq:
            unknown.append((seq, b.at(other, row.lane_seq).seq))
    return unknown


def _compare_after_erased(
    a: RunLanes, b: RunLanes, erased: list[LaneDivergence]
) -> tuple[list[LaneDivergence], list[tuple[int | None, int | None]]]:
    """Compare the events after erased contents one by one, because their prefix digests no longer help."""
    reader = LaneReader()
    read_a = reader.read(a, {one.expected.lane: one.expected for one in erased if one.expected is not None})
    read_b = reader.read(b, {one.actual.lane: one.actual for one in erased if one.actual is not None})
    found: list[LaneDivergence] = []
    unknown: list[tuple[int | None, int | None]] = []
    for one in erased:
        events_a, events_b = read_a[one.pair.a or ""], read_b[one.pair.b or ""]
        index = _first_known_difference(events_a, events_b, unknown)
        if index < max(len(events_a), len(events_b)):
            place = one.place + index
            expected = a.at(events_a.lane, place) if index < len(events_a) else None
            actual = b.at(events_b.lane, place) if index < len(events_b) else None
            found.append(LaneDivergence(one.pair, place, expected, actual))
    return found, unknown


def _first_known_difference(a: LaneEvents, b: LaneEvents, unknown: list[tuple[int | None, int | None]]) -> int:
    """Return the first index where two stretches are known to differ; append erased events to `unknown`."""
    shared = min(len(a), len(b))
    for index in range(shared):
        if a.kinds[index] != b.kinds[index] or a.distances[index] != b.distances[index]:
            return index
        if a.matches[index] == ERASED or b.matches[index] == ERASED:
            unknown.append((a.seqs[index], b.seqs[index]))
        elif a.matches[index] != b.matches[index]:
            return index
    return shared


def first_reordering(a: RunLanes, b: RunLanes, pairs: list[LanePair]) -> OrderDivergence | None:
    """Return the first event in another lane, for two runs with equal lanes. A single lane cannot be reordered."""
    if len(a.ends) < 2:
        return None
    names = {pair.b: pair.a for pair in pairs}
    streams = [(row for row in run.scan(1) if row.lane_seq is not None) for run in (a, b)]
    for position, (one, other) in enumerate(zip(*streams, strict=False), start=1):
        if one.lane != names.get(other.lane):
            return OrderDivergence(position, one, other)
    return None
