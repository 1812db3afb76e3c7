"""Bisection finds what comparing everything finds, and reads little for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden.vectors import FixedSources
from kit.divergences import Op, answer, ask, call, calls, compare_slowly, write
from kit.soak import long
from onrecord.analysis.diff.bisection import Divergences, LaneDivergence, find_divergences, open_pair
from onrecord.core.links import ParentRun
from onrecord.errors import InvalidInput, NotFound, Refused
from onrecord.journal.create import create_header
from onrecord.journal.erasure import erase_value
from onrecord.journal.export import export_run
from onrecord.journal.import_file import import_file
from onrecord.journal.reader import JournalReader
from onrecord.store.contract import EventRow, Store
from onrecord.store.factory import open_store
from onrecord.store.memory import MemoryStore
from onrecord.testing.store_contract.builders import digest

MILLION = 1_000_000
MOST_READS = 60


def found(store_a: Store, run_a: str, store_b: Store, run_b: str, **namespaces: str) -> Divergences:
    return find_divergences(*open_pair(store_a, run_a, store_b, run_b, **namespaces))


def told(divergences: Divergences) -> tuple[str | None, int, int | None, int | None] | None:
    first = divergences.first
    if first is None:
        return None
    assert isinstance(first, LaneDivergence), "lanes of these scripts differ, or nothing does"
    expected, actual = first.expected, first.actual
    return (
        first.pair.a or first.pair.b,
        first.place,
        None if expected is None else expected.seq,
        None if actual is None else actual.seq,
    )


# --- against comparing everything ---

LANES = ("main", "main>a", "main>a>a", "main>a#1")


@st.composite
def scripts(draw: st.DrawFn) -> list[Op]:
    """Every lane begins with a request of its own: then its name says which lane of the other run it is."""
    ops = []
    begun: set[str] = set()
    waiting = dict.fromkeys(LANES, 0)
    for number in range(draw(st.integers(0, 24))):
        lane = draw(st.sampled_from(LANES))
        what = draw(st.sampled_from(["ask", "answer", "answer-newest", "state", "note", "fail"]))
        if lane not in begun and what != "note":
            ops.append(ask(f"begin {lane}", lane))
            begun.add(lane)
            waiting[lane] += 1
        elif what == "ask":
            ops.append(ask(f"value-{number}", lane))
            waiting[lane] += 1
        elif what in ("state", "note"):
            ops.append(Op(what, f"value-{number}", lane))
        elif waiting[lane]:
            ops.append(Op(what, f"value-{number}", lane))
            waiting[lane] -= 1
    return ops


@st.composite
def pairs_of_scripts(draw: st.DrawFn) -> tuple[list[Op], list[Op], list[int], list[int]]:
    """A run, the run changed in places, and events of each to erase."""
    first = draw(scripts())
    second = list(first)
    for _ in range(draw(st.integers(0, 2))):
        if not second:
            break
        at = draw(st.integers(0, len(second) - 1))
        change = draw(st.sampled_from(["value", "cut", "insert"]))
        if change == "cut":
            second = second[:at]
        elif change == "insert":
            begun = ["main", *(op.lane for op in second[:at] if op.what == "ask")]
            second[at:at] = [Op("state", "other-value", draw(st.sampled_from(begun)))]
        elif not str(second[at].value).startswith("begin"):
            second[at] = second[at]._replace(value=f"other-{at}")
    erased = st.lists(st.integers(0, 24), max_size=2, unique=True)
    return first, second, draw(erased), draw(erased)


def erase(store: Store, namespace: str, numbers: list[int]) -> None:
    for number in numbers:
        try:
            erase_value(store, f"value-{number}", namespace, reason="asked for")
        except NotFound:
            continue  # no event of the script has it any more


@settings(max_examples=150, deadline=None)
@given(pairs_of_scripts())
def test_bisection_finds_what_comparing_everything_finds(given_pair: Any) -> None:
    first, second, erased_a, erased_b = given_pair
    store = MemoryStore()
    write(store, "one", first, "left")
    write(store, "two", second, "right")
    erase(store, "left", erased_a)
    erase(store, "right", erased_b)
    slow = compare_slowly(JournalReader(store, "one", "left"), JournalReader(store, "two", "right"))
    quick = found(store, "one", store, "two", namespace_a="left", namespace_b="right")
    assert told(quick) == slow.first or (slow.first is None and quick.first is quick.order)
    assert len(quick.unknown) == slow.unknown
    if not erased_a and not erased_b:
        assert all(count <= 4 + 2 * 6 for count in quick.reads.values()), quick.reads


# --- reads, counted ---


class Synthetic:
    """A store with one run of any length, digests computed when asked for: lane `main`, and a short lane `main>a`.

    Runs of one make are equal up to event `parts_at` of lane 0.
    """

    def __init__(self, length: int, parts_at: int, side: str) -> None:
        self._real = MemoryStore()
        create_header(self._real, "run", "default", {}, sources=FixedSources(side))
        self.length, self.parts_at, self.side = length, parts_at, side
        self.asked: list[tuple[str, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def _row(self, lane: str, place: int) -> EventRow:
        side = self.side if lane == "main" and place >= self.parts_at else "both"
        meaning, prefix = digest("match", side, place), digest("prefix", side, lane, place)
        return EventRow(
            place, f"e{place}", "StateUpdated", lane, place, b"", digest(place), b"s" * 16, meaning, prefix, None
        )

    def lanes(self, namespace: str, run: str, below: int | None = None) -> list[EventRow]:
        return [self._row("main", self.length), self._row("main>a", 5)]

    def lane_event(self, namespace: str, run: str, lane: str, place: int) -> EventRow | None:
        self.asked.append((lane, place))
        return self._row(lane, place)


@pytest.mark.parametrize("parts_at", [1, 2, 499_999, 777_777, 999_999, MILLION])
def test_two_runs_of_a_million_events_are_told_apart_by_at_most_sixty_reads_in_the_lane(parts_at: int) -> None:
    a, b = Synthetic(MILLION, parts_at, "a"), Synthetic(MILLION, parts_at, "b")
    divergences = found(a, "run", b, "run")  # type: ignore[arg-type]
    assert told(divergences) == ("main", parts_at, parts_at, parts_at)
    assert divergences.reads.keys() == {"main"}, "the lane that is equal was not looked into"
    assert divergences.reads["main"] <= MOST_READS
    assert divergences.reads["main"] == len(a.asked) + len(b.asked) + 2, "what the result says is what the stores saw"


@pytest.mark.parametrize(("length_a", "length_b"), [(MILLION, MILLION - 1), (17, MILLION), (MILLION, 1)])
def test_a_longer_run_is_found_to_go_on_where_the_other_ends(length_a: int, length_b: int) -> None:
    a, b = Synthetic(length_a, 2 * MILLION, "a"), Synthetic(length_b, 2 * MILLION, "b")
    divergences = found(a, "run", b, "run")  # type: ignore[arg-type]
    place = min(length_a, length_b) + 1
    expected, actual = (place, None) if length_a > length_b else (None, place)
    assert told(divergences) == ("main", place, expected, actual)
    assert divergences.reads["main"] <= 6


def test_reads_grow_with_the_logarithm_on_a_real_store(sqlite: Store) -> None:
    reads = []
    for length in (100, 10_000):
        for run, odd in (("one", "x"), ("two", "y")):
            ops = [Op("state", n) for n in range(length)]
            ops[length * 2 // 3] = Op("state", odd)
            write(sqlite, f"{run}-{length}", ops)
        divergences = found(sqlite, f"one-{length}", sqlite, f"two-{length}")
        place = length * 2 // 3 + 1
        assert told(divergences) == ("main", place, place, place)
        reads.append(divergences.reads["main"])
    assert reads[1] <= reads[0] + 2 * 8, "a hundred times as many events are seven halvings more"


@long
def test_a_million_real_events(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'long.db'}")
    for run in ("one", "two"):
        write(store, run, [Op("state", n if n != 654_320 else run) for n in range(MILLION)])
    divergences = found(store, "one", store, "two")
    assert told(divergences) == ("main", 654_321, 654_321, 654_321)
    assert divergences.reads["main"] <= MOST_READS
    store.close()


# --- what runs may be ---


def test_every_kind_of_store(store: Store) -> None:
    shared = [*calls(range(20)), *calls(range(5), "main>a"), *calls(range(7), "main>a#1")]
    write(store, "one", [*shared, *call("x", "main>a#1"), Op("end", 1)])
    write(store, "two", [*shared, *call("y", "main>a#1"), Op("end", 1)])
    divergences = found(store, "one", store, "two")
    assert told(divergences) == ("main>a#1", 15, 65, 65)
    assert divergences.reads.keys() == {"main>a#1"}


def test_runs_of_different_stores_and_namespaces(sqlite: Store, memory: Store) -> None:
    write(sqlite, "one", calls(range(9)), "there")
    write(memory, "one", calls([*range(8), "x"]), "here")
    assert told(found(sqlite, "one", memory, "one", namespace_a="there", namespace_b="here")) == ("main", 17, 17, 17)


def test_an_imported_run(memory: Store, sqlite: Store, tmp_path: Path) -> None:
    write(memory, "one", [*calls(range(9)), Op("end", "a")])
    write(memory, "two", [*calls(range(9)), Op("end", "b")])
    export_run(JournalReader(memory, "two"), tmp_path / "two.jsonl")
    imported = import_file(sqlite, tmp_path / "two.jsonl")
    assert told(found(memory, "one", sqlite, imported.run)) == ("main", 19, 19, 19)


def test_a_fork_parts_where_it_was_forked(memory: Store) -> None:
    original = write(memory, "one", calls(range(50)))
    head = original.event(60)
    parent = ParentRun(head=head.hash, relation="fork", run="one", seq=60)
    write(memory, "fork", [*calls(range(30)), *call("other")], parent=parent)
    assert told(found(memory, "one", memory, "fork")) == ("main", 61, 61, 61)


def test_bookkeeping_takes_no_part(memory: Store) -> None:
    write(memory, "one", calls(range(4)))
    write(memory, "two", [op for one in calls(range(4)) for op in (Op("note", 1), one)])
    assert found(memory, "one", memory, "two").first is None


def test_an_unknown_run_is_an_error(memory: Store) -> None:
    write(memory, "one", [])
    with pytest.raises(NotFound) as caught:
        open_pair(memory, "one", memory, "none")
    assert caught.value.code == "unknown_run"


def test_runs_under_different_rules_are_not_compared(memory: Store) -> None:
    write(memory, "one", calls([1]))
    write(memory, "two", calls([1]), volatile=[("*", "/output")])
    with pytest.raises(InvalidInput) as caught:
        open_pair(memory, "one", memory, "two")
    assert caught.value.code == "other_rules"


def test_digests_of_a_foreign_run_whose_rules_are_erased_are_not_believed(memory: Store, tmp_path: Path) -> None:
    volatile = [("*", "/output")]
    write(memory, "one", calls([1]), volatile=volatile)
    write(memory, "two", calls([1]), "other", volatile=volatile, facts={"who": "somebody-to-forget"})
    erase_value(memory, "somebody-to-forget", "other", reason="asked for")
    export_run(JournalReader(memory, "two", "other"), tmp_path / "two.jsonl")
    import_file(memory, tmp_path / "two.jsonl", "third")
    with pytest.raises(Refused) as caught:
        open_pair(memory, "one", memory, "two", namespace_b="third")
    assert caught.value.code == "rules_erased"


# --- lanes that belong together ---


def test_tasks_that_began_in_another_order_are_the_same_lanes(memory: Store) -> None:
    write(memory, "one", [ask("left", "main>a"), ask("right", "main>a#1"), answer(1, "main>a"), answer(2, "main>a#1")])
    write(memory, "two", [ask("right", "main>a"), ask("left", "main>a#1"), answer(1, "main>a#1"), answer(2, "main>a")])
    divergences = found(memory, "one", memory, "two")
    assert divergences.lanes == []
    assert {(pair.a, pair.b) for pair in divergences.pairs} == {
        ("main", "main"),
        ("main>a", "main>a#1"),
        ("main>a#1", "main>a"),
    }
    assert divergences.order is not None
    assert divergences.order.position == 1


def test_lanes_belong_together_by_their_first_request_though_they_part_later(memory: Store) -> None:
    write(memory, "one", [*calls(["left", 1], "main>a"), *calls(["right", 2], "main>a#1")])
    write(memory, "two", [*calls(["right", 3], "main>a"), *calls(["left", 4], "main>a#1")])
    divergences = found(memory, "one", memory, "two")
    assert [(one.pair.a, one.pair.b, one.place) for one in divergences.lanes] == [
        ("main>a", "main>a#1", 3),
        ("main>a#1", "main>a", 3),
    ]


def test_among_lanes_that_begin_alike_the_name_decides(memory: Store) -> None:
    begin = [ask("same", "main>left"), ask("same", "main>right")]
    write(memory, "one", [*begin, answer(1, "main>left"), answer(2, "main>right")])
    write(memory, "two", [*begin, answer(5, "main>left"), answer(1, "main>right")])
    divergences = found(memory, "one", memory, "two")
    told_lanes = [(one.pair.a, one.pair.b, one.place) for one in divergences.lanes]
    assert told_lanes == [("main>left", "main>left", 2), ("main>right", "main>right", 2)], (
        "not the two lanes that were answered 1"
    )


def test_among_lanes_that_begin_alike_those_that_did_the_same_belong_together(memory: Store) -> None:
    begin = [ask("same", "main>a"), ask("same", "main>a#1"), ask("same", "main>a#2")]
    write(memory, "one", [*begin, answer(1, "main>a"), answer(2, "main>a#1"), answer(3, "main>a#2")])
    write(memory, "two", [*begin, answer(2, "main>a"), answer(4, "main>a#1"), answer(1, "main>a#2")])
    divergences = found(memory, "one", memory, "two")
    assert {(pair.a, pair.b) for pair in divergences.pairs} >= {
        ("main>a", "main>a#2"),
        ("main>a#1", "main>a"),
        ("main>a#2", "main>a#1"),
    }
    assert [one.pair.a for one in divergences.lanes] == ["main>a#2"]


def test_a_lane_that_only_one_run_has(memory: Store) -> None:
    write(memory, "one", [*calls([1]), *calls([1], "main>a"), *calls([1, 2], "main>a>a")])
    write(memory, "two", calls([1]))
    divergences = found(memory, "one", memory, "two")
    assert [(one.pair.a, one.pair.b, one.place) for one in divergences.lanes] == [
        ("main>a", None, 1),
        ("main>a>a", None, 1),
    ]


# --- erased contents ---


def test_behind_a_content_that_was_erased_on_one_side_the_comparison_goes_on(memory: Store) -> None:
    write(memory, "one", calls(["alpha", "value-to-forget", "gamma", "delta"]), "left")
    write(memory, "two", calls(["alpha", "value-to-forget", "gamma", "other"]), "right")
    erase_value(memory, "value-to-forget", "left", reason="asked for")
    divergences = found(memory, "one", memory, "two", namespace_a="left", namespace_b="right")
    assert told(divergences) == ("main", 7, 7, 7)
    assert divergences.unknown == [(3, 3)]


def test_an_erased_event_is_still_of_its_kind(memory: Store) -> None:
    write(memory, "one", [*call("alpha"), Op("state", "value-to-forget"), *call("beta")], "left")
    write(memory, "two", [*call("alpha"), ask("beta"), Op("state", 1), answer("fine")], "right")
    erase_value(memory, "value-to-forget", "left", reason="asked for")
    divergences = found(memory, "one", memory, "two", namespace_a="left", namespace_b="right")
    assert told(divergences) == ("main", 3, 3, 3)
    assert divergences.unknown == []


def test_what_was_erased_on_both_sides_is_unknown_although_the_digests_are_equal(memory: Store) -> None:
    for run, value in (("one", "value-to-forget"), ("two", "other value-to-forget")):
        write(memory, run, calls(["alpha", value, "gamma"]))
    erase_value(memory, "value-to-forget", reason="asked for")
    divergences = found(memory, "one", memory, "two")
    assert divergences.first is None
    assert divergences.unknown == [(3, 3)]
