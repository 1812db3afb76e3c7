"""The first divergence of two runs, by bisection on prefix digests, lane by lane.

A prefix digest sums up everything that a lane did up to an event. Once two lanes differ, all their later digests
differ too, so the first difference is found by halving: two reads a step, twenty steps in a million events. Lanes
whose digests are equal at their ends are not looked into at all.

A content that was erased on one side makes every later digest of that lane differ although nothing else may. What
comes behind it is then compared event by event, in one pass: whether the erased event was the same is unknown, and
said to be.

Digests are taken as the store keeps them. Whether they are what was recorded is for `verify` to say.
"""

from __future__ import annotations

from typing import NamedTuple

from reenact.core.links import BASE_RULES
from reenact.errors import InvalidInput, Refused
from reenact.replays.divergence.binding import LanePair, bind_lanes
from reenact.replays.divergence.lane_events import ERASED, LaneEvents, LaneReader
from reenact.replays.divergence.run_lanes import RunLanes
from reenact.replays.divergence.whole_line import whole_line
from reenact.store.contract import EventRow, Store


class LaneDivergence(NamedTuple):
    """Where two lanes that belong together part."""

    pair: LanePair
    place: int
    """The first event of the lanes that differs, counted from 1."""
    expected: EventRow | None
    """What stands there in the first run, without its content; None: that lane has ended."""
    actual: EventRow | None

    @property
    def first_seq(self) -> int:
        return min(row.seq for row in (self.expected, self.actual) if row is not None)


class OrderDivergence(NamedTuple):
    """Equal lanes, another interleaving: the first behavioural event of the runs that stands in another lane."""

    position: int
    expected: EventRow
    actual: EventRow


class Divergences(NamedTuple):
    """What bisection found. `lanes` are in the order in which they part."""

    pairs: list[LanePair]
    lanes: list[LaneDivergence]
    order: OrderDivergence | None
    """Looked for when no lane differs."""
    unknown: list[tuple[int | None, int | None]]
    """Seqs of events that were compared and whose contents are gone on either side."""
    reads: dict[str, int]
    """Digests read, for each lane that was looked into (by its name in the first run, or else in the second)."""

    @property
    def first(self) -> LaneDivergence | OrderDivergence | None:
        return self.lanes[0] if self.lanes else self.order


def open_pair(
    store_a: Store, run_a: str, store_b: Store, run_b: str, namespace_a: str = "default", namespace_b: str = "default"
) -> tuple[RunLanes, RunLanes]:
    """Two runs that can be compared. Raises NotFound for an unknown one."""
    a, b = whole_line(store_a, run_a, namespace_a), whole_line(store_b, run_b, namespace_b)
    if a.header.rules != b.header.rules:
        raise InvalidInput(
            f"runs {run_a} and {run_b} were recorded under different match rules",
            hint="Digests made under different rules say nothing about each other; record one of them anew.",
            code="other_rules",
        )
    for reader in (a, b):
        if reader.imported and reader.header.rules != BASE_RULES and reader.facts() is None:
            raise Refused(
                f"the match rules of run {reader.run} were erased before it was imported; its digests are mere claims",
                hint="Compare where it was recorded.",
                code="rules_erased",
            )
    return RunLanes(a), RunLanes(b)


def find_divergences(a: RunLanes, b: RunLanes) -> Divergences:
    """Where the lanes of two runs part, each lane's first difference, and the interleaving if no lane differs."""
    pairs = bind_lanes(a, b)
    parted = [_part(a, b, pair) for pair in pairs if not pair.alike and not _is_empty(a, b, pair)]
    unknown = _erased_alike(a, b, pairs, parted)
    known = [one for one in parted if not _is_erased(one)]
    doubtful = [one for one in parted if _is_erased(one)]
    if doubtful:
        later, compared = _behind_erased(a, b, doubtful)
        known += later
        unknown += compared
    known.sort(key=lambda one: (one.first_seq, one.pair.a or "", one.pair.b or ""))
    order = first_reordering(a, b, pairs) if not known else None
    reads = {one.pair.a or one.pair.b or "": 0 for one in parted}
    for pair in pairs:
        name = pair.a or pair.b or ""
        count = a.reads[pair.a or ""] + b.reads[pair.b or ""]
        if count or name in reads:
            reads[name] = count + (pair.a in a.ends) + (pair.b in b.ends)
    return Divergences(pairs, known, order, sorted(unknown, key=lambda seqs: (seqs[0] or 0, seqs[1] or 0)), reads)


def _is_empty(a: RunLanes, b: RunLanes, pair: LanePair) -> bool:
    """Lanes that only have lanes below them."""
    return a.length(pair.a or "") == b.length(pair.b or "") == 0


def _is_erased(parted: LaneDivergence) -> bool:
    """Only what stands on both sides is compared; an event too many is one, erased or not."""
    if parted.expected is None or parted.actual is None:
        return False
    return parted.expected.match is None or parted.actual.match is None


def _part(a: RunLanes, b: RunLanes, pair: LanePair) -> LaneDivergence:
    """The first place where two lanes differ that are known to."""
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


def _erased_alike(
    a: RunLanes, b: RunLanes, pairs: list[LanePair], parted: list[LaneDivergence]
) -> list[tuple[int | None, int | None]]:
    """Events erased on both sides where the lanes are alike: their digests are those of the marker, which says nothing.

    One that is erased on one side only makes the digests differ, so one side's erasures are all there are.
    """
    erased = a.erased()
    if not erased:
        return []
    alike_below = {one.pair.a: one.place for one in parted}
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


def _behind_erased(
    a: RunLanes, b: RunLanes, doubtful: list[LaneDivergence]
) -> tuple[list[LaneDivergence], list[tuple[int | None, int | None]]]:
    """Goes on behind erased contents, where digests of what came before do not help any more."""
    reader = LaneReader()
    read_a = reader.read(a, {one.expected.lane: one.expected for one in doubtful if one.expected is not None})
    read_b = reader.read(b, {one.actual.lane: one.actual for one in doubtful if one.actual is not None})
    found: list[LaneDivergence] = []
    unknown: list[tuple[int | None, int | None]] = []
    for one in doubtful:
        events_a, events_b = read_a[one.pair.a or ""], read_b[one.pair.b or ""]
        index = _first_known(events_a, events_b, unknown)
        if index < max(len(events_a), len(events_b)):
            place = one.place + index
            expected = a.at(events_a.lane, place) if index < len(events_a) else None
            actual = b.at(events_b.lane, place) if index < len(events_b) else None
            found.append(LaneDivergence(one.pair, place, expected, actual))
    return found, unknown


def _first_known(a: LaneEvents, b: LaneEvents, unknown: list[tuple[int | None, int | None]]) -> int:
    """The first index where two stretches are known to differ; what is erased on the way is put down."""
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
    """The first event that stands in another lane, of two runs whose lanes are equal. One lane has one order."""
    if len(a.ends) < 2:
        return None
    names = {pair.b: pair.a for pair in pairs}
    streams = [(row for row in run.scan(1) if row.lane_seq is not None) for run in (a, b)]
    for position, (one, other) in enumerate(zip(*streams, strict=False), start=1):
        if one.lane != names.get(other.lane):
            return OrderDivergence(position, one, other)
    return None
